package validity

import (
	"strings"
	"testing"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// TestOneCycle holds that the finding is on loads of one length alone, and only if another
// start could decide otherwise.
func TestOneCycle(t *testing.T) {
	near := []Tail{{"p95_ttft_ms", 200, 300}}
	vary := func(change func(r *result.Request, n int)) []result.Request {
		requests := clean().measured()
		for i := range requests {
			change(&requests[i], i)
		}
		return requests
	}
	same := vary(func(*result.Request, int) {})
	for name, tt := range map[string]struct {
		requests    []result.Request
		concurrency int
		tails       []Tail
		want        bool
	}{
		"near":                   {same, 8, near, true},
		"near from above":        {same, 8, []Tail{{"p95_ttft_ms", 500, 300}}, true},
		"p99":                    {same, 8, []Tail{{"p99_ttft_ms", 200, 300}}, true},
		"until":                  {same, 8, []Tail{{Column: "p95_ttft_ms"}}, true},
		"until a mean":           {same, 8, []Tail{{Column: "ttft_ms"}}, false},
		"far below":              {same, 8, []Tail{{"p95_ttft_ms", 100, 300}}, false},
		"far above":              {same, 8, []Tail{{"p95_ttft_ms", 600, 300}}, false},
		"a median":               {same, 8, []Tail{{"p50_ttft_ms", 200, 300}}, false},
		"TPOT":                   {same, 8, []Tail{{"p95_tpot_ms", 200, 300}}, false},
		"E2E":                    {same, 8, []Tail{{"p95_e2e_ms", 200, 300}}, false},
		"nothing rests on it":    {same, 8, nil, false},
		"one slot":               {same, 1, near, false},
		"nothing measured":       {nil, 8, near, false},
		"prompts within 1 %":     {vary(func(r *result.Request, n int) { r.PromptTokens += n % 2 }), 8, near, true},
		"prompts vary":           {vary(func(r *result.Request, n int) { r.PromptTokens += 2 * (n % 2) }), 8, near, false},
		"answers vary":           {vary(func(r *result.Request, n int) { r.CompletionTokens += n % 2 }), 8, near, false},
		"prompts unknown":        {vary(func(r *result.Request, _ int) { r.PromptTokens = result.Unknown }), 8, near, false},
		"others in the ramp":     {vary(func(r *result.Request, n int) { inRamp(r, n) }), 8, near, true},
		"a failure is no length": {vary(func(r *result.Request, n int) { failed(r, n) }), 8, near, true},
	} {
		got, ok := OneCycle(tt.requests, tt.concurrency, tt.tails)
		if ok != tt.want {
			t.Errorf("%s: %v, want %v (%s)", name, ok, tt.want, got.Text)
		}
		if ok && (got.Code != finding.OneCycle || !strings.Contains(got.Text, tt.tails[0].Column) || !strings.Contains(got.Text, "repeats: 3")) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func inRamp(r *result.Request, n int) {
	if n < 10 {
		r.Phase, r.CompletionTokens = result.Ramp, 99
	}
}

func failed(r *result.Request, n int) {
	if n == 50 {
		r.Status, r.CompletionTokens = result.Failed, 0
	}
}

// TestTails holds that both sides of an or are there, and that what is no percentile of
// requests is not.
func TestTails(t *testing.T) {
	figure := 200.0
	share := result.SLOPart{Rule: result.RuleShare, Column: "p95_ttft_ms", Figure: &figure, Limit: 300}
	infinite := share
	infinite.Figure = nil
	got := Tails([]result.SLOResult{
		{Parts: []result.SLOPart{share, infinite, {Rule: result.RulePoint}}},
		{Parts: []result.SLOPart{{Rule: result.RuleAny, Any: []result.SLOPart{{Rule: result.RuleMean}, share}}}},
	})
	if want := (Tail{"p95_ttft_ms", 200, 300}); len(got) != 2 || got[0] != want || got[1] != want {
		t.Errorf("%+v", got)
	}
}
