package objective

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/result/timeline"
)

// An interval has its quantile as often as it says, also where neighbours are alike.
func TestInterval_coverage(t *testing.T) {
	t.Parallel()
	const runs, confidence = 400, 0.95
	for _, c := range []struct {
		q, phi float64
		n      int
	}{{0.95, 0, 200}, {0.95, 0, 1000}, {0.5, 0, 100}, {0.95, 0.8, 1000}, {0.5, 0.8, 1000}} {
		inside := 0
		for seed := range uint64(runs) {
			random := rand.New(rand.NewPCG(seed, 1))
			values := make([]float64, c.n)
			x := random.NormFloat64()
			for i := range values {
				values[i] = x // standard normal, an autoregression of the first order
				x = c.phi*x + math.Sqrt(1-c.phi*c.phi)*random.NormFloat64()
			}
			low, high := Interval(values, c.q, confidence)
			truth := math.Sqrt2 * math.Erfinv(2*c.q-1)
			if low <= truth && truth <= high {
				inside++
			}
		}
		// 93 % of 400 is 1.8 standard errors under 95 %.
		if share := float64(inside) / runs; share < 0.93 {
			t.Errorf("q %.3g, phi %.3g, %d values: %.1f %% of the intervals have the quantile, want 95 %%", c.q, c.phi, c.n, 100*share)
		}
	}
}

// Too few values leave a side open, and failures raise the upper end.
func TestInterval_open(t *testing.T) {
	t.Parallel()
	values := func(n, failed int) []float64 {
		random := rand.New(rand.NewPCG(1, 1))
		all := make([]float64, n)
		for i := range all {
			all[i] = float64(random.IntN(1000))
			if i%max(1, n/max(1, failed)) == 0 && failed > 0 {
				all[i] = math.Inf(1)
			}
		}
		return all
	}
	for name, c := range map[string]struct {
		values    []float64
		low, high bool // whether they are finite
	}{
		"none":       {nil, false, false},
		"one":        {[]float64{1}, false, false},
		"40":         {values(40, 0), true, false}, // 0.95^40 is 13 %
		"400":        {values(400, 0), true, true},
		"a tenth":    {values(400, 40), false, false}, // of them failed: the p95 is infinite
		"few failed": {values(2000, 20), true, true},
	} {
		low, high := Interval(c.values, 0.95, 0.95)
		if got := !math.IsInf(low, 0); got != c.low {
			t.Errorf("%s: from %g", name, low)
		}
		if got := !math.IsInf(high, 0); got != c.high {
			t.Errorf("%s: to %g", name, high)
		}
	}
}

// The columns of a trial are the intervals of its plateau, a failed request as infinite;
// what has no figure has no interval.
func TestTrial_Intervals(t *testing.T) {
	t.Parallel()
	requests := make([]result.Request, 400)
	values := make([]float64, len(requests))
	random := rand.New(rand.NewPCG(1, 1))
	for i := range requests {
		sent := time.Duration(i) * time.Second
		ttft := time.Duration(random.IntN(1000)) * time.Millisecond
		requests[i] = result.Request{
			Sent: sent, Scheduled: sent, FirstToken: sent + ttft, LastToken: sent + ttft, FirstOutput: result.Never, End: sent + ttft,
			CompletionTokens: 1, Status: result.Completed, Phase: result.Plateau,
		}
		if values[i] = float64(ttft / time.Millisecond); i == 7 {
			requests[i].Status, values[i] = result.Failed, math.Inf(1)
		}
	}
	o := summary.Options{Span: timeline.Span{To: 400 * time.Second, Steady: true}}
	row, _ := summary.Of(requests, o)
	Of(requests, o).Intervals(row)
	for name, q := range map[string]float64{"p50_ttft_ms": 0.5, "p95_ttft_ms": 0.95, "p99_e2e_ms": 0.99} {
		low, high := Interval(values, q, 0.95)
		if row[name+"_low"] != low {
			t.Errorf("%s_low is %v, want %v", name, row[name+"_low"], low)
		}
		if got, ok := row[name+"_high"]; ok == math.IsInf(high, 1) || ok && got != high {
			t.Errorf("%s_high is %v, want %v", name, got, high)
		}
	}
	if v, ok := row["p50_ttfo_ms_low"]; ok {
		t.Errorf("p50_ttfo_ms_low is %v without a value", v)
	}
}
