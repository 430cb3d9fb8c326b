package timeline

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestTruncation(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	series := func(n int, f func(i int) float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = f(i)
		}
		return v
	}
	for _, c := range []struct {
		name        string
		values      []float64
		least, most int
		moving      bool
	}{
		{"constant", series(100, func(int) float64 { return 3 }), 0, 0, false},
		{"a step", series(200, func(i int) float64 {
			if i < 30 {
				return 10 + r.Float64()
			}
			return r.Float64()
		}), 30, 45, false},
		{"it dies away", series(400, func(i int) float64 { return 5*math.Exp(-float64(i)/30) + r.Float64() }), 50, 150, false},
		{"it rises to the end", series(400, func(i int) float64 { return float64(i) + 20*r.NormFloat64() }), 0, 0, true},
		{"it dies away after more than half", series(200, func(i int) float64 {
			if i < 130 {
				return 10 + r.Float64()
			}
			return r.Float64()
		}), 0, 0, true},
	} {
		if cut, moving := truncation(c.values, 0); cut < c.least || cut > c.most || moving != c.moving {
			t.Errorf("%s: cut %d, moving %v; want %d to %d, %v", c.name, cut, moving, c.least, c.most, c.moving)
		}
	}
}

// A part of the round of a closed loop's slots is steadier than the whole of it, which is
// no sign that the load had not settled; one that settles late is seen all the same.
func TestTruncation_rounds(t *testing.T) {
	const slots = 128
	round := make([]float64, 4*slots)
	for i := range round {
		round[i] = 30 + 40*float64(i/(slots/2)%2) // half of the slots wait for the others' prompts
	}
	if _, moving := truncation(round, slots); moving {
		t.Error("rounds that repeat move")
	}
	if _, moving := truncation(round, 0); !moving {
		t.Error("rounds are steady without their length: the case is none")
	}
	for i := range 100 {
		round[i] += 200
	}
	if cut, moving := truncation(round, slots); cut != slots || moving {
		t.Errorf("cut %d, moving %v; want a whole round", cut, moving)
	}
	for i := range len(round) * 5 / 8 {
		round[i] += 200
	}
	if _, moving := truncation(round, slots); !moving {
		t.Error("a load that settles after more than half does not move")
	}
}

// TestTruncation_noise counts how often a series without a beginning is cut, and
// how often it is taken for one that moves.
func TestTruncation_noise(t *testing.T) {
	for name, next := range map[string]func(r *rand.Rand, last float64) float64{
		"normal":     func(r *rand.Rand, _ float64) float64 { return r.NormFloat64() },
		"lognormal":  func(r *rand.Rand, _ float64) float64 { return math.Exp(r.NormFloat64()) },
		"correlated": func(r *rand.Rand, last float64) float64 { return .7*last + r.NormFloat64() },
	} {
		const runs = 400
		moved, cut := 0, 0.0
		for run := range runs {
			r := rand.New(rand.NewPCG(uint64(run), 3))
			values, last := make([]float64, 150), 0.0
			for i := range values {
				last = next(r, last)
				values[i] = last
			}
			n, moving := truncation(values, 0)
			if moving {
				moved++
			}
			cut += float64(n) / float64(len(values)) / runs
		}
		if moved > runs/20 || cut > .15 {
			t.Errorf("%s: %d of %d move, %.2f of it is cut", name, moved, runs, cut)
		}
	}
}
