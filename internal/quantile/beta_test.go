package quantile

import (
	"math"
	"testing"
)

// TestBeta_large: the quantile is found for parameters of any size, and goes on where
// one way to compute it takes over from another.
func TestBeta_large(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{1e-4, 0.001, 0.01, 0.05, 0.5, 0.95} {
		for _, p := range []float64{0.001, 0.05, 0.5, 0.975, 0.9999} {
			last, sd := math.NaN(), 0.0
			for n := 100.0; n < 1e9; n *= 1.3 {
				a, b := share*n+1, (1-share)*n
				x := Beta(p, a, b)
				if math.IsNaN(x) || x <= 0 || x >= 1 {
					t.Fatalf("Beta(%g, %g, %g) = %g", p, a, b, x)
				}
				// In standard deviations from the mean it changes slowly.
				mean := a / (a + b)
				sd = math.Sqrt(mean * (1 - mean) / (a + b + 1))
				z := (x - mean) / sd
				if a > 50 && b > 50 && math.Abs(z-last) > 0.1 {
					t.Errorf("Beta(%g, %g, %g) is %.4g standard deviations from its mean, and %.4g just before", p, a, b, z, last)
				}
				last = z
			}
		}
	}
}
