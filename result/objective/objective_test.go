package objective

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/internal/quantile"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/result/timeline"
)

// TestShareBounds holds the bounds to what is printed in tables of Clopper and Pearson.
func TestShareBounds(t *testing.T) {
	for _, tt := range []struct{ over, n, confidence, low, high float64 }{
		{0, 59, 0.95, 0, 0.0495},
		{0, 58, 0.95, 0, 0.0503},
		{3, 10, 0.975, 0.0667, 0.6525},
		{10, 10, 0.975, 0.6915, 1},
		{1, 1, 0.95, 0.05, 1},
	} {
		low, high := shareBounds(tt.over, tt.n, tt.confidence)
		if math.Abs(low-tt.low) > 1e-4 || math.Abs(high-tt.high) > 1e-4 {
			t.Errorf("%v of %v: %.4f to %.4f, want %.4f to %.4f", tt.over, tt.n, low, high, tt.low, tt.high)
		}
	}
	if got := quantile.Student(0.95, 9); math.Abs(got-1.8331) > 1e-4 {
		t.Errorf("student is %v", got)
	}
}

// series are latencies of requests: independent, or of a queue that moves slowly.
func series(r *rand.Rand, n int, phi float64) []float64 {
	values, x := make([]float64, n), r.NormFloat64()
	for i := range values {
		x = phi*x + math.Sqrt(1-phi*phi)*r.NormFloat64()
		values[i] = 100 * math.Exp(x/2)
	}
	return values
}

func TestDesignEffect(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	mean := func(phi float64, limit float64) float64 {
		sum := 0.0
		for range 50 {
			values := series(r, 400, phi)
			d, _ := newOrdered(values).effect(func(v float64) bool { return v >= limit })
			if d < 1 || d > 400 {
				t.Fatalf("a design effect of %v", d)
			}
			sum += d / 50
		}
		return sum
	}
	alone, queue := mean(0, 200), mean(0.9, 200)
	if alone > 2.5 || queue < 5 {
		t.Errorf("independent values %.1f, correlated ones %.1f", alone, queue)
	}
	if far := mean(0.9, 1e9); far < 5 { // none is over
		t.Errorf("with none over the limit %.1f", far)
	}
	if d, _ := newOrdered(make([]float64, 15)).effect(func(float64) bool { return false }); d != 15 {
		t.Errorf("15 values are worth %.1f", 15/d)
	}
}

// trial returns one of requests at a steady rate with these latencies in milliseconds;
// +Inf failed.
func trial(latencies []float64) *Trial {
	requests := make([]result.Request, len(latencies))
	for i, ms := range latencies {
		sent := time.Duration(i) * 10 * time.Millisecond
		r := result.Request{N: i, Phase: result.Plateau, Scheduled: sent, Sent: sent, FirstToken: result.Never, FirstOutput: result.Never, LastToken: result.Never, FirstTokenChunk: -1}
		if math.IsInf(ms, 1) {
			r.Status, r.End = result.Failed, sent+time.Second
		} else {
			r.Status, r.End = result.Completed, sent+time.Duration(ms*1e6)
			r.FirstToken, r.LastToken = r.End, r.End
			r.CompletionTokens, r.TokenSource = 10, "usage"
		}
		requests[i] = r
	}
	span := timeline.Span{To: time.Duration(len(latencies)) * 10 * time.Millisecond, Steady: true}
	return Of(requests, summary.Options{Open: true, Span: span, Goodput: &summary.Goodput{TTFT: 200}})
}

// spread returns n latencies, every so many over 200.
func spread(n, every int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = float64(50 + i*37%100)
		if every > 0 && i%every == every/2 {
			values[i] = 300
		}
	}
	return values
}

func TestDecide(t *testing.T) {
	failing := spread(400, 0)
	for i := range failing {
		if i%4 == 0 {
			failing[i] = math.Inf(1)
		}
	}
	for _, tt := range []struct {
		name                string
		latencies           []float64
		column, op          string
		limit               float64
		rule, verdict, says string
	}{
		{"clear", spread(400, 100), "p95_ttft_ms", "<", 200, "share", "pass", "4 of 400 over 200 ms"},
		{"missed", spread(400, 5), "p95_ttft_ms", "<", 200, "share", "fail", "that is at least"},
		{"close", spread(400, 25), "p95_ttft_ms", "<", 200, "share", "undecided", "requests more would decide"},
		{"few", spread(40, 0), "p95_ttft_ms", "<", 200, "share", "undecided", "0 of 40 over 200 ms"},
		{"few for a median", spread(40, 0), "p50_ttft_ms", "<", 200, "share", "pass", "50 % allowed"},
		{"at the limit", spread(400, 20), "p95_ttft_ms", "<", 200, "share", "undecided", "no practical number of requests decides it"},
		{"the limit itself", slices.Repeat([]float64{200}, 400), "p95_ttft_ms", "<", 200, "share", "fail", "400 of 400"},
		{"the limit itself is kept", slices.Repeat([]float64{200}, 400), "p95_ttft_ms", "<=", 200, "share", "pass", "0 of 400"},
		{"failures are over", failing, "p95_ttft_ms", "<", 200, "share", "fail", "100 of 400"},
		{"but not of those completed", failing, "p95_ttft_ms_completed", "<", 200, "share", "pass", "0 of 300"},
		{"failures", failing, "error_rate", "<", 0.02, "share", "fail", "100 of 400 failed"},
		{"few failures", spread(400, 0), "error_rate", "<", 0.02, "share", "pass", "0 of 400 failed"},
		{"good", spread(400, 100), "good_share", ">=", 0.95, "share", "pass", "4 of 400 outside the bounds of goodput"},
		{"not good", spread(400, 5), "good_share", ">=", 0.95, "share", "fail", "80 of 400 outside the bounds of goodput"},
		{"failures are not good", failing, "good_share", ">", 0.9, "share", "fail", "100 of 400"},
		{"good, close", spread(400, 25), "good_share", ">=", 0.95, "share", "undecided", "requests more would decide"},
		{"no share of good ones is 1", spread(400, 0), "good_share", ">=", 1, "point", "", "point"},
		{"no share of failures is 0", spread(400, 0), "error_rate", "<=", 0, "point", "", "point"},
		{"mean", spread(400, 0), "mean_ttft_ms", "<", 120, "mean", "pass", "limit 120"},
		{"mean over", spread(400, 0), "mean_ttft_ms", "<", 80, "mean", "fail", "limit 80"},
		{"mean close", spread(400, 0), "mean_ttft_ms", "<", 99.6, "mean", "undecided", "s more would decide"},
		{"an infinite mean", failing, "mean_ttft_ms", "<", 120, "point", "", "point"},
		{"rate", spread(400, 0), "request_throughput", ">", 80, "rate", "pass", "limit 80"},
		{"rate missed", spread(400, 0), "throughput_tok_s", ">=", 2000, "rate", "fail", "limit 2000"},
		{"a maximum", spread(400, 0), "max_ttft_ms", "<", 200, "point", "", "point"},
		{"a percentile from below", spread(400, 0), "p95_ttft_ms", ">", 10, "point", "", "point"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := result.SLOPart{Rule: result.RulePoint}
			trial(tt.latencies).Decide(&p, nil, []Comparison{{tt.column, tt.op, tt.limit}}, 0.95)
			if p.Rule != tt.rule || p.Verdict != tt.verdict || !strings.Contains(Say(p), tt.says) {
				t.Errorf("%s, %s: %s", p.Rule, p.Verdict, Say(p))
			}
		})
	}
}

// TestMoreRequests holds that what is said to decide does.
func TestMoreRequests(t *testing.T) {
	p := result.SLOPart{Rule: result.RuleShare, Confidence: 0.95, Allowed: 0.05, Requests: 100, N: 100, Over: 2, Deff: 1.4}
	settle(&p)
	if p.Verdict != result.SLOUndecided || p.MoreRequests == 0 {
		t.Fatalf("%+v", p)
	}
	factor := float64(100+p.MoreRequests) / 100
	for share, want := range map[float64]string{1: result.SLOPass, 0.8: result.SLOUndecided} {
		n := 100 * factor * share
		more := p
		more.N, more.Requests, more.Over = int(n*1000), int(n*1000), int(n*20) // so that counts stay whole
		more.Deff *= 1000
		settle(&more)
		if more.Verdict != want {
			t.Errorf("%.0f requests: %s, want %s", n, more.Verdict, want)
		}
	}
}

// TestMoreRequests_practical holds that what nobody would measure is not named, and that a
// few requests, which need many times more, are not said to be at the limit.
func TestMoreRequests_practical(t *testing.T) {
	for name, tt := range map[string]struct {
		allowed       float64
		requests, n   int
		over          int
		least, atMost int
	}{
		"far":           {0.05, 100, 100, 2, 1, 10_000},
		"near":          {0.05, 1000, 1000, 47, 7000, 99_000},
		"at the limit":  {0.05, 2000, 2000, 99, 0, 0},
		"nearly, large": {0.05, 20_000, 20_000, 999, 0, 0},
		"two of a p99":  {0.01, 2, 2, 0, 200, 1000},
	} {
		p := result.SLOPart{Rule: result.RuleShare, Confidence: 0.95, Allowed: tt.allowed, Requests: tt.requests, N: tt.n, Over: tt.over, Deff: 1}
		settle(&p)
		if p.Verdict != result.SLOUndecided || p.MoreRequests < tt.least || p.MoreRequests > tt.atMost {
			t.Errorf("%s: %s, %d more, want %d to %d", name, p.Verdict, p.MoreRequests, tt.least, tt.atMost)
		}
		if says := Say(p); strings.Contains(says, AtLimit) != (tt.atMost == 0) {
			t.Errorf("%s: %s", name, says)
		}
	}
	for limit, named := range map[float64]bool{101: true, 100.001: false} {
		p := result.SLOPart{Rule: result.RuleMean, Op: "<", Limit: limit, Confidence: 0.95, Mean: 100, StdErr: 1, DF: 9, Seconds: 30}
		settle(&p)
		if p.Verdict != result.SLOUndecided || (p.MoreSeconds > 0) != named {
			t.Errorf("mean 100, limit %v: %s, %v s more", limit, p.Verdict, p.MoreSeconds)
		}
	}
}

// TestPool_moreIsNotHarder holds that further trials like the first do not turn a pass,
// and can make one.
func TestPool_moreIsNotHarder(t *testing.T) {
	one := func(over int) result.SLOResult {
		p := result.SLOPart{Expr: "p95_ttft_ms < 200", Rule: result.RuleShare, Confidence: 0.95, Allowed: 0.05, Requests: 100, N: 100, Over: over, Deff: 1}
		settle(&p)
		return result.SLOResult{Name: "quick", Expr: p.Expr, Parts: []result.SLOPart{p}, Verdict: Verdict([]result.SLOPart{p})}
	}
	trials := []result.SLOResult{one(2)}
	last := result.SLOUndecided
	for range 10 {
		got := Pool(trials)
		if last == result.SLOPass && got.Verdict != result.SLOPass {
			t.Fatalf("%d trials: %s", len(trials), got.Verdict)
		}
		last = got.Verdict
		trials = append(trials, one(2))
	}
	if last != result.SLOPass {
		t.Errorf("10 trials with 2 of 100: %s", last)
	}
	// One trial over the bound is no miss of the cell.
	trials[3] = one(9)
	if got := Pool(trials); got.Verdict != result.SLOPass || got.Parts[0].N != 1100 || got.Parts[0].Over != 29 {
		t.Errorf("with one trial of 9: %+v", got)
	}
}

// TestPool_points holds that what has no counts is as bad as its worst trial.
// What the client may have moved is in the verdict over several trials, and in that of a search.
func TestPool_ends(t *testing.T) {
	part := func(over int) result.SLOPart {
		p := result.SLOPart{Rule: result.RuleShare, Column: "p95_ttft_ms", Op: "<", Limit: 200, Confidence: 0.95, Allowed: 0.05, Requests: 300, N: 300, Over: over, Deff: 1}
		settleShare(&p)
		return p
	}
	trials := func(n int, ends ...int) (all []result.SLOResult) {
		for range n {
			p := part(4)
			for _, over := range ends {
				p.Ends = append(p.Ends, part(over))
			}
			all = append(all, result.SLOResult{Name: "fast", Parts: []result.SLOPart{p}, Verdict: p.Verdict})
		}
		return all
	}
	for _, c := range []struct {
		trials []result.SLOResult
		want   string
	}{
		{trials(3), result.SLOPass},
		{trials(3, 2, 6), result.SLOPass},
		{trials(3, 2, 40), result.SLOUndecided},
		{append(trials(2), trials(1, 4, 60)...), result.SLOUndecided},
	} {
		if got := Pool(c.trials); got.Verdict != c.want || (c.want == result.SLOUndecided) != strings.Contains(Why(got), "how late the client was") {
			t.Errorf("%s, want %s: %s", got.Verdict, c.want, Why(got))
		}
		if got := PoolAt(c.trials, 0.95); got.Verdict != c.want {
			t.Errorf("at 95 %%: %s, want %s: %s", got.Verdict, c.want, Why(got))
		}
	}
	if got := PoolAt(trials(1, 2, 40), 0.9); got.Verdict != result.SLOUndecided {
		t.Errorf("of one trial: %s", got.Verdict)
	}
}

func TestPool_points(t *testing.T) {
	point := func(verdict string) result.SLOResult {
		r := result.SLOResult{Name: "clean", Expr: "error_rate == 0", Verdict: verdict, Parts: []result.SLOPart{{Rule: result.RulePoint, Verdict: verdict}}}
		if verdict == "" {
			r.Error, r.Parts[0].Error = "not measured", "not measured"
		}
		return r
	}
	for want, trials := range map[string][]result.SLOResult{
		result.SLOPass: {point(result.SLOPass), point(result.SLOPass)},
		result.SLOFail: {point(result.SLOPass), point(result.SLOFail), point("")},
		"":             {point(result.SLOPass), point("")},
	} {
		got := Pool(trials)
		if got.Verdict != want || (want == "") != (got.Error != "") {
			t.Errorf("%+v, want %q", got, want)
		}
		for i := range trials {
			trials[i].Parts = nil // results of before
		}
		if got := Pool(trials); got.Verdict != want {
			t.Errorf("without parts %+v, want %q", got, want)
		}
	}
	of := func(cell, status, verdict string) *result.Outcome {
		return &result.Outcome{CellID: cell, Row: result.Row{"status": status}, SLOs: []result.SLOResult{point(verdict)}}
	}
	got := OfCells([]*result.Outcome{
		of("a", result.StatusOK, result.SLOPass), of("a", result.StatusInvalid, result.SLOFail),
		of("b", result.StatusOK, result.SLOPass), of("b", result.StatusOK, result.SLOFail), of("c", result.StatusFailed, result.SLOFail),
	})
	if len(got) != 2 || len(got["a"]) != 1 || got["a"][0].Verdict != result.SLOPass || got["b"][0].Verdict != result.SLOFail {
		t.Errorf("of cells: %+v", got)
	}
}

func TestVerdict(t *testing.T) {
	for want, parts := range map[string][]string{
		result.SLOPass:      {result.SLOPass, result.SLOPass},
		result.SLOFail:      {"", result.SLOUndecided, result.SLOFail},
		result.SLOUndecided: {result.SLOUndecided, result.SLOPass},
		"":                  {result.SLOUndecided, ""},
	} {
		var all []result.SLOPart
		for _, v := range parts {
			all = append(all, result.SLOPart{Verdict: v})
		}
		if got := Verdict(all); got != want {
			t.Errorf("%q is %q, want %q", parts, got, want)
		}
	}
}

// TestDecide_any holds that an or passes if a side passes and fails if all do, that trials
// pool its sides, and that a side without bounds leaves it alone.
func TestDecide_any(t *testing.T) {
	requests := make([]result.Request, 200)
	for i := range requests {
		at := time.Duration(i) * time.Second
		done := at + time.Duration(100+(i*37)%20)*time.Millisecond
		requests[i] = result.Request{
			Sent: at, Scheduled: at, FirstToken: done, LastToken: done, End: done, CompletionTokens: 1,
			Status: result.Completed, Phase: result.Plateau,
		}
	}
	trial := Of(requests, summary.Options{Span: timeline.Span{To: 200 * time.Second, Steady: true}})
	under := func(column string, limit float64) Comparison { return Comparison{column, "<", limit} }
	few, far := under("p95_ttft_ms", 118.5), under("p95_ttft_ms", 50)
	for name, c := range map[string]struct {
		sides []Comparison
		want  string
	}{
		"one passes":     {[]Comparison{far, under("p95_ttft_ms", 200)}, result.SLOPass},
		"all fail":       {[]Comparison{far, under("p50_ttft_ms", 50)}, result.SLOFail},
		"one may":        {[]Comparison{far, few}, result.SLOUndecided},
		"one is a point": {[]Comparison{far, {}}, "untouched"},
	} {
		p := result.SLOPart{Rule: result.RulePoint, Verdict: "untouched"}
		sides := make([]result.SLOPart, len(c.sides))
		for i := range sides {
			sides[i].Rule = result.RulePoint
		}
		trial.Decide(&p, sides, c.sides, 0.975)
		if p.Verdict != c.want {
			t.Errorf("%s: %s, want %s: %+v", name, p.Verdict, c.want, p.Any)
		}
		if c.want == "untouched" {
			continue
		}
		if pooled := pool([]result.SLOPart{p, p}); pooled.Any[0].N != 400 || p.Any[0].N != 200 || c.want != result.SLOUndecided && pooled.Verdict != c.want {
			t.Errorf("%s: pooled %+v, of %+v", name, pooled, p)
		}
		if text := Say(p); !strings.Contains(text, p.Verdict+": ") || strings.Contains(text, " or ") == (c.want == result.SLOPass) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// A percentile that is far from its limit is decided though its values drift together, alone
// and pooled; near the limit, with lost requests or of few values the count alone decides.
func TestDecide_far(t *testing.T) {
	t.Parallel()
	drifting := func(n int, value, drift float64) []result.Request {
		requests := make([]result.Request, n)
		for i := range requests {
			begin := time.Duration(i) * time.Second
			took := value * (1 + drift*math.Sin(float64(i)/float64(n)*3)) // ms
			requests[i] = result.Request{N: i, Status: result.Completed, Phase: result.Plateau, FirstToken: result.Never, FirstOutput: result.Never, LastToken: result.Never, FirstTokenChunk: -1, Scheduled: begin, Sent: begin, End: begin + time.Duration(took*float64(time.Millisecond))}
		}
		return requests
	}
	decide := func(requests []result.Request, limit float64) result.SLOPart {
		var p result.SLOPart
		span := timeline.Span{From: 0, To: requests[len(requests)-1].Sent, Steady: true}
		Of(requests, summary.Options{Open: true, Span: span}).Decide(&p, nil, []Comparison{{Column: "p50_e2e_ms", Op: "<", Limit: limit}}, Confidence)
		return p
	}
	far := decide(drifting(168, 18, 0.01), 50)
	if far.Verdict != result.SLOPass || !far.Far || far.Deff < 20 {
		t.Errorf("18 ms that drift by 1 %%, limit 50: %+v", far)
	}
	if got := Say(far); !strings.Contains(got, "0 of 168 over 50 ms, that is at most 3.5 % (95 % sure), 50 % allowed; the percentile is 2.8 times below its limit") {
		t.Errorf("said: %s", got)
	}
	near := decide(drifting(168, 18, 0.01), 18.5)
	if near.Verdict != result.SLOUndecided || near.Far {
		t.Errorf("limit 18.5: %+v", near)
	}
	wandering := decide(drifting(168, 18, 0.9), 50)
	if wandering.Verdict != result.SLOUndecided {
		t.Errorf("values that wander by 90 %%: %+v", wandering)
	}
	few := decide(drifting(marginValues-1, 18, 0.01), 50)
	if few.Verdict != result.SLOUndecided || few.DF != 0 {
		t.Errorf("%d values: %+v", marginValues-1, few)
	}
	lost := drifting(168, 18, 0.01)
	for i := 60; i < 80; i++ {
		lost[i].Status = result.Failed
	}
	if p := decide(lost, 50); p.Far {
		t.Errorf("a part of the trial was lost: %+v", p)
	}
	over := decide(drifting(168, 60, 0.01), 50)
	if over.Verdict != result.SLOFail || !over.Far {
		t.Errorf("60 ms, limit 50: %+v", over)
	}
	half := func() result.SLOResult {
		p := decide(drifting(50, 18, 0.05), 21.3)
		return result.SLOResult{Name: "fast", Expr: "e", Parts: []result.SLOPart{p}, Verdict: p.Verdict}
	}
	if one := half(); one.Verdict != result.SLOUndecided {
		t.Errorf("50 values: %+v", one)
	}
	many := Pool([]result.SLOResult{half(), half()})
	if many.Verdict != result.SLOPass || !many.Parts[0].Far || many.Parts[0].DF != 14 {
		t.Errorf("two trials of 50: %+v", many.Parts)
	}
	old := half()
	old.Parts[0].DF, old.Parts[0].LimitDeff = 0, 0 // of an earlier version
	if p := Pool([]result.SLOResult{half(), old}); p.Parts[0].Far || p.Parts[0].DF != 0 {
		t.Errorf("beside a trial whose distance is not known: %+v", p.Parts)
	}
}

// A point of the error rate says what it rests on, also over several trials, and is thin if
// that is little.
func TestDecide_errorRatePoint(t *testing.T) {
	t.Parallel()
	decide := func(n, failed int) result.SLOResult {
		requests := make([]result.Request, n)
		for i := range requests {
			begin := time.Duration(i) * time.Second
			requests[i] = result.Request{N: i, Status: result.Completed, Phase: result.Plateau, FirstToken: result.Never, FirstOutput: result.Never, LastToken: result.Never, FirstTokenChunk: -1, Scheduled: begin, Sent: begin, End: begin + time.Millisecond}
			if i < failed {
				requests[i].Status = result.Failed
			}
		}
		rate := float64(failed) / float64(n)
		p := result.SLOPart{Expr: "error_rate == 0", Rule: result.RulePoint, Verdict: result.SLOPass, Values: result.Row{"error_rate": rate}}
		if failed > 0 {
			p.Verdict = result.SLOFail
		}
		Of(requests, summary.Options{Open: true}).Decide(&p, nil, []Comparison{{}}, Confidence)
		return result.SLOResult{Name: "clean", Expr: p.Expr, Parts: []result.SLOPart{p}, Verdict: p.Verdict}
	}
	few := decide(168, 0)
	if got := Say(few.Parts[0]); got != "error_rate = 0: 0 of 168 failed, that is at most 1.8 % (95 % sure) (point)" || !Thin(few) {
		t.Errorf("said %q, thin %v", got, Thin(few))
	}
	if enough := decide(300, 0); Thin(enough) {
		t.Errorf("0 of 300 is thin: %+v", enough.Parts)
	}
	if both := Pool([]result.SLOResult{few, few}); both.Parts[0].N != 336 || Thin(both) {
		t.Errorf("two trials: %+v", both.Parts)
	}
	if missed := decide(168, 2); missed.Verdict != result.SLOFail || missed.Parts[0].Over != 2 || Thin(missed) {
		t.Errorf("2 of 168: %+v", missed)
	}
}
