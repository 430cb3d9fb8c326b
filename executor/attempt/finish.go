package attempt

import (
	"fmt"
	"io"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/outcome"
	"sweep.dev/sweep/executor/serverlog"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/store"
	"sweep.dev/sweep/result/timeline"
)

// Finish concludes from what was seen, or from why nothing was, and writes the files.
func (a *Attempt) Finish(end outcome.End) (*result.Outcome, error) {
	m, err := a.measured(end.Skip == nil)
	if err != nil {
		return nil, err
	}
	o, err := outcome.Of(a.identity(), a.server(), m, end)
	if err != nil {
		return nil, err
	}
	if m.Routing != nil {
		if err := a.file(layout.Routing, m.Routing.Write); err != nil {
			return nil, err
		}
	}
	return o, a.write(m.Samples)
}

// identity returns what the attempt is one at.
func (a *Attempt) identity() outcome.Trial {
	t := outcome.Trial{
		Plan: a.config.Plan, RunID: a.config.RunID, Cell: a.trial.Cell, Label: a.trial.Label,
		Number: a.trial.Key.Trial, Attempt: a.number, Why: a.trial.Why,
		Client: a.config.Client, ClientHost: a.config.ClientHost, Calibration: a.config.Calibration, ByPoint: a.config.ByPoint,
	}
	if b, ok := a.config.Backend.(backends.Simulator); ok {
		t.Simulated = b.Simulated()
	}
	if b, ok := a.config.Backend.(backends.TimeScaler); ok {
		t.TimeScale = new(b.TimeScale())
	}
	return t
}

// server returns what is known of the server by now; nil if none is up.
func (a *Attempt) server() *outcome.Server {
	s := a.subject.Server
	if s == nil {
		return nil
	}
	known := &outcome.Server{
		Version: s.Version, Model: s.Model, StartUp: s.StartUp, Terms: s.Terms(), Roles: s.Roles,
		Path: s.Host(a.subject.Profile.EntryRole(), 0).Path(),
	}
	if !s.Foreign {
		known.Launch = s.Launch
	}
	return known
}

// measured returns all that the attempt saw. What was sent beyond the load is counted in
// its row, if that is wanted, and in no later one.
func (a *Attempt) measured(extra bool) (m outcome.Measured, err error) {
	l := a.trial.Cell.Load
	m = outcome.Measured{
		Started: a.started, Finished: time.Now().UTC(),
		Requests: a.requests, Span: timeline.Assign(a.requests, l.Concurrency), Ramp: a.ramp,
		Notes: a.sink.Notes(), Columns: a.columns, Health: a.health, Ended: a.ended, Stolen: a.stolen,
		Shared: a.shared(), MayKnow: a.mayKnow(),
	}
	m.Samples = append(a.sink.Samples(), timeline.Samples(timeline.Of(a.requests, timeline.Step, l.Open()))...)
	if extra {
		m.Extra = a.extra()
		m.Columns = merge(a.columns, a.subject.Columns)
		m.Notes = append(m.Notes, a.subject.Notes...)
	}
	if a.subject.Device != "" && m.Columns[col.GPUUUID] == nil {
		m.Columns = merge(m.Columns, result.Row{col.GPUUUID: a.subject.Device})
	}
	if a.logs == nil {
		return m, nil
	}
	if a.columns[col.ServerReportedThroughputTokS] == nil {
		if claimed, ok := a.logs.Reported(); ok {
			m.Claimed = &claimed
		}
	}
	m.Compiled = a.logs.Compiled()
	var ways *serverlog.Ways
	if m.Routing, ways, err = a.logs.Routing(a.requestID()); err != nil {
		return m, fmt.Errorf("which worker served what: %w", err)
	}
	if ways != nil {
		ways.Set(a.requests)
		if f, missing := ways.Missing(a.requests); missing && a.logs.Found() {
			m.Notes = append(m.Notes, f)
		}
	}
	return m, nil
}

// Hung reports whether every request was given up after its time without a token: the
// server's logs may say why.
func (a *Attempt) Hung() bool {
	n := 0
	for _, r := range a.requests {
		switch {
		case !r.Measured():
		case r.Status != result.Failed || r.ErrorClass != result.ErrTimeout || r.FirstTokenChunk >= 0:
			return false
		default:
			n++
		}
	}
	return n > 0
}

// write stores the attempt's raw rows and its part of the server's logs.
func (a *Attempt) write(samples []result.Sample) error {
	ids := store.IDs{Run: a.config.RunID, Cell: a.trial.Key.Cell, Trial: a.trial.Key.Trial, Attempt: a.number, Anchor: a.anchor}
	err := a.file(layout.Requests, func(w io.Writer) error { return store.WriteRequests(w, ids, a.requests) })
	if err != nil {
		return err
	}
	err = a.file(layout.Samples, func(w io.Writer) error { return store.WriteSamples(w, ids, samples) })
	if err != nil {
		return err
	}
	if a.logs == nil {
		return nil
	}
	if a.logs.Found() {
		return a.logs.Keep(a.config.Mask, a.file)
	}
	return a.file(layout.EngineLog, func(w io.Writer) error { return a.logs.Copy(w, a.config.Mask) })
}

func (a *Attempt) file(name string, write func(io.Writer) error) error {
	w, err := a.files.Create(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	err = write(w)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
