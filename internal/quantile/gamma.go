package quantile

import "math"

// Digamma returns the derivative of the logarithm of the gamma function at x above 0
// (Abramowitz and Stegun, 6.3.5 and 6.3.18), to 1e-10.
func Digamma(x float64) float64 {
	sum := 0.0
	for ; x < 10; x++ {
		sum -= 1 / x
	}
	y := 1 / (x * x)
	return sum + math.Log(x) - 1/(2*x) - y*(1./12-y*(1./120-y*(1./252-y/240)))
}

// Trigamma returns the derivative of [Digamma] (Abramowitz and Stegun, 6.4.6 and 6.4.12).
func Trigamma(x float64) float64 {
	sum := 0.0
	for ; x < 10; x++ {
		sum += 1 / (x * x)
	}
	y := 1 / (x * x)
	return sum + 1/x + y/2 + y/x*(1./6-y*(1./30-y*(1./42-y/30)))
}

// InverseTrigamma returns where [Trigamma] has a value above 0.
func InverseTrigamma(value float64) float64 {
	// Trigamma falls from above 1/x^2 to 1/x.
	low, high := math.Log(1/(2*math.Sqrt(value)+2*value)), math.Log(2/value+2)
	return math.Exp(invert(func(l float64) float64 { return -Trigamma(math.Exp(l)) }, -value, low, high))
}
