package quantile

import (
	"math"
	"testing"
)

// The values are those of printed tables.
func TestQuantiles(t *testing.T) {
	for name, c := range map[string]struct{ got, want float64 }{
		"t, 95 % of 9":            {Student(0.95, 9), 1.8331},
		"t, 97.5 % of 9":          {Student(0.975, 9), 2.2622},
		"t, 99.5 % of 9":          {Student(0.995, 9), 3.2498},
		"t, 99.95 % of 1":         {Student(0.9995, 1), 636.6192},
		"t, 97.5 % of 19":         {Student(0.975, 19), 2.0930},
		"chi-square, 95 % of 1":   {ChiSquare(0.95, 1), 3.8415},
		"chi-square, 95 % of 9":   {ChiSquare(0.95, 9), 16.9190},
		"beta, 97.5 % of 3 and 8": {Beta(0.975, 3, 8), 0.5561},
		"normal, 97.5 %":          {Normal(0.975), 1.9600},
	} {
		if math.Abs(c.got-c.want) > 1e-4 {
			t.Errorf("%s: %.5f, want %.4f", name, c.got, c.want)
		}
	}
}
