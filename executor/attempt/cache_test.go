package attempt

import (
	"testing"

	"sweep.dev/sweep/result"
)

// What a prefix cache may know is judged whatever the prompts are, but where the
// plan lets them be asked again.
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
			a, _ := judged(t, `load: {requests: 2, max_tokens: 4, warmup: {requests: 0}, prompts: `+c.load+`}`)
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
	// What was not sent shares nothing.
	a, _ := judged(t)
	for i := range a.requests {
		a.requests[i].Sent = result.Never
	}
	if got := a.shared(); got == nil || *got != 0 {
		t.Errorf("of no request: %v", got)
	}
}
