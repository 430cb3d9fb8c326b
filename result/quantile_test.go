package result

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestQuantile_isNumpys(t *testing.T) {
	// numpy.percentile(values, 100*p)
	values := []float64{1.5, 2.25, 7, 11, 11, 13.75, 40}
	for _, c := range []struct{ p, want float64 }{
		{0, 1.5}, {0.5, 11}, {0.9, 24.25}, {0.95, 32.125}, {0.99, 38.425}, {1, 40}, {0.3, 6.05},
	} {
		if got := Quantile(values, c.p); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("p%g: got %v, want %v", 100*c.p, got, c.want)
		}
	}
	if got := Quantile([]int64{7}, 0.99); got != 7 {
		t.Errorf("of one value: %v", got)
	}
	if got := Quantile([]float64{1, 2, math.Inf(1)}, 0.5); got != 2 {
		t.Errorf("of a value before an infinite one: %v", got)
	}
	if got := Quantile([]int64{}, 0.5); !math.IsNaN(got) {
		t.Errorf("of none: %v", got)
	}
}

func TestQuantile_liesBetweenItsNeighbours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(-1<<40, 1<<40), 1, 200).Draw(t, "values")
		p := rapid.Float64Range(0, 1).Draw(t, "p")
		slices.Sort(values)
		got := Quantile(values, p)
		below := 0
		for _, v := range values {
			if float64(v) <= got {
				below++
			}
		}
		if share := p * float64(len(values)-1); float64(below-1) < math.Floor(share) {
			t.Fatalf("%v has %d values at or below it, want more than %v", got, below, share)
		}
		if got < float64(values[0]) || got > float64(values[len(values)-1]) {
			t.Fatalf("%v is outside of the values", got)
		}
	})
}
