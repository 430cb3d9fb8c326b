package summary

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSortRadix_isSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{0, 1, 2, 8191, 8192, 20_000}).Draw(t, "n")
		low := rapid.Int64().Draw(t, "low")
		span := rapid.SampledFrom([]int64{0, 1, 2047, 2048, 1 << 30, math.MaxInt64}).Draw(t, "span")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		values := make([]int64, n)
		for i := range values {
			if span > 0 {
				values[i] = low + r.Int64N(span) // may wrap: any int64 is a value
			} else {
				values[i] = low
			}
		}
		want := slices.Sorted(slices.Values(values))
		sortRadix(values, make([]int64, n))
		if !slices.Equal(values, want) {
			t.Fatalf("%d values from %d over %d are not sorted", n, low, span)
		}
	})
}
