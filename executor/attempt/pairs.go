package attempt

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/executor/serverlog"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// The first KV cache that goes from a prefill server to a decode server opens a connection,
// which takes NIXL about 5 s. So each pair of them moves one before the load.
const (
	// PairTokens is the length of a prompt that warms up a pair: above the thresholds of
	// routers, which have decode servers compute short prompts themselves.
	PairTokens = 1024
	// PairRounds is how many prompts a pair gets at most. A round has one for each.
	PairRounds = 2

	pairOutput   = 8  // tokens of an answer
	pairsAtOnce  = 64 // in flight at most
	pairsSeed    = 0x70616972
	pairsInText  = 8 // that a finding names
	pairsRequest = "-pairs%d"
)

// WarmsPairs reports whether the pairs of prefill and decode servers of an engine are warmed
// up: of a stack that somebody else started.
func WarmsPairs(p *engine.Profile, b backends.Backend, given bool) bool {
	_, found := b.(backends.Described)
	return given && found && p.Disaggregated()
}

// warmPairs moves a KV cache between each pair of a prefill and a decode server, once, and
// again after one of them was restarted or is another one.
func (a *Attempt) warmPairs(ctx context.Context, d sender) error {
	p, ok := a.subject.Server.Deployment.(backends.Paired)
	if !ok || !WarmsPairs(a.subject.Profile, a.config.Backend, a.config.Given) {
		return nil
	}
	prefill, decode, state := p.Pairs()
	n := len(prefill) * len(decode)
	if n == 0 || state == a.subject.paired {
		return nil
	}
	e := a.event(event.Notice)
	e.Text = fmt.Sprintf("beyond the load: at most %d completions of %d prompt tokens move a KV cache over %s of a prefill and a decode server (counted in extra_requests)", PairRounds*n, PairTokens, humanize.Plural(n, "pair"))
	a.config.Emit(e)
	w := &pairing{cold: map[[2]string]bool{}}
	for _, from := range prefill {
		for _, to := range decode {
			w.cold[[2]string{from, to}] = true
		}
	}
	for round := range PairRounds {
		if err := a.pairRound(ctx, d, w, round+1, n); err != nil {
			return err
		}
		if len(w.cold) == 0 {
			break
		}
	}
	a.subject.paired = state
	if f, ok := w.finding(n); ok {
		a.sink.Note(f)
	}
	return nil
}

// A pairing is what a warm-up over pairs has come to.
type pairing struct {
	cold  map[[2]string]bool // pairs of which no transfer was seen
	sent  []result.Request
	moved bool            // the logs show transfers
	ways  *serverlog.Ways // of the last round; nil: no log tells any
}

// pairRound sends one prompt for each pair, and reads in the logs between which of them
// caches were moved.
func (a *Attempt) pairRound(ctx context.Context, d sender, w *pairing, round, n int) error {
	c := a.load()
	c.Phase, c.Pace, c.Ramp, c.Conversation = result.Warmup, nil, 0, source.Conversation{}
	c.Seed ^= pairsSeed * uint64(round)
	c.Concurrency = min(n, pairsAtOnce)
	c.WarmupRequests, c.WarmupDuration, c.WarmupSlots, c.WarmPrefixes = n, 0, c.Concurrency, false
	c.MaxTokens, c.ThinkTime = pairOutput, 0
	c.Prompts = source.Prompts{InputTokens: max(PairTokens, c.Prompts.InputTokens), Tokens: c.Prompts.Tokens}
	o := a.options(nil)
	o.RequestID += fmt.Sprintf(pairsRequest, round)
	h, err := d.send(ctx, sending{load: c, rec: recorder(func(r result.Request) string {
		r.Error = a.config.Mask.Text(r.Error)
		a.mu.Lock()
		defer a.mu.Unlock()
		w.sent = append(w.sent, r)
		a.subject.Extra.Add(1, 1)
		return ""
	})}, o)
	if err := errors.Join(err, a.lostIn(&h), context.Cause(ctx)); err != nil {
		return err
	}
	a.logs.CatchUp(ctx)
	if w.ways, err = a.logs.Ways(o.RequestID); err != nil || w.ways == nil {
		return err
	}
	for key, to := range w.ways.Moved {
		w.moved = true
		if way := w.ways.Of[key]; way != nil {
			for _, from := range []string{way.Prefill, way.PickedPrefill} {
				delete(w.cold, [2]string{from, to})
			}
		}
	}
	return nil
}

// finding says what is not known to be warm of n pairs.
func (w *pairing) finding(n int) (f result.Finding, cold bool) {
	if len(w.cold) == 0 {
		return f, false
	}
	text := fmt.Sprintf("%d prompts were sent over %s of a prefill and a decode server", len(w.sent), humanize.Plural(n, "pair"))
	if i := slices.IndexFunc(w.sent, func(r result.Request) bool { return r.Status == result.Failed }); i >= 0 {
		text += fmt.Sprintf(", and some failed (%s: %s)", w.sent[i].ErrorClass, w.sent[i].Error)
	}
	if !w.moved {
		text += ", and the logs do not tell between which of them a KV cache was moved"
		switch {
		case w.ways == nil:
			text += ": no line of this engine's logs is known that tells it"
		case w.ways.Renamed:
			text += ": " + serverlog.RenamedHint
		default:
			if needs := w.ways.Needs(); needs != "" {
				text += "; not printed, with what prints it: " + needs
			}
		}
		return result.Finding{Code: finding.PDPairsUnknown, Text: text}, true
	}
	var names []string
	for pair := range w.cold {
		names = append(names, pair[0]+" > "+pair[1])
	}
	slices.Sort(names)
	return result.Finding{Code: finding.PDPairsCold, Text: text + "; none was seen to move a KV cache by " + humanize.List(names, pairsInText)}, true
}
