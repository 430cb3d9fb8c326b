package models

import "math"

// An AR1 is a stationary series of which each value depends on the one before:
// x(i) - Mean = Phi (x(i-1) - Mean) + noise.
type AR1 struct {
	Phi      float64 // correlation of neighbours, below 1
	Mean, SD float64 // of a single value
}

// Values returns n values of the series.
func (a AR1) Values(seed uint64, n int) []float64 {
	r := stream(seed, 1)
	noise := a.SD * math.Sqrt(1-a.Phi*a.Phi)
	out := make([]float64, n)
	x := a.SD * r.NormFloat64()
	for i := range out {
		out[i] = a.Mean + x
		x = a.Phi*x + noise*r.NormFloat64()
	}
	return out
}

// Uniform returns n independent values between 0 and 1.
func Uniform(seed uint64, n int) []float64 {
	r := stream(seed, 5)
	out := make([]float64, n)
	for i := range out {
		out[i] = r.Float64()
	}
	return out
}

// Normal returns n independent values of the standard normal distribution.
func Normal(seed uint64, n int) []float64 {
	r := stream(seed, 6)
	out := make([]float64, n)
	for i := range out {
		out[i] = r.NormFloat64()
	}
	return out
}
