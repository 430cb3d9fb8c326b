package attempt

import (
	"context"
	"errors"
	"fmt"
	"iter"
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
	LongestWarmup = 2 * time.Minute
)

// warmUp sends the warm-up's requests; they are recorded as such and never
// counted. That of an open loop whose plan leaves it to us begins with two
// requests, which tell how many more will be in flight. One whose prompts begin alike
// goes on until the server's caches are flat.
func (a *Attempt) warmUp(ctx context.Context, d sender) error {
	c := a.load()
	c.Phase = result.Warmup
	err := a.warm(ctx, d, c, 0)
	a.learnFromWarmup(&a.subject.counting)
	l := a.trial.Cell.Load
	sent, want := a.warmed(), FullWarmup(l, a.records.all())
	var rounds []int // of the warm-up by time
	if endless := l.Prompts.Kind == plan.PromptsSynthetic || l.Prompts.Reuse == plan.ReuseAllowed; err == nil &&
		sent < want && l.Open() && l.Warmup == (plan.Warmup{}) && endless {
		c.WarmupRequests, c.WarmupDuration, c.WarmupSlots = 0, LongestWarmup, want/2
		rounds = []int{want - sent}
		err = a.warm(ctx, d, c, want-sent)
		sent = a.warmed()
	}
	if err == nil && WarmsUntilFlat(a.config.Plan, a.subject.Profile, a.config.Given, l) {
		err = a.untilFlat(ctx, d, c, want/2, rounds)
	}
	if err != nil {
		return err
	}
	a.ramp = Begin(l, c.MeanTurns(), a.records.all(), a.trial.Key.Trial)
	if sent < want {
		a.sink.Note(short(sent, want, l.Staggered() && a.ramp == 0))
	}
	return nil
}

// Begin returns how long a load takes to begin in a trial, from 1, as the requests of its warm-up
// tell: see [timeline.Ramp] and [Spacing]. It is 0 if they do not, and if all workers begin
// at once.
//
// The workers of conversations begin over a whole one, of so many turns in the mean. If they
// began over one turn, all would be at the same turn all the time, and the lengths of prompts
// and TTFT would rise and fall with it: a trial would measure where in that it ended. Of a
// load by time it is half of that at most.
func Begin(l plan.Load, turns float64, warmup iter.Seq[*result.Request], trial int) time.Duration {
	took := timeline.Ramp(warmup, l.Open())
	switch {
	case l.Open() || took == 0:
		return took
	case !l.Staggered():
		return 0
	}
	one := took + l.ThinkTime
	whole := time.Duration(min(turns, float64(l.StartsOver()))*float64(one)) - l.ThinkTime // none follows the last turn
	if l.Duration > 0 {
		whole = min(whole, l.Duration/2)
	}
	return Spacing(max(one, whole), trial)
}

// Spacing returns how long the slots of a closed loop take to begin in a trial, from 1:
// ramp in the first, and 0.9 to 1.2 of it, evenly spread, over many. Requests of
// one length meet again and again in the steps where they met at first, and p95 TTFT
// is of that cycle (docs/statistics.md). Trials with other starts show others, so
// that an interval over trials covers them.
func Spacing(ramp time.Duration, trial int) time.Duration {
	const golden = 0.618033988749895 // its multiples, less their whole parts, fill 0 to 1 evenly
	_, place := math.Modf(1./3 + float64(trial-1)*golden)
	return time.Duration(float64(ramp) * (0.9 + 0.3*place))
}

// warm sends at most so many requests of a warm-up; 0 is all.
func (a *Attempt) warm(ctx context.Context, d sender, c source.Config, most int) error {
	h, err := d.send(ctx, sending{load: c, most: most, rec: recorder(a.keep)}, a.options(nil))
	return errors.Join(err, a.lostIn(&h), context.Cause(ctx))
}

// A ClientLost is the end of an attempt before its load: one of several clients was lost,
// and without it there is nothing to measure. The health that the verdict reads says so too.
type ClientLost struct {
	Client int
	Why    string
}

func (e *ClientLost) Error() string { return fmt.Sprintf("client %d was lost: %s", e.Client, e.Why) }

// lostIn returns the error of a warm-up in which a client was lost.
func (a *Attempt) lostIn(h *load.Health) error {
	for _, s := range h.Shards {
		if s.Lost != "" {
			a.health = *h
			return &ClientLost{Client: s.Shard, Why: s.Lost}
		}
	}
	return nil
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

// warmed returns how many requests of the warm-up were sent.
func (a *Attempt) warmed() (n int) {
	for r := range a.records.all() {
		if r.Phase == result.Warmup && r.Sent >= 0 {
			n++
		}
	}
	return n
}

// FullWarmup returns how many requests bring the server to its load: two for each that
// will be in flight. In an open loop these follow from its rate and from how long
// the warm-up's requests took (Little's law).
func FullWarmup(l plan.Load, requests iter.Seq[*result.Request]) int {
	if !l.Open() {
		return 2 * l.Concurrency
	}
	inFlight := int(math.Ceil(min(mostInFlight, l.PeakRate()*timeline.Ramp(requests, false).Seconds())))
	if l.MaxInFlight > 0 {
		inFlight = min(inFlight, l.MaxInFlight)
	}
	return 2 * max(1, inFlight)
}

// short returns the finding of a warm-up that was too short.
func short(sent, want int, together bool) result.Finding {
	text := fmt.Sprintf("the warm-up sent %d requests, and %d bring the server to its load", sent, want)
	if together {
		text += "; as it did not tell how long a request takes, all workers began at once"
	}
	return result.Finding{Code: finding.WarmupShort, Text: text}
}
