package summary

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sweep.dev/sweep/result"
)

// TestQuantiles_areThoseOfTheSortedValues holds them against result.Quantile,
// infinite values written out.
func TestQuantiles_areThoseOfTheSortedValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 2, 3, fewValues, fewValues + 1, 20_000}).Draw(t, "n")
		low := rapid.Int64Range(-1<<40, 1<<40).Draw(t, "low")
		span := rapid.SampledFrom([]int64{1, 2, 1<<radixBits - 1, 1 << radixBits, 1<<radixBits + 1, 1 << 30, 1 << 45}).Draw(t, "span")
		crowd := rapid.Bool().Draw(t, "crowd") // most of them in one place
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		values := make([]int64, n)
		for i := range values {
			if values[i] = low + r.Int64N(span); crowd && i%10 > 0 {
				values[i] = low + r.Int64N(min(span, 3))
			}
		}
		before := slices.Clone(values)
		lost := rapid.SampledFrom([]int{0, 0, 1, n / 20, n}).Draw(t, "lost")
		ps := []float64{0, rapid.Float64Range(0, 0.5).Draw(t, "p"), 0.5, 0.9, 0.95, 0.99, 1}
		got := quantiles(values, momentsOf(values), lost, ps...)
		if !slices.Equal(values, before) {
			t.Fatal("the values were changed")
		}
		sorted := make([]float64, 0, n+lost)
		for _, v := range slices.Sorted(slices.Values(values)) {
			sorted = append(sorted, float64(v))
		}
		for range lost {
			sorted = append(sorted, math.Inf(1))
		}
		for i, p := range ps {
			want := result.Quantile(sorted, p)
			if math.IsNaN(want) { // infinity less infinity, or times 0
				h := int(p * float64(len(sorted)-1))
				if want = sorted[h]; p*float64(len(sorted)-1) > float64(h) {
					want = sorted[h+1]
				}
			}
			if got[i] != want {
				t.Fatalf("p%g of %d values and %d lost: %v, want %v", 100*p, n, lost, got[i], want)
			}
		}
	})
}

func TestQuantiles_ofAnyInt64(t *testing.T) {
	values := make([]int64, 3*fewValues)
	for i := range values {
		values[i] = []int64{math.MinInt64, -1, 0, math.MaxInt64}[i%4]
	}
	got := quantiles(values, momentsOf(values), 0, 0, 0.3, 0.6, 1)
	if want := []float64{math.MinInt64, -1, 0, math.MaxInt64}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMoments(t *testing.T) {
	m := momentsOf([]int64{4, -2, 10})
	if want := (moments{mean: 4, std: math.Sqrt(24), min: -2, max: 10}); m != want {
		t.Errorf("got %+v, want %+v", m, want)
	}
}

// BenchmarkQuantiles10M is the percentiles of ten million gaps, some of them
// with a prefill in between, with all that is said of them.
func BenchmarkQuantiles10M(b *testing.B) {
	const n = 10_000_000
	values := make([]int64, n)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range values {
		values[i] = int64(20_000+300*r.NormFloat64()) * 1000
		if r.IntN(20) == 0 {
			values[i] += int64(180_000*r.ExpFloat64()) * 1000
		}
	}
	for b.Loop() {
		m := momentsOf(values)
		if q := quantiles(values, m, 0, 0.5, 0.9, 0.95, 0.99); q[0] < 19e6 || q[0] > 21e6 {
			b.Fatal(q)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/sample")
}
