package attempt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/objective"
)

// ended returns the finding of a load that ended before its cap.
func ended(d stopping.Decision) result.Finding {
	switch d.By {
	case stopping.Precise, stopping.Decided:
		return result.Finding{Code: finding.EndedEarly, Text: d.Text}
	case stopping.Refused:
		return result.Finding{Code: finding.LoadRefused, Text: d.Text}
	case stopping.Full:
		return result.Finding{Code: finding.RecordsFull, Text: d.Text}
	}
	return result.Finding{Code: finding.LoadStopped, Text: d.Text}
}

// errEnough is the cause with which a load's context ends where what is in
// flight is not worth waiting for.
var errEnough = errors.New("the precision asked for is reached")

// A supervisor stands between a driver, its source and its recorder, and ends
// the load when its figures are known well enough: it hands out nothing more, and
// cancels the requests in flight if no figure needs them.
type supervisor struct {
	load.Source
	keep   func(result.Request) (full string)
	cancel context.CancelCauseFunc

	anchor result.Anchor
	enough chan struct{} // closed once nothing more is to be sent; nil: it is for nobody

	begin, end sync.Once
	mu         sync.Mutex
	rule       *stopping.Rule
}

// started hears when the load began.
func (s *supervisor) started(at time.Duration) {
	s.begin.Do(func() { s.updateRule(func(r *stopping.Rule) { r.Start(at) }) })
}

// ruleOf returns what may end a trial of this load before its cap. due is when its
// requests are due, of an open loop, and objectives what ends it once they are decided,
// nil for none.
func ruleOf(l plan.Load, due []time.Duration, objectives *objective.Watch) *stopping.Rule {
	c := stopping.Config{Open: l.Open(), Due: due, Holds: holds(l), Objectives: objectives}
	if u := l.Until; u != nil {
		c.Until = &stopping.Precision{Metric: u.Metric, Within: u.Within, Confidence: u.Confidence, MinRequests: u.MinRequests}
	}
	if s := l.Stop; s != nil {
		c.ErrorRate, c.Saturated = s.ErrorRate, s.Saturated
	}
	return stopping.New(c)
}

// holds returns the times in which an open loop keeps one rate. A trace is not known to.
func holds(l plan.Load) (all []stopping.Hold) {
	if l.RequestRate > 0 {
		return []stopping.Hold{{}}
	}
	for _, h := range l.Holds() {
		all = append(all, stopping.Hold{From: h.From, To: h.To})
	}
	return all
}

// Next implements [load.Source].
func (s *supervisor) Next(slot int, prev *result.Request) (load.Job, bool) {
	s.started(s.anchor.Since())
	if _, over := s.over(); over {
		return load.Job{}, false
	}
	return s.Source.Next(slot, prev)
}

// Record implements [load.Recorder].
func (s *supervisor) Record(q result.Request) {
	full := s.keep(q)
	s.updateRule(func(r *stopping.Rule) {
		if r.End(&q); full != "" {
			r.Fill(full)
		}
	})
}

func (s *supervisor) updateRule(what func(*stopping.Rule)) {
	s.mu.Lock()
	what(s.rule)
	s.mu.Unlock()
	d, over := s.over()
	if !over {
		return
	}
	s.end.Do(func() {
		if s.enough != nil {
			close(s.enough)
		}
	})
	if d.Cancel {
		s.cancel(errEnough)
	}
}

func (s *supervisor) over() (stopping.Decision, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rule.Over()
}

// capped returns which of its caps ended a load of so many measured requests that
// nothing ended before.
func capped(c source.Config, measured int) string {
	most := c.Requests
	if c.RequestsPerWorker > 0 {
		most = c.RequestsPerWorker * c.Concurrency
	}
	timed := c.Duration > 0
	if c.Pace != nil {
		if n, exact := c.Pace.Count(0); !exact {
			timed = timed || c.Pace.Length() > 0
		} else if most == 0 || int(n) < most {
			most = int(n)
		}
	}
	if timed && (most == 0 || measured < most) {
		return stopping.Duration
	}
	return stopping.Requests
}

// beside sends the plan's probes until the returned function is called, which
// waits for their end.
func (a *Attempt) beside(ctx context.Context, c source.Config, d sender) (stop func(), err error) {
	if c.Probe == (source.Probe{}) {
		return func() {}, nil
	}
	c.Phase = result.Probe
	done := func() {}
	if _, one := d.(alone); one { // whose driver sends one load at a time
		own, err := a.driver(a.subject.Server.Host(a.subject.Profile.EntryRole(), 0))
		if err != nil {
			return nil, err
		}
		d, done = alone{own}, own.Close
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	var broken error
	running.Go(func() { _, broken = d.send(ctx, sending{load: c, rec: recorder(a.keep)}, a.options(nil)) })
	return func() {
		cancel()
		running.Wait()
		done()
		if broken != nil {
			a.sink.Note(result.Finding{Code: finding.ProbeFailed, Text: fmt.Sprintf("the probe beside the load broke off: %v", broken)})
		}
	}, nil
}
