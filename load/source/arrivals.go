package source

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Arrivals is how the requests of an open loop are spread over time.
type Arrivals string

// The kinds of arrivals. The zero value is Poisson.
const (
	// Constant sends at equal distances, the first at once.
	Constant Arrivals = "constant"
	// Poisson sends after exponential gaps: independent users.
	Poisson Arrivals = "poisson"
	// Gamma sends after gamma gaps whose coefficient of variation is
	// 1/sqrt(burstiness).
	Gamma Arrivals = "gamma"
)

func (a Arrivals) check(burstiness float64) error {
	switch a {
	case "", Constant, Poisson:
		if burstiness != 0 && burstiness != 1 {
			return fmt.Errorf("burstiness has no meaning for %s arrivals", a)
		}
	case Gamma:
		if burstiness != 0 && !(burstiness >= 0.01 && burstiness <= 1000) {
			return fmt.Errorf("burstiness %g is not between 0.01 and 1000", burstiness)
		}
	default:
		return fmt.Errorf("arrivals %q are not known: constant, poisson or gamma", a)
	}
	return nil
}

// offsets returns at most n send times in order, all below end where that is
// not 0. Gaps have the mean 1/rate.
func (a Arrivals) offsets(r *rng, rate, burstiness float64, n int, end time.Duration) []time.Duration {
	if burstiness == 0 {
		burstiness = 1
	}
	size := n
	if end > 0 {
		size = min(n, int(rate*end.Seconds()*1.1)+16)
	}
	out := make([]time.Duration, 0, size)
	var t float64 // seconds
	for i := range n {
		switch a {
		case Constant:
			t = float64(i) / rate
		case Gamma:
			t += r.gamma(burstiness) / (burstiness * rate)
		default:
			t += r.exp() / rate
		}
		// Past what a Duration holds nobody waits; and it must not wrap.
		if t > float64(math.MaxInt64/int64(time.Second)) {
			return out
		}
		at := time.Duration(math.Round(t * float64(time.Second)))
		if end > 0 && at >= end {
			return out
		}
		out = append(out, at)
	}
	return out
}

// An rng draws numbers that depend on nothing but its seed: its generator and
// its distributions are written down here or in the generator's definition, so
// that no release of Go changes a plan's load.
type rng struct{ src *rand.PCG }

// rng returns a generator of its own for each purpose.
func (c *Config) rng(purpose string) *rng {
	hi, lo := c.digest(purpose)
	return &rng{rand.NewPCG(hi, lo)}
}

// digest is what sets this trial's purpose apart from every other.
func (c *Config) digest(purpose string) (hi, lo uint64) {
	h := sha256.Sum256(fmt.Appendf(nil, "sweep load\n%d\n%q\n%d\n%q", c.Seed, c.Cell, c.Trial, purpose))
	return binary.BigEndian.Uint64(h[:]), binary.BigEndian.Uint64(h[8:])
}

// uniform is in [0, 1).
func (r *rng) uniform() float64 { return float64(r.src.Uint64()>>11) / (1 << 53) }

// exp is exponential with mean 1, by inversion.
func (r *rng) exp() float64 { return -math.Log(1 - r.uniform()) }

// normal is standard normal, by Box and Muller's method.
func (r *rng) normal() float64 {
	return math.Sqrt(2*r.exp()) * math.Cos(2*math.Pi*r.uniform())
}

// gamma has the given shape and scale 1 (Marsaglia and Tsang, "A simple method
// for generating gamma variables", 2000).
func (r *rng) gamma(shape float64) float64 {
	if shape < 1 {
		return r.gamma(shape+1) * math.Pow(1-r.uniform(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.normal()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		if math.Log(1-r.uniform()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
