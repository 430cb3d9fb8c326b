package ready

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/executor/serving/ask"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// Patience bounds the wait for a server. Zero fields have the defaults.
type Patience struct {
	// Silent is how long a given server may leave questions unanswered; default
	// givenSilence. timeouts.ready bounds one that answers "not yet".
	Silent time.Duration
	// Again is the time between two refusals of a server that sweep started,
	// after which it is believed; default refusedAgain.
	Again time.Duration
}

const (
	givenSilence = 30 * time.Second
	refusedAgain = 5 * time.Second
)

// A wait judges the answers of a server that is not ready yet, and shows the
// last of them to people.
type wait struct {
	last     lastAnswer
	patience Patience
	given    bool // the server is not ours: its first refusal ends the wait
	// own says that the engine's own process answers. A proxy, a tunnel, a
	// frontend and a router answer 404 and 502 before their route exists.
	own bool

	silent  time.Time // since when nothing was answered
	refused time.Time // since when the same thing is refused; zero if it is not
}

func (c *Check) waitFor(dep backends.Deployment, step string) *wait {
	entry := c.Profile.EntryRole()
	direct := dep.Host(entry, 0).Path() == host.Direct
	computes := c.Profile.Role(entry).Computes()
	return &wait{
		last: lastAnswer{of: c, step: step}, patience: c.Patience,
		given: c.Given, own: direct && computes && len(c.Profile.Roles) < 2,
		silent: time.Now(),
	}
}

// judge takes one answer. The returned error ends the wait; nil goes on.
func (w *wait) judge(err error) error {
	now := time.Now()
	w.last.show(err)
	if _, ok := err.(*WrongModel); ok { //nolint:errorlint // returned as it is, never wrapped
		return err // a proxy that has no route names no model
	}
	var none *ask.NoAnswer
	if !errors.As(err, &none) {
		w.silent = now
	}
	refusal := ask.Lasting(err)
	switch {
	case refusal == nil:
		w.refused = time.Time{}
	case w.given:
		return refusal
	case !w.own:
	case w.refused.IsZero():
		w.refused = now
	case now.Sub(w.refused) >= cmp.Or(w.patience.Again, refusedAgain):
		return refusal
	}
	if limit := cmp.Or(w.patience.Silent, givenSilence); w.given && none != nil && now.Sub(w.silent) >= limit {
		return &backends.Failure{
			Class: result.ErrConnect, Err: fmt.Errorf("no answer for %s: %w", limit, err),
			Hint: "is the server up, and is backend.url its address? sweep probe URL shows what answers there",
		}
	}
	return nil
}

// A lastAnswer shows people what they wait for.
type lastAnswer struct {
	of    *Check
	step  string
	shown string
}

// show passes on the last answer if it is another than the one before.
func (l *lastAnswer) show(err error) {
	text := wire.Clip(l.of.Mask.Text(err.Error()))
	if text == l.shown {
		return
	}
	l.shown = text
	l.of.Show(l.step, text)
}

// A WrongModel is a server that answers, but for another model.
type WrongModel struct {
	Want string
	Got  []string
}

// MaxListed bounds the models of a server that a message names.
const MaxListed = 20

func (e *WrongModel) Error() string {
	var got []string
	for _, model := range e.Got {
		got = append(got, strconv.Quote(model))
	}
	return fmt.Sprintf("the server serves %s, not %q", cmp.Or(humanize.List(got, MaxListed), "no model"), e.Want)
}
