package quantile

import (
	"math"
	"testing"
)

// TestGamma holds values of Abramowitz and Stegun, tables 6.1 and 6.3, and identities.
func TestGamma(t *testing.T) {
	t.Parallel()
	const euler = 0.5772156649015329
	for _, c := range []struct{ got, want float64 }{
		{Digamma(1), -euler},
		{Digamma(0.5), -euler - 2*math.Ln2},
		{Digamma(20), 2.9705239922},
		{Trigamma(1), math.Pi * math.Pi / 6},
		{Trigamma(0.5), math.Pi * math.Pi / 2},
		{Trigamma(2), math.Pi*math.Pi/6 - 1},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("got %.12g, want %.12g", c.got, c.want)
		}
	}
	for _, x := range []float64{1e-3, 0.1, 0.5, 1, 2.5, 10, 300, 1e6} {
		if got := InverseTrigamma(Trigamma(x)); math.Abs(got/x-1) > 1e-6 {
			t.Errorf("InverseTrigamma(Trigamma(%g)) = %g", x, got)
		}
	}
}
