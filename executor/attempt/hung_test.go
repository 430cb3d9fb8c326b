package attempt

import (
	"testing"

	"sweep.dev/sweep/result"
)

// A server that answers no request in its time hangs; one that serves some of
// them, refuses them or begins to answer is only slow or wrong.
func TestHung(t *testing.T) {
	t.Parallel()
	given := result.Request{Status: result.Failed, ErrorClass: result.ErrTimeout, FirstTokenChunk: -1}
	begun, refused, warm := given, given, given
	begun.FirstTokenChunk, refused.ErrorClass, warm.Phase = 1, result.ErrOverload, result.Warmup
	for name, c := range map[string]struct {
		requests []result.Request
		want     bool
	}{
		"all without a token": {[]result.Request{given, given}, true},
		"one began":           {[]result.Request{given, begun}, false},
		"one was refused":     {[]result.Request{given, refused}, false},
		"the warm-up alone":   {[]result.Request{warm}, false},
		"none":                {nil, false},
	} {
		if got := (&Attempt{requests: c.requests}).Hung(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
