package timeline

import (
	"math/rand/v2"
	"slices"
	"testing"

	"sweep.dev/sweep/result"
)

// The selected median is that of the sorted values, also of few, of equal and of ordered ones.
func TestSelectMedian(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		values := make([]float64, 1+r.IntN(60))
		different := 1 + r.IntN(100)
		for i := range values {
			values[i] = float64(r.IntN(different)) / 7
		}
		sorted := slices.Sorted(slices.Values(values))
		want := result.Quantile(sorted, 0.5)
		if got := selectMedian(slices.Clone(values)); got != want {
			t.Fatalf("%v: %v, want %v", values, got, want)
		}
		if got := selectMedian(sorted); got != want {
			t.Fatalf("sorted %v: %v, want %v", values, got, want)
		}
	}
}
