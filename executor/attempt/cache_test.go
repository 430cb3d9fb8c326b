package attempt

import (
	"testing"

	"sweep.dev/sweep/executor/workload"
	"sweep.dev/sweep/plan/plantest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// answered returns an attempt at the first trial of a plan, of which 100 requests were
// answered.
func answered(t *testing.T, lines ...string) *Attempt {
	t.Helper()
	p := plantest.Parse(t, append([]string{`matrix: {engine: sim, concurrency: [1]}`}, lines...)...)
	d := p.Deployments()[0]
	inputs := workload.New(p)
	first, err := inputs.Claim(d.Cells[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	a := New(&Config{Plan: p, Inputs: inputs}, &Subject{Of: d}, Trial{Key: rundir.Key{Cell: d.Cells[0].ID, Trial: 1}, Cell: d.Cells[0], First: first}, 1, nil)
	for n := range 100 {
		a.requests = append(a.requests, result.Request{N: n, Phase: result.Plateau, Status: result.Completed})
	}
	return a
}

// Prompts that a prefix cache may know are judged for every kind of prompt, unless
// the plan lets them be asked again.
func TestShared(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		load      string
		low, high float64 // low above high: not judged
	}{
		"nothing":         {`{input_tokens: 1000}`, 0, 0.1},
		"a prefix":        {`{input_tokens: 1000, shared_prefix: 50%}`, 0.45, 0.6},
		"given prompts":   {`{kind: inline, texts: [one of them, and another]}`, 0, 1},
		"asked again":     {`{kind: inline, texts: [one], reuse: allowed}`, 1, 0},
		"behind a marker": {`{kind: inline, texts: [one], reuse: allowed, cache_bust: true}`, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := answered(t, `load: {requests: 1, max_tokens: 4, warmup: {requests: 0}, prompts: `+c.load+`}`)
			for i := range a.requests {
				a.requests[i].PromptTokens = 1000
			}
			got := a.shared()
			switch {
			case c.low > c.high:
				if got != nil {
					t.Errorf("%g, want nothing", *got)
				}
			case got == nil || *got < c.low || *got > c.high:
				t.Errorf("%v, want %g to %g", got, c.low, c.high)
			}
		})
	}
	// A request that was not sent shares nothing.
	a := answered(t)
	for i := range a.requests {
		a.requests[i].Sent = result.Never
	}
	if got := a.shared(); got == nil || *got != 0 {
		t.Errorf("of no request: %v", got)
	}
}
