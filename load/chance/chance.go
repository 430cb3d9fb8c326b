// Package chance draws numbers by chance that depend on nothing but a seed. Its
// generator is PCG-DXSM of math/rand/v2, whose output is fixed, and its
// distributions are written down here, so that no release of Go changes what a
// plan sends.
package chance

import (
	"math"
	"math/rand/v2"
)

// A Rand is a stream of numbers. It is for one goroutine.
type Rand struct{ src rand.PCG }

// New returns the stream of a seed of 128 bits.
func New(hi, lo uint64) *Rand {
	var r Rand
	r.src.Seed(hi, lo)
	return &r
}

// Uint64 is uniform over all of its values.
func (r *Rand) Uint64() uint64 { return r.src.Uint64() }

// Uniform returns a number in [0, 1), a multiple of 2^-53.
func (r *Rand) Uniform() float64 { return float64(r.src.Uint64()>>11) / (1 << 53) }

// Exp is exponential with mean 1, by inversion.
func (r *Rand) Exp() float64 { return -math.Log(1 - r.Uniform()) }

// Normal is standard normal, by Box and Muller's method.
func (r *Rand) Normal() float64 {
	return math.Sqrt(2*r.Exp()) * math.Cos(2*math.Pi*r.Uniform())
}

// Gamma has the given shape and scale 1 (Marsaglia and Tsang, "A simple method
// for generating gamma variables", 2000).
func (r *Rand) Gamma(shape float64) float64 {
	if shape < 1 {
		return r.Gamma(shape+1) * math.Pow(1-r.Uniform(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.Normal()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		if math.Log(1-r.Uniform()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// Scramble returns a bijection on 64 bits (the finalizer of SplitMix64): different
// numbers stay different, and near ones come far apart.
func Scramble(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
