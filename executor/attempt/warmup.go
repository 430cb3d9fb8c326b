package attempt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/timeline"
)

// Bounds of what is added to the warm-up of an open loop.
const (
	mostInFlight  = 512
	longestWarmup = 2 * time.Minute
)

// warmUp sends the warm-up's requests; they are recorded as such and never
// counted. That of an open loop whose plan leaves it to us begins with two
// requests, which tell how many more will be in flight.
func (a *Attempt) warmUp(ctx context.Context, d load.Driver) error {
	c := a.load()
	c.Phase = result.Warmup
	err := a.warm(ctx, d, c, math.MaxInt)
	a.learnFromWarmup(&a.subject.counting)
	sent, want := a.warmed(), a.fullWarmup()
	l := a.trial.Cell.Load
	if endless := l.Prompts.Kind == plan.PromptsSynthetic || l.Prompts.Reuse == plan.ReuseAllowed; err == nil &&
		sent < want && l.Open() && l.Warmup == (plan.Warmup{}) && endless {
		c.WarmupRequests, c.WarmupDuration, c.WarmupSlots = 0, longestWarmup, want/2
		err = a.warm(ctx, d, c, want-sent)
		sent = a.warmed()
	}
	if err != nil {
		return err
	}
	if l.Open() || l.Staggered() {
		if a.ramp = timeline.Ramp(a.records.all(), l.Open()); a.ramp > 0 {
			a.ramp += l.ThinkTime
		}
	}
	if sent < want {
		a.sink.Note(short(sent, want, l.Staggered() && a.ramp == 0))
	}
	return nil
}

// warm sends at most so many requests of a warm-up.
func (a *Attempt) warm(ctx context.Context, d load.Driver, c source.Config, most int) error {
	src, err := source.New(c)
	if err != nil {
		return err
	}
	_, err = d.Run(ctx, &limited{src, most}, recorder(a.keep), a.options(nil))
	return errors.Join(err, context.Cause(ctx))
}

// A limited source ends after so many jobs.
type limited struct {
	load.Source
	left int
}

// Next implements [load.Source].
func (l *limited) Next(slot int, prev *result.Request) (load.Job, bool) {
	if l.left == 0 {
		return load.Job{}, false
	}
	job, ok := l.Source.Next(slot, prev)
	if ok {
		l.left--
	}
	return job, ok
}

// warmed is how many requests of the warm-up were sent.
func (a *Attempt) warmed() (n int) {
	for r := range a.records.all() {
		if r.Phase == result.Warmup && r.Sent >= 0 {
			n++
		}
	}
	return n
}

// fullWarmup is how many requests bring the server to its load: two for each that
// will be in flight. In an open loop these follow from its rate and from how long
// the warm-up's requests took (Little's law).
func (a *Attempt) fullWarmup() int {
	l := a.trial.Cell.Load
	if !l.Open() {
		return 2 * l.Concurrency
	}
	inFlight := int(math.Ceil(min(mostInFlight, l.PeakRate()*timeline.Ramp(a.records.all(), false).Seconds())))
	if l.MaxInFlight > 0 {
		inFlight = min(inFlight, l.MaxInFlight)
	}
	return 2 * max(1, inFlight)
}

// short is the finding of a warm-up that was too short.
func short(sent, want int, together bool) result.Finding {
	text := fmt.Sprintf("the warm-up sent %d requests, and %d bring the server to its load", sent, want)
	if together {
		text += "; as it did not tell how long a request takes, all workers began at once"
	}
	return result.Finding{Code: finding.WarmupShort, Text: text}
}
