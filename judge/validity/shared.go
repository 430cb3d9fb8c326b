package validity

import (
	"fmt"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// serverShared holds what the server counted against what it was sent. It says nothing
// unless the server ended more requests: it may also count tokens that it discarded.
func serverShared(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	ended, ok := e.Row.Number(col.ServerRequests)
	if !ok || e.Row.Float(col.ProbeRequests) > 0 {
		return fine()
	}
	ours, ok := e.ours()
	if !ok || ended <= float64(ours.requests) {
		return fine()
	}
	var shares []string
	worst := 0.0
	for _, c := range []struct {
		column, name string
		sent         int
	}{{col.ServerOutputTokens, "output", ours.output}, {col.ServerInputTokens, "prompt", ours.input}} {
		counted, ok := e.Row.Number(c.column)
		if !ok || c.sent == result.Unknown || counted <= float64(c.sent) {
			continue
		}
		share := 1 - float64(c.sent)/counted
		worst = max(worst, share)
		shares = append(shares, fmt.Sprintf("%.0f %% of its %s tokens", 100*share, c.name))
	}
	if worst <= b.ForeignLoad {
		return fine()
	}
	others := humanize.Plural(int(ended)-ours.requests, "request")
	return found(finding.ServerShared, "the server also ended %s of others, with %s (bound %.3g %%)", others, strings.Join(shares, " and "), 100*b.ForeignLoad)
}

// A sent counts what sweep asked of the server while it measured.
type sent struct{ requests, output, input int } // tokens, or [result.Unknown]

// ours adds up the requests that the server can have ended since the first measured one was
// sent, of the warm-up too. It is false if it is not known what they made: one that failed
// may have made any number of tokens up to those that it asked for.
func (e *Evidence) ours() (sent, bool) {
	begin := result.Never
	for i := range e.Requests {
		if r := &e.Requests[i]; r.Measured() && r.Sent >= 0 && (begin < 0 || r.Sent < begin) {
			begin = r.Sent
		}
	}
	var s sent
	for i := range e.Requests {
		r := &e.Requests[i]
		if r.Sent < 0 || r.End >= 0 && r.End < begin {
			continue
		}
		s.requests++
		if r.Status != result.Completed {
			s.output, s.input = s.output+r.MaxTokens, result.Unknown
			continue
		}
		if r.CompletionTokens == result.Unknown {
			return sent{}, false
		}
		s.output += r.CompletionTokens
		if r.PromptTokens == result.Unknown {
			s.input = result.Unknown
		}
		if s.input != result.Unknown {
			s.input += r.PromptTokens
		}
	}
	return s, s.requests > 0
}
