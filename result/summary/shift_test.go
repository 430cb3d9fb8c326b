package summary

import (
	"testing"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/timeline"
)

// A shift moves each value, the rank of each percentile and each rate, and nothing gets
// below 0.
func TestOf_shift(t *testing.T) {
	var all []result.Request
	for n := range 101 {
		at := time.Duration(n) * 10 * time.Millisecond
		ttft := time.Duration(1+n) * time.Millisecond
		all = append(all, result.Request{
			N: n, Phase: result.Plateau, Sent: at, Scheduled: at, Status: result.Completed, CompletionTokens: 11, TokenSource: "usage",
			ChunkUS: []int32{int32(ttft / time.Microsecond), 100_000}, FirstToken: at + ttft, FirstOutput: at + ttft, LastToken: at + ttft + 100*time.Millisecond, End: at + ttft + 100*time.Millisecond,
		})
	}
	o := Options{Span: timeline.Span{Steady: true, To: 3 * time.Second, Last: 3 * time.Second}}
	own, _ := Of(all, o)
	o.Shift = &Shift{
		Of: func(_ *result.Request, latency string) time.Duration {
			return map[string]time.Duration{"ttft": 5 * time.Millisecond, "tpot": -time.Second}[latency]
		},
		Rank: func(latency string) float64 { return map[string]float64{"e2e": 0.04, "icl": 0.1}[latency] },
		Rate: -0.5,
	}
	row, _ := Of(all, o)
	for column, want := range map[string]float64{
		"p50_ttft_ms": own.Float("p50_ttft_ms") + 5, "p50_tpot_ms": 0, "p50_e2e_ms": own.Float("p50_e2e_ms") + 4,
		"p95_e2e_ms": own.Float("p95_e2e_ms") + 4, "throughput_tok_s": own.Float("throughput_tok_s") / 2, "request_throughput": own.Float("request_throughput") / 2,
		"p95_ttfo_ms": own.Float("p95_ttfo_ms"),
	} {
		if got := row.Float(column); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%s is %v, want %v", column, got, want)
		}
	}
	if row["p95_icl_ms"] != nil || !row.Infinite("p95_icl_ms") || row["p50_icl_ms"] == nil {
		t.Errorf("beyond all values: %v, infinite %v", row["p95_icl_ms"], row["infinite"])
	}
}
