package summary

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/timeline"
)

// failed returns a request that broke after some chunks.
func failed(sent time.Duration, asked int, gaps ...int) result.Request {
	r := streamed(sent, result.Unknown, gaps...)
	r.Status, r.MaxTokens, r.TokenSource = result.Failed, asked, ""
	if len(gaps) == 0 {
		r.FirstByte, r.FirstToken, r.FirstOutput, r.LastToken, r.FirstTokenChunk = result.Never, result.Never, result.Never, result.Never, -1
	}
	return r
}

// steady is the span of requests that are all on the plateau.
var steady = timeline.Span{To: time.Hour, Last: time.Hour, Steady: true}

func TestOf_failuresAreInfinite(t *testing.T) {
	var requests []result.Request
	for i := range 9 {
		r := streamed(0, 3, 100+i, 10, 20)
		r.MaxTokens = 3
		requests = append(requests, r)
	}
	requests = append(requests, failed(0, 3, 1, 1)) // quick, until it broke
	row, _ := Of(requests, Options{Span: steady})
	check(t, row, result.Row{
		"plateau_requests": int64(10),
		"p50_ttft_ms":      104.5, "p50_ttft_ms_completed": 104.0, "p50_ttft_ms_whole": 104.0, // of ten, the last infinite
		"p90_ttft_ms": nil, "p90_ttft_ms_completed": 107.2, "p99_e2e_ms": nil,
		"mean_ttft_ms": nil, "mean_ttft_ms_completed": 104.0, "max_ttft_ms": nil, "std_ttft_ms": nil, "min_ttft_ms": 100.0,
		// 18 gaps and two that are missing.
		"p50_icl_ms": 20.0, "p50_icl_ms_completed": 15.0, "p90_icl_ms": nil, "p90_icl_ms_completed": 20.0, "p50_itl_ms": 20.0,
		"p50_user_tok_s":      1000 / 15.0,
		"p50_schedule_lag_ms": 0.0, "max_schedule_lag_ms": 0.0,
	})
	for name, want := range map[string]bool{
		"p90_ttft_ms": true, "mean_ttft_ms": true, "p99_e2e_ms": true, "p90_icl_ms": true, "p99_itl_ms": true,
		"p50_ttft_ms": false, "min_ttft_ms": false, "p90_ttft_ms_completed": false, "p90_ttft_ms_whole": false,
		"max_schedule_lag_ms": false, "goodput_req_s": false,
	} {
		if got := row.Infinite(name); got != want {
			t.Errorf("%s infinite: %v, want %v", name, got, want)
		}
	}

	planned, given := streamed(0, 3, 5, 5), streamed(0, 3, 5, 5)
	planned.Status, planned.Planned, given.Status = result.Cancelled, true, result.Cancelled
	requests = append(requests[:9:9], planned, given)
	row, _ = Of(requests, Options{Span: steady})
	check(t, row, result.Row{"p50_ttft_ms": 104.0, "p99_ttft_ms": 107.92, "cancelled": int64(2), "cancelled_planned": int64(1), "infinite": nil})
	row, _ = Of(requests, Options{Span: steady, EndedEarly: true})
	check(t, row, result.Row{"p50_ttft_ms": 104.5, "p99_ttft_ms": nil})

	// If nothing was completed, that is what there is to know. Elsewhere a latency
	// that no completed request has is not measured.
	row, _ = Of([]result.Request{failed(0, 3)}, Options{Span: steady})
	if !row.Infinite("p95_ttft_ms") || !row.Infinite("min_e2e_ms") || row.Infinite("p95_ttft_ms_whole") {
		t.Errorf("nothing was completed, and infinite are %v", row["infinite"])
	}
	unstreamed := streamed(0, 3)
	unstreamed.FirstToken, unstreamed.FirstOutput, unstreamed.LastToken, unstreamed.FirstTokenChunk = result.Never, result.Never, result.Never, -1
	row, _ = Of([]result.Request{unstreamed, failed(0, 3)}, Options{Span: steady})
	if row.Infinite("p95_ttft_ms") || !row.Infinite("p95_e2e_ms") {
		t.Errorf("nothing was streamed, and infinite are %v", row["infinite"])
	}
}

// Of the requests that the plan chooses to cancel the short ones end before: none of
// them has a part in the latencies of whole answers, and all in those of first tokens.
func TestOf_chosenToBeCancelled(t *testing.T) {
	long, short := streamed(0, 3, 100, 50, 50), streamed(0, 2, 60, 5)
	short.Chosen = true
	given := streamed(0, 3, 80, 50)
	given.Status, given.Chosen, given.Planned = result.Cancelled, true, true
	silent := failed(0, 3) // given up before its first token
	silent.Status, silent.Chosen, silent.Planned = result.Cancelled, true, true
	row, _ := Of([]result.Request{long, short, given, silent}, Options{Span: steady})
	check(t, row, result.Row{
		"completed": int64(2), "cancelled_planned": int64(2), "output_tokens": int64(5),
		"mean_e2e_ms": 200.0, "min_tpot_ms": 50.0, "min_icl_ms": 50.0, "min_itl_ms": 50.0,
		"min_ttft_ms": 60.0, "p50_ttft_ms": 80.0, "max_ttft_ms": 100.0, "mean_ttft_ms_whole": 80.0, "infinite": nil,
	})
}

// A failure makes no figure better.
func TestOf_failuresAreNeverBetter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var requests []result.Request
		for n := rapid.IntRange(1, 30).Draw(t, "n"); n > 0; n-- {
			gaps := rapid.SliceOfN(rapid.IntRange(0, 500), 1, 10).Draw(t, "gaps")
			r := streamed(0, len(gaps), gaps...)
			r.MaxTokens = rapid.IntRange(0, 20).Draw(t, "max")
			r.Status = rapid.SampledFrom([]result.Status{result.Completed, result.Completed, result.Failed, result.Cancelled}).Draw(t, "status")
			requests = append(requests, r)
		}
		row, _ := Of(requests, Options{Span: steady, EndedEarly: rapid.Bool().Draw(t, "early")})
		for _, l := range []string{"ttft", "ttfo", "tpot", "itl", "icl", "e2e"} {
			for _, statistic := range []string{"mean", "min", "p50", "p90", "p95", "p99", "max"} {
				name := col.Latency(statistic, l)
				alone, ok := row[name+col.CompletedSuffix].(float64)
				with, finite := row[name].(float64)
				switch {
				case finite != ok && !row.Infinite(name):
					t.Fatalf("%s is %v, of the completed requests %v, and not infinite", name, row[name], row[name+col.CompletedSuffix])
				case finite && with < alone:
					t.Fatalf("%s is %v, of the completed requests %v", name, with, alone)
				case row.Infinite(name) && row["failed"] == int64(0) && row["cancelled"] == int64(0):
					t.Fatalf("%s is infinite and nothing failed", name)
				}
			}
		}
	})
}
