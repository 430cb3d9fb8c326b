package summary

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/timeline"
)

const ms = time.Millisecond

// streamed returns a completed request: sent, then chunks at the given gaps in
// milliseconds, the first one with the first token.
func streamed(sent time.Duration, tokens int, gaps ...int) result.Request {
	r := result.Request{
		Phase: result.Plateau, Scheduled: sent, Sent: sent, Status: result.Completed,
		PromptTokens: 10, CompletionTokens: tokens, TokenSource: "usage",
	}
	at := sent
	for i, g := range gaps {
		at += time.Duration(g) * ms
		r.ChunkUS = append(r.ChunkUS, int32(g)*1000)
		if i == 0 {
			r.FirstByte, r.FirstToken, r.FirstOutput = at, at, at
		}
	}
	r.LastToken, r.End = at, at
	return r
}

// check holds columns against what they must be; nil means that there is none.
func check(t *testing.T, row result.Row, want result.Row) {
	t.Helper()
	for name, w := range want {
		got := row[name]
		if g, ok := got.(float64); ok {
			if w, ok := w.(float64); ok && math.Abs(g-w) <= 1e-9*math.Max(1, math.Abs(w)) {
				continue
			}
		}
		if got != w {
			t.Errorf("%s is %v (%T), want %v (%T)", name, got, got, w, w)
		}
	}
}

// ofWhole returns the figures of the whole trial under the names without a suffix.
func ofWhole(row result.Row) result.Row {
	out := result.Row{}
	for name, v := range row {
		if plain, ok := strings.CutSuffix(name, col.WholeSuffix); ok {
			out[plain] = v
		} else if _, ok := result.Lookup(result.Columns(result.Extra{}), name+col.WholeSuffix); !ok {
			out[name] = v
		}
	}
	return out
}

func TestOf_closedForm(t *testing.T) {
	row, findings := Of([]result.Request{
		streamed(0, 4, 100, 10, 20, 30),
		streamed(50*ms, 5, 200, 10, 10, 10, 20),
	}, Options{Goodput: &Goodput{TTFT: 150, TPOT: 20, E2E: 1000}})
	check(t, ofWhole(row), result.Row{
		"requests": int64(2), "completed": int64(2), "failed": int64(0), "cancelled": int64(0),
		"error_rate": 0.0, "duration_s": 0.3, // 0 to 50+250 ms
		"input_tokens": int64(20), "output_tokens": int64(9),
		"request_throughput": 2 / 0.3, "throughput_tok_s": 9 / 0.3, "total_throughput_tok_s": 29 / 0.3,
		"goodput_req_s": 1 / 0.3, // the second is too slow to its first token
		"mean_ttft_ms":  150.0, "std_ttft_ms": 50.0, "min_ttft_ms": 100.0, "p50_ttft_ms": 150.0,
		"p90_ttft_ms": 190.0, "p95_ttft_ms": 195.0, "p99_ttft_ms": 199.0, "max_ttft_ms": 200.0,
		"p50_ttfo_ms": 150.0,
		"min_e2e_ms":  160.0, "max_e2e_ms": 250.0,
		"min_tpot_ms": 12.5, "max_tpot_ms": 20.0, "p50_tpot_ms": 16.25, "p50_user_tok_s": 1000 / 16.25,
		"mean_itl_ms": 110.0 / 7, "max_itl_ms": 30.0, "min_itl_ms": 10.0, "p50_itl_ms": 10.0,
		"mean_icl_ms":         110.0 / 7,
		"max_schedule_lag_ms": 0.0,
	})
	if len(findings) != 0 {
		t.Errorf("findings: %v", findings)
	}
}

// Completed requests are counted by the reason for which their answers ended.
func TestOf_finishReasons(t *testing.T) {
	var requests []result.Request
	for _, reason := range []string{"stop", "length", "length", "tool_calls", "eos_token", "", "other"} {
		r := streamed(0, 3, 100, 10)
		r.FinishReason = reason
		requests = append(requests, r)
	}
	failed := streamed(0, 3, 100, 10)
	failed.Status, failed.FinishReason = result.Failed, "stop"
	row, _ := Of(append(requests, failed), Options{})
	check(t, row, result.Row{
		"finish_stop": int64(1), "finish_length": int64(2), "finish_tool_calls": int64(1),
		"finish_content_filter": int64(0), "finish_other": int64(3),
	})
	row, _ = Of(nil, Options{})
	check(t, row, result.Row{"finish_stop": nil, "finish_other": nil})
}

func TestOf_openLoopCountsFromTheSchedule(t *testing.T) {
	r := streamed(500*ms, 3, 100, 10, 10)
	r.Scheduled = 200 * ms // we, or the limit in flight, were 300 ms late
	open, _ := Of([]result.Request{r}, Options{Open: true})
	check(t, ofWhole(open), result.Row{
		"p50_ttft_ms": 400.0, "p50_ttfo_ms": 400.0, "p50_e2e_ms": 420.0, "p50_tpot_ms": 10.0,
		"p50_schedule_lag_ms": 300.0, "duration_s": 0.12,
	})
	closed, _ := Of([]result.Request{r}, Options{})
	check(t, ofWhole(closed), result.Row{"p50_ttft_ms": 100.0, "p50_e2e_ms": 120.0, "p50_tpot_ms": 10.0, "p50_schedule_lag_ms": 300.0})
}

func TestOf_leavesOut(t *testing.T) {
	warm := streamed(0, 2, 9000, 9000)
	warm.Phase = result.Warmup
	failed := streamed(20_000*ms, 2, 5000, 5000)
	failed.Status, failed.End = result.Failed, 90_000*ms // its deadline is no byte
	refused := result.Request{
		Status: result.Failed, Sent: 20_000 * ms, Scheduled: 20_000 * ms, FirstByte: result.Never, FirstToken: result.Never,
		FirstOutput: result.Never, LastToken: result.Never, End: 80_000 * ms, FirstTokenChunk: -1,
	}
	cancelled := streamed(20_100*ms, 2, 700, 700)
	cancelled.Status = result.Cancelled
	row, _ := Of([]result.Request{warm, failed, refused, cancelled, streamed(20_200*ms, 2, 10, 10)}, Options{})
	check(t, ofWhole(row), result.Row{
		"requests": int64(4), "completed": int64(1), "failed": int64(2), "cancelled": int64(1),
		"error_rate": 2.0 / 3, "max_e2e_ms": 20.0, "max_itl_ms": 10.0, "output_tokens": int64(2),
		"duration_s": 10.0, // the failed one's last token
	})
}

// A slot that still paused when the load ended has sent nothing: its time counts,
// its request does not. An open loop has scheduled it all the same.
func TestOf_unsent(t *testing.T) {
	refused := streamed(0, 2, 10, 10)
	refused.Status, refused.End = result.Failed, 20*ms
	unsent := result.Request{
		Status: result.Cancelled, Scheduled: 1020 * ms, Paused: 1000 * ms, Sent: result.Never, FirstByte: result.Never,
		FirstToken: result.Never, FirstOutput: result.Never, LastToken: result.Never, End: 520 * ms, FirstTokenChunk: -1,
	}
	row, _ := Of([]result.Request{refused, unsent}, Options{})
	check(t, row, result.Row{"requests": int64(1), "failed": int64(1), "cancelled": int64(0), "slot_paused_s": 0.5})
	row, _ = Of([]result.Request{refused, unsent}, Options{Open: true})
	check(t, row, result.Row{"requests": int64(2), "cancelled": int64(1), "slot_paused_s": nil})
}

func TestOf_whatIsNotKnownIsNull(t *testing.T) {
	whole := result.Request{
		Phase: result.Plateau, Status: result.Completed, Sent: 0, FirstByte: 90 * ms, FirstToken: result.Never, FirstOutput: result.Never,
		LastToken: result.Never, End: 100 * ms, PromptTokens: 5, CompletionTokens: 8, TokenSource: "usage", FirstTokenChunk: -1,
	}
	row, _ := Of([]result.Request{whole}, Options{Goodput: &Goodput{TTFT: 100}})
	check(t, ofWhole(row), result.Row{
		"p50_e2e_ms": 100.0, "output_tokens": int64(8), "throughput_tok_s": 80.0,
		"p50_ttft_ms": nil, "p50_tpot_ms": nil, "p50_itl_ms": nil, "p50_icl_ms": nil, "p50_user_tok_s": nil,
		"goodput_req_s": nil, // a bound that cannot be checked is not met
	})

	silent := streamed(0, result.Unknown, 10, 10)
	silent.PromptTokens, silent.TokenSource = result.Unknown, ""
	row, _ = Of([]result.Request{silent, streamed(0, 2, 10, 10)}, Options{})
	check(t, ofWhole(row), result.Row{
		"input_tokens": nil, "output_tokens": nil, "throughput_tok_s": nil, "total_throughput_tok_s": nil,
		"request_throughput": 100.0, "goodput_req_s": nil,
	})

	row, _ = Of(nil, Options{})
	check(t, ofWhole(row), result.Row{"requests": nil, "failed": nil, "error_rate": nil, "duration_s": nil, "request_throughput": nil, "p50_ttft_ms": nil})

	one := streamed(0, 1, 10)
	row, _ = Of([]result.Request{one}, Options{Goodput: &Goodput{TPOT: 1}})
	check(t, ofWhole(row), result.Row{"p50_tpot_ms": nil, "p50_ttft_ms": 10.0, "goodput_req_s": 100.0})
}

// A trial without a measured request has no figures, and one without a completed
// request no tokens.
func TestOf_nothing(t *testing.T) {
	warm := streamed(0, 3, 100, 10, 10)
	warm.Phase = result.Warmup
	for _, requests := range [][]result.Request{nil, {warm}} {
		row, _ := Of(requests, Options{})
		for name, v := range row {
			if v != nil {
				t.Errorf("%s is %v", name, v)
			}
		}
	}
	row, _ := Of([]result.Request{failed(0, 3, 1, 1)}, Options{})
	check(t, ofWhole(row), result.Row{
		"requests": int64(1), "completed": int64(0), "failed": int64(1), "error_rate": 1.0,
		"input_tokens": nil, "output_tokens": nil, "throughput_tok_s": nil, "total_throughput_tok_s": nil, "cached_tokens": nil,
	})
}

func TestOf_tokensOfChunks(t *testing.T) {
	with := func(tokens int, k []int32, gaps ...int) result.Request {
		r := streamed(0, tokens, gaps...)
		r.ChunkTokens = k
		return r
	}
	role := with(3, []int32{0, result.Unknown, result.Unknown, result.Unknown, 0}, 5, 95, 10, 20, 1)
	role.FirstTokenChunk, role.FirstToken = 1, 100*ms
	for _, c := range []struct {
		name   string
		r      result.Request
		itl    []float64 // nil: there is none
		icl    []float64
		source string
	}{
		{"one token a chunk, by the usage", with(3, nil, 100, 10, 20), []float64{10, 20}, []float64{10, 20}, "usage"},
		{"more tokens than chunks", with(5, nil, 100, 10, 20), nil, []float64{10, 20}, "usage"},
		{"no usage", with(3, nil, 100, 10, 20), nil, []float64{10, 20}, "chunks"},
		{"stated", with(6, []int32{1, 4, 1}, 100, 10, 20), []float64{2.5, 2.5, 2.5, 2.5, 20}, []float64{10, 20}, ""},
		{"a role before, a finish after", role, []float64{10, 20}, []float64{10, 20}, "usage"},
		{"a chunk without text in between", with(3, []int32{1, 1, 0, 1}, 100, 10, 5, 20), []float64{10, 25}, []float64{10, 25}, "usage"},
		{"a token without text at the end", with(4, []int32{result.Unknown, result.Unknown, result.Unknown, 0}, 100, 10, 20, 7), []float64{10, 20, 7}, []float64{10, 20}, "usage"},
		{"some stated", with(4, []int32{result.Unknown, 2, result.Unknown}, 100, 10, 20), []float64{5, 5, 20}, []float64{10, 20}, "usage"},
	} {
		c.r.TokenSource = c.source
		row, findings := Of([]result.Request{c.r}, Options{})
		for name, want := range map[string][]float64{"itl": c.itl, "icl": c.icl} {
			if want == nil {
				check(t, ofWhole(row), result.Row{"mean_" + name + "_ms": nil})
				if c.source == "chunks" {
					check(t, ofWhole(row), result.Row{"output_tokens": int64(3), "mean_tpot_ms": nil})
				}
				told := func(f result.Finding) bool {
					return f.Code == finding.ITLUnknown && strings.Contains(f.Text, "did not count") == (c.source == "chunks")
				}
				if !slices.ContainsFunc(findings, told) {
					t.Errorf("%s: nothing says that there is no ITL: %v", c.name, findings)
				}
				continue
			}
			sum := 0.0
			for _, v := range want {
				sum += v
			}
			t.Log(c.name, name)
			check(t, ofWhole(row), result.Row{
				"mean_" + name + "_ms": sum / float64(len(want)), "max_" + name + "_ms": slices.Max(want),
				"min_" + name + "_ms": slices.Min(want),
			})
		}
	}
}

func TestOf_fewUnknownChunksAreLeftOut(t *testing.T) {
	requests := []result.Request{streamed(0, 9, 100, 80)} // eight tokens in one chunk, or so
	for range 19 {
		requests = append(requests, streamed(0, 2, 100, 10))
	}
	row, findings := Of(requests, Options{})
	check(t, ofWhole(row), result.Row{"max_itl_ms": 10.0, "max_icl_ms": 80.0})
	if len(findings) != 1 || findings[0].Code != finding.ITLUnknown || !strings.Contains(findings[0].Text, "1 of 20") {
		t.Errorf("findings: %v", findings)
	}
	row, _ = Of(append(requests, streamed(0, 9, 100, 80)), Options{})
	check(t, ofWhole(row), result.Row{"max_itl_ms": nil, "max_icl_ms": 80.0})
}

func TestOf_lowConfidence(t *testing.T) {
	var requests []result.Request
	for range 129 {
		requests = append(requests, streamed(0, 1, 10))
	}
	row, _ := Of(requests, Options{})
	check(t, row, result.Row{"low_confidence": "p95_ttft_ms_whole,p99_ttft_ms_whole,p95_ttfo_ms_whole,p99_ttfo_ms_whole,p95_e2e_ms_whole,p99_e2e_ms_whole,p95_schedule_lag_ms_whole,p99_schedule_lag_ms_whole"})
	for len(requests) < 662 {
		requests = append(requests, streamed(0, 1, 10))
	}
	row, _ = Of(requests, Options{})
	check(t, row, result.Row{"low_confidence": nil})

	// Of the plateau, what is too little there alone; gaps count by their requests.
	for i := range requests {
		requests[i] = streamed(time.Duration(i)*ms, 3, 10, 10, 10)
		if i < 600 {
			requests[i].Phase = result.Ramp
		}
	}
	row, _ = Of(requests, Options{Span: timeline.Span{From: 600 * ms, To: 700 * ms, Last: 700 * ms, Steady: true}})
	low, _ := row["low_confidence"].(string)
	for name, want := range map[string]bool{
		"p50_ttft_ms": false, "p50_ttft_ms_completed": false, "p50_itl_ms_whole": false,
		"p90_ttft_ms": true, "p90_ttft_ms_completed": true, "p90_itl_ms": true, "p99_icl_ms": true, "p90_user_tok_s": false,
	} {
		if got := slices.Contains(strings.Split(low, ","), strings.TrimSuffix(name, "_completed")); got != want {
			t.Errorf("%s: low confidence %v, want %v (%s)", name, got, want, low)
		}
		if got := len(row.LowConfidence([]string{name})) > 0; got != want {
			t.Errorf("%s: the row says %v, want %v", name, got, want)
		}
	}
	few, _ := Of(requests[:20], Options{})
	if got, want := few.LowConfidence([]string{"p50_ttft_ms", "p95_ttft_ms", "p95_ttft_ms_whole", "p95_ttft_ms_completed", "p50_user_tok_s", "requests"}),
		[]string{"p95_ttft_ms", "p95_ttft_ms_completed", "p95_ttft_ms_whole"}; !slices.Equal(got, want) {
		t.Errorf("of 20 requests %v is of low confidence, want %v", got, want)
	}
}

func TestOf_plateau(t *testing.T) {
	// Two slots, 100 ms to the first token and 10 ms for each other one.
	in := func(slot int, sent time.Duration) result.Request {
		r := streamed(sent, 5, 100, 10, 10, 10, 10)
		r.Slot = slot
		return r
	}
	requests := []result.Request{in(0, 0), in(1, 70*ms), in(0, 140*ms), in(1, 210*ms), in(0, 280*ms)}
	requests[4].ChunkUS[0] = 900_000 // alone, and slow
	requests[4].FirstToken, requests[4].LastToken, requests[4].End = 1180*ms, 1220*ms, 1220*ms
	span := timeline.Span{From: 70 * ms, To: 350 * ms, Last: 1220 * ms, Steady: true}
	requests[0].Phase = result.Ramp
	for i := range requests[1:] {
		requests[i+1].Phase = result.Plateau
	}
	row, _ := Of(requests, Options{Span: span, Goodput: &Goodput{TTFT: 500}})
	check(t, row, result.Row{
		"ramp_s": 0.07, "plateau_s": 0.28, "tail_s": 0.87,
		"mean_in_flight": 2.0, // from 70 to 350 ms there were always two
		// Tokens at 100 to 140, 170 to 210, 240 to 280 and 310 to 350 ms.
		"throughput_tok_s": 20 / 0.28, "throughput_tok_s_whole": 25 / 1.22,
		// The prompts of the first tokens at 100, 170, 240 and 310 ms.
		"total_throughput_tok_s": 60 / 0.28, "total_throughput_tok_s_whole": 75 / 1.22,
		"request_throughput": 4 / 0.28, "goodput_req_s": 4 / 0.28, "goodput_req_s_whole": 4 / 1.22,
		"good_share":        0.75, // of four that were sent on it the last is too slow
		"max_ttft_ms_whole": 900.0, "max_ttft_ms": 900.0, "mean_ttft_ms": 300.0, "mean_ttft_ms_completed": 300.0, "mean_ttft_ms_whole": 260.0,
		"max_icl_ms": 10.0, "mean_itl_ms": 10.0, "p50_schedule_lag_ms": 0.0, "p50_schedule_lag_ms_whole": 0.0, "plateau_requests": int64(4),
		"achieved_rate": 4 / 0.28, "ttft_drift": nil,
	})
	row, _ = Of(requests, Options{Span: timeline.Span{From: 141 * ms, To: 169 * ms, Last: 1220 * ms, Steady: true}})
	check(t, row, result.Row{"plateau_s": 0.028, "throughput_tok_s": nil, "total_throughput_tok_s": nil, "throughput_tok_s_whole": 25 / 1.22}) // between two tokens
	row, _ = Of(requests[:1], Options{Span: timeline.Assign(requests[:1], 2)})
	check(t, row, result.Row{"plateau_s": nil, "ramp_s": nil, "throughput_tok_s": nil, "p50_ttft_ms": nil, "p50_ttft_ms_completed": nil, "p50_ttft_ms_whole": 100.0, "achieved_rate": nil})
	if got := row.WhyNull("p50_ttft_ms"); !strings.Contains(got, "no plateau; p50_ttft_ms_whole") {
		t.Errorf("why p50_ttft_ms is null: %q", got)
	}
	for _, name := range []string{"p50_ttft_ms_whole", "goodput_req_s", "p50_probe_ttft_ms"} {
		if got := row.WhyNull(name); got != "" {
			t.Errorf("why %s is null: %q", name, got)
		}
	}
}

func TestOf_probe(t *testing.T) {
	probe := func(sent time.Duration, gaps ...int) result.Request {
		r := streamed(sent, len(gaps), gaps...)
		r.Phase = result.Probe
		return r
	}
	broken := failed(0, 2)
	broken.Phase = result.Probe
	row, _ := Of([]result.Request{probe(0, 100, 20), probe(9000*ms, 300, 40), broken, streamed(0, 2, 10, 10)}, Options{})
	check(t, ofWhole(row), result.Row{
		"requests": int64(1), "max_ttft_ms": 10.0, "duration_s": 0.02, "failed": int64(0),
		"probe_requests": int64(3), "probe_failed": int64(1), "p50_probe_ttft_ms": 200.0, "p95_probe_ttft_ms": 290.0,
		"p50_probe_tpot_ms": 30.0, "p50_probe_e2e_ms": 230.0, "p95_probe_e2e_ms": 329.0,
	})
	if got := row.LowConfidence([]string{"p95_probe_ttft_ms"}); len(got) != 1 {
		t.Errorf("two probes are enough for a p95: %v", row["low_confidence"])
	}
	row, _ = Of([]result.Request{streamed(0, 2, 10, 10)}, Options{})
	check(t, ofWhole(row), result.Row{"probe_requests": nil, "p50_probe_ttft_ms": nil})
}

func TestOf_lengths(t *testing.T) {
	with := func(prompt, target, cached, asked, got int) result.Request {
		r := streamed(0, got, 10, 10)
		r.PromptTokens, r.TargetTokens, r.CachedTokens, r.MaxTokens = prompt, target, cached, asked
		return r
	}
	requests := []result.Request{with(90, 100, 16, 2, 2), with(120, 100, 0, 3, 2), with(30, result.Unknown, 0, 2, 2)}
	row, _ := Of(requests, Options{})
	check(t, row, result.Row{
		"mean_prompt_tokens": 80.0, "min_prompt_tokens": 30.0, "p50_prompt_tokens": 90.0, "p95_prompt_tokens": 117.0, "max_prompt_tokens": 120.0,
		"std_prompt_tokens": math.Sqrt(4200.0 / 3), "prompt_length_error": 0.15, "cached_tokens": int64(16), "output_length_error": 1.0 / 3,
	})
	requests[0].PromptTokens, requests[1].CachedTokens, requests[2].TokenSource = result.Unknown, result.Unknown, "chunks"
	row, _ = Of(requests, Options{})
	check(t, row, result.Row{"mean_prompt_tokens": nil, "prompt_length_error": nil, "cached_tokens": nil, "output_length_error": nil})
}

// TestOf_isTheSlowOne holds the summary against the formulas written
// down a second time, request by request, in floating point.
func TestOf_isTheSlowOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var requests []result.Request
		for n := rapid.IntRange(1, 40).Draw(t, "n"); n > 0; n-- {
			gaps := rapid.SliceOfN(rapid.IntRange(0, 500), 1, 30).Draw(t, "gaps")
			r := streamed(time.Duration(rapid.IntRange(0, 10_000).Draw(t, "sent"))*ms, len(gaps), gaps...)
			r.Scheduled -= time.Duration(rapid.IntRange(0, 100).Draw(t, "lag")) * ms
			if rapid.Bool().Draw(t, "stated") {
				r.CompletionTokens = 0
				for range gaps {
					k := rapid.Int32Range(1, 5).Draw(t, "k")
					r.ChunkTokens = append(r.ChunkTokens, k)
					r.CompletionTokens += int(k)
				}
			}
			r.Status = rapid.SampledFrom([]result.Status{result.Completed, result.Completed, result.Failed, result.Cancelled}).Draw(t, "status")
			r.Phase = rapid.SampledFrom([]result.Phase{result.Warmup, result.Ramp, result.Plateau, result.Tail}).Draw(t, "phase")
			requests = append(requests, r)
		}
		open := rapid.Bool().Draw(t, "open")
		got, _ := Of(requests, Options{Open: open})
		for name, samples := range slow(requests, open) {
			slices.Sort(samples)
			for _, q := range []struct {
				name string
				p    float64
			}{{"min", 0}, {"p50", .5}, {"p90", .9}, {"p95", .95}, {"p99", .99}, {"max", 1}} {
				column := col.Latency(q.name, name) + col.WholeSuffix
				if len(samples) == 0 {
					if got[column] != nil {
						t.Fatalf("%s is %v, want none", column, got[column])
					}
					continue
				}
				h := q.p * float64(len(samples)-1)
				i, j := int(math.Floor(h)), int(math.Ceil(h))
				want := samples[i] + (h-float64(i))*(samples[j]-samples[i])
				if v, ok := got[column].(float64); !ok || math.Abs(v-want) > 1e-6 { // samples are whole nanoseconds
					t.Fatalf("%s is %v, want %v", column, got[column], want)
				}
			}
		}
	})
}

// slow returns every latency's samples in milliseconds.
func slow(requests []result.Request, open bool) map[string][]float64 {
	out := map[string][]float64{"ttft": nil, "e2e": nil, "tpot": nil, "itl": nil, "icl": nil, "schedule_lag": nil}
	add := func(name string, v float64) { out[name] = append(out[name], v) }
	for _, r := range requests {
		if r.Phase == result.Warmup {
			continue
		}
		add("schedule_lag", (r.Sent-r.Scheduled).Seconds()*1e3)
		if r.Status != result.Completed {
			continue
		}
		late := 0.0
		if open {
			late = (r.Sent - r.Scheduled).Seconds() * 1e3
		}
		total := 0.0
		for i, us := range r.ChunkUS {
			gap := float64(us) / 1e3
			total += gap
			if i == 0 {
				add("ttft", total+late)
				continue
			}
			add("icl", gap)
			k := 1.0
			if r.ChunkTokens != nil {
				k = float64(r.ChunkTokens[i])
			}
			for range int(k) {
				add("itl", gap/k)
			}
		}
		add("e2e", total+late)
		if n := r.CompletionTokens; n > 1 {
			add("tpot", (total-float64(r.ChunkUS[0])/1e3)/float64(n-1))
		}
	}
	return out
}

// BenchmarkOf is ten million gaps, as a long trial has them.
func BenchmarkOf(b *testing.B) {
	requests := make([]result.Request, 20_000)
	x := uint32(1)
	for i := range requests {
		r := streamed(0, 501, 100)
		for range 500 {
			x = x*1664525 + 1013904223
			r.ChunkUS = append(r.ChunkUS, int32(20_000+x>>22))
			if x>>28 == 0 {
				r.ChunkUS[len(r.ChunkUS)-1] += 180_000 // a prefill in between
			}
		}
		requests[i] = r
	}
	b.ReportAllocs()
	for b.Loop() {
		Of(requests, Options{})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10e6, "ns/gap")
}
