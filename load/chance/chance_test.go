package chance

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The numbers of a seed are part of what a plan means: they stay what they are.
func TestRand_fixed(t *testing.T) {
	r := New(1, 2)
	if a, b := r.Uint64(), r.Uint64(); a != 0xc4f5a58656eef510 || b != 0x9dcec3ad077dec6c {
		t.Errorf("%#x, %#x", a, b)
	}
	r = New(1, 2)
	if u := r.Uniform(); math.Abs(u-0.7693732703) > 1e-9 {
		t.Errorf("uniform %.10f", u)
	}
	if s := Scramble(1); s != 0x5692161d100b05e5 {
		t.Errorf("scrambled %#x", s)
	}
}

func TestScramble(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		if (a == b) != (Scramble(a) == Scramble(b)) {
			t.Fatalf("%d and %d", a, b)
		}
	})
}

// ks returns the largest distance between a sample and the law that it should have.
func ks(sample []float64, cdf func(float64) float64) float64 {
	slices.Sort(sample)
	d, n := 0.0, float64(len(sample))
	for i, x := range sample {
		p := cdf(x)
		d = max(d, p-float64(i)/n, float64(i+1)/n-p)
	}
	return d
}

// The laws, by the test of Kolmogorov and Smirnov: for a true sample of n its
// distance is above 1.95/sqrt(n) once in a thousand times, and the seed is fixed.
func TestRand_laws(t *testing.T) {
	const n = 20_000
	for _, c := range []struct {
		name string
		draw func(*Rand) float64
		cdf  func(float64) float64
	}{
		{"uniform", (*Rand).Uniform, func(x float64) float64 { return x }},
		{"exponential", (*Rand).Exp, func(x float64) float64 { return 1 - math.Exp(-x) }},
		{"normal", (*Rand).Normal, func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }},
		{"gamma of 1/2", func(r *Rand) float64 { return r.Gamma(0.5) }, func(x float64) float64 { return math.Erf(math.Sqrt(x)) }},
		{"gamma of 1", func(r *Rand) float64 { return r.Gamma(1) }, func(x float64) float64 { return 1 - math.Exp(-x) }},
		{"gamma of 4", func(r *Rand) float64 { return r.Gamma(4) }, func(x float64) float64 {
			return 1 - math.Exp(-x)*(1+x+x*x/2+x*x*x/6)
		}},
	} {
		r := New(7, 11)
		sample := make([]float64, n)
		for i := range sample {
			sample[i] = c.draw(r)
		}
		if d, limit := ks(sample, c.cdf), 1.95/math.Sqrt(n); d > limit {
			t.Errorf("%s: the sample is %.4f from its law, more than %.4f", c.name, d, limit)
		}
	}
}
