package summary

import (
	"math"
	"testing"
)

// TestMinSamples holds the bound to the published table of early stopping.
func TestMinSamples(t *testing.T) {
	percentiles := []float64{0.90, 0.95, 0.99, 0.999}
	for _, c := range []struct {
		confidence float64
		over       int
		want       []int
	}{
		{0.95, 0, []int{29, 59, 299, 2995}},
		{0.95, 1, []int{46, 93, 473, 4742}},
		{0.95, 5, []int{103, 208, 1049, 10511}},
		{0.99, 0, []int{44, 90, 459, 4603}},
		{0.99, 1, []int{64, 130, 662, 6636}},
		{0.99, 5, []int{127, 259, 1307, 13105}},
	} {
		for i, p := range percentiles {
			if got := minSamples(p, c.confidence, c.over); got != c.want[i] {
				t.Errorf("p%g at %g with %d over: %d, want %d", 100*p, c.confidence, c.over, got, c.want[i])
			}
		}
	}
	for p, want := range map[float64]int{0.50: 11, 0.90: 64, 0.95: 130, 0.99: 662} {
		if got := MinRequests(p); got != want {
			t.Errorf("p%g needs %d requests, want %d", 100*p, got, want)
		}
	}
}

func TestBinomialCDF(t *testing.T) {
	// By hand: 3 draws of 1/4 have 27/64, 54/64, 63/64, 1.
	for k, want := range []float64{27.0 / 64, 54.0 / 64, 63.0 / 64, 1} {
		if got := binomialCDF(k, 3, 0.25); math.Abs(got-want) > 1e-12 {
			t.Errorf("at most %d: %v, want %v", k, got, want)
		}
	}
}
