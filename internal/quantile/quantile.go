// Package quantile has the quantiles of distributions that rules of statistics need.
package quantile

import (
	"math"

	"github.com/aclements/go-moremath/mathx"
	"github.com/aclements/go-moremath/stats"
)

// Student returns the p-quantile of Student's t distribution with df degrees of freedom, p at
// least 0.5. Its share is concave there, so that Newton's steps from the normal quantile,
// which is less, never go too far.
func Student(p, df float64) float64 {
	t, x := stats.TDist{V: df}, Normal(p)
	for range 200 {
		step := (p - t.CDF(x)) / t.PDF(x)
		if !(step > 1e-14*x) {
			break
		}
		x += step
	}
	return x
}

// ChiSquare returns the p-quantile of the chi-square distribution with df degrees of freedom,
// whose share up to x is the regularized gamma function of df/2 and x/2.
func ChiSquare(p, df float64) float64 {
	return upwards(func(x float64) float64 { return mathx.GammaInc(df/2, x/2) }, p)
}

// Beta returns the p-quantile of the beta distribution. Where its function takes too long
// to converge it is approximated, to a hundredth of a standard deviation.
func Beta(p, a, b float64) float64 {
	const large, skewed = 3000, 200
	switch {
	case max(a, b) <= large:
	case b < a:
		return 1 - Beta(1-p, b, a)
	case a <= skewed:
		// Bolshev: (2b+a-1) x/(2-x) is nearly of a gamma distribution.
		y := upwards(func(x float64) float64 { return mathx.GammaInc(a, x) }, p)
		return 2 * y / (2*b + a - 1 + y)
	default:
		// Cornish and Fisher: the normal distribution, corrected by the skewness.
		z, sum := Normal(p), a+b
		skewness := 2 * (b - a) * math.Sqrt(sum+1) / ((sum + 2) * math.Sqrt(a*b))
		return a/sum + math.Sqrt(a*b/(sum+1))/sum*(z+(z*z-1)*skewness/6)
	}
	return invert(func(x float64) float64 { return mathx.BetaInc(x, a, b) }, p, 0, 1)
}

// Normal returns the p-quantile of the standard normal distribution.
func Normal(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// upwards returns where a function that rises from 0 on has a value.
func upwards(f func(float64) float64, value float64) float64 {
	high := 1.0
	for f(high) < value {
		high *= 2
	}
	return invert(f, value, 0, high)
}

// invert returns where a rising function has a value, by Chandrupatla's method (Advances in
// Engineering Software 28, 1997): inverse quadratic interpolation where that is safe, and
// bisection elsewhere. It takes about ten calls of f where bisection alone takes sixty.
func invert(f func(float64) float64, value, low, high float64) float64 {
	const precise, tiny = 1e-14, 1e-18
	a, b := high, low // the latest, and one on the other side; c is the one before
	fa, fb := f(a)-value, f(b)-value
	if !(fa > 0 && fb < 0) { // the value is that of an end, or none
		return bisect(f, value, low, high)
	}
	var c, fc float64
	t := 0.5
	for range 200 {
		x := a + t*(b-a)
		fx := f(x) - value
		if (fx > 0) == (fa > 0) {
			c, fc = a, fa
		} else {
			c, fc, b, fb = b, fb, a, fa
		}
		a, fa = x, fx
		best := b
		if math.Abs(fa) < math.Abs(fb) {
			best = a
		}
		least := (precise*math.Abs(best) + tiny) / math.Abs(b-a)
		if fa == 0 || !(least < 0.5) {
			return best
		}
		xi, phi := (a-b)/(c-b), (fa-fb)/(fc-fb)
		t = 0.5
		if phi*phi < xi && (1-phi)*(1-phi) < 1-xi {
			t = fa/(fb-fa)*fc/(fb-fc) + (c-a)/(b-a)*fa/(fc-fa)*fb/(fc-fb)
		}
		t = min(1-least, max(least, t))
	}
	return (a + b) / 2
}

// bisect is invert by bisection.
func bisect(f func(float64) float64, value, low, high float64) float64 {
	for range 60 {
		mid := (low + high) / 2
		if f(mid) < value {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}
