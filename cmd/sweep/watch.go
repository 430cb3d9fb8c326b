package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result/col"
)

// watchEvery is how often status --watch reads the run directory at most; a read that
// takes long is followed by a pause of ten times as long.
const watchEvery = time.Second

// watch shows how far a run is until no process is at work in its directory. It only
// reads. Off a terminal it prints a line if anything has changed.
func (a *app) watch(ctx context.Context, dir string) error {
	ctx, _, stop := signals(ctx, a.say)
	defer stop()
	var s *screen
	if term, _ := a.env("TERM"); a.outTTY && term != "dumb" {
		s = &screen{w: a.out, size: func() (int, int) { return a.outWidth(), 24 }}
	}
	var before string
	var left countdown
	for {
		began := time.Now()
		run, _, err := openRun(dir)
		if err != nil {
			return err
		}
		v := fromDirectory(run)
		v.countdown = left
		if !run.Running {
			s.draw(nil)
			return nil
		}
		switch {
		case s != nil:
			s.draw(v.frame(time.Now(), a.outWidth()))
		default:
			if now := fmt.Sprint(v.run.done, run.State.Pending); now != before {
				before = now
				for _, line := range v.frame(time.Now(), widePipe) {
					if _, err := fmt.Fprintln(a.out, line); err != nil {
						return err
					}
				}
			}
		}
		left = v.countdown
		select {
		case <-ctx.Done():
			s.draw(nil)
			return interrupted(ctx)
		case <-time.After(max(watchEvery, 10*time.Since(began))):
		}
	}
}

// widePipe is the width of what is not written to a terminal.
const widePipe = 160

// fromDirectory returns a view of a run by its directory alone.
func fromDirectory(run *report.Run) *view {
	v := &view{plan: run.State.Manifest.Plan, lanes: map[string]*lane{}, deployments: map[string]*forecast{}}
	cells := map[string]conclude.Cell{}
	for _, t := range run.Trials {
		l := v.lanes[t.Cell.Deployment]
		if l == nil {
			l = &lane{marks: map[string]string{}}
			v.lanes[t.Cell.Deployment] = l
		}
		if _, seen := cells[t.Cell.ID]; !seen {
			cells[t.Cell.ID] = t.Cell
			l.cells = append(l.cells, t.Cell.ID)
		}
		v.run.total++
		if t.Outcome != nil {
			v.run.done++
			l.marks[t.Cell.ID] = conclude.Judge(t).Mark()
		}
	}
	last := time.Time{} // the last that was written
	for _, e := range run.State.Events {
		last = e.Time
	}
	told := readShared(run.Dir, time.Now())
	for _, p := range run.State.Pending {
		c := cells[p.Cell]
		l := &liveLine{deployment: c.Deployment, name: serverLabel(c), label: c.Label, key: p.Key, step: "measure", since: last}
		if s, ok := told[c.Deployment]; ok {
			l.take(s)
		}
		v.live = append(v.live, l)
	}
	v.run.left, v.run.began, v.run.seen = paceOf(run)
	for _, o := range run.State.Owed {
		if o.USDPerHour > 0 {
			if v.spending == nil {
				v.spending = &event.Spending{USD: run.State.SpentUSD}
			}
			v.spending.Pods++
			v.spending.USDPerHour += o.USDPerHour
			v.spending.USD += o.USDPerHour * time.Since(o.Since).Hours()
		}
	}
	return v
}

// serverLabel returns the deployment of a cell in words.
func serverLabel(c conclude.Cell) string {
	return cmp.Or(c.Text(func(s conclude.Setting) bool { return s.Server }), "server")
}

// paceOf returns how many seconds the trials without an outcome take if they take as long as
// those with one, in the mean; 0 if no trial has ended. began and seen are
// equal: such a forecast has no progress of its own.
func paceOf(run *report.Run) (left float64, began, seen time.Time) {
	done, took, pending := 0, 0.0, 0
	for _, t := range run.Trials {
		if t.Outcome == nil {
			pending++
			continue
		}
		from, ok := t.Outcome.Row[col.StartedAt].(time.Time)
		to, ok2 := t.Outcome.Row[col.FinishedAt].(time.Time)
		if ok && ok2 {
			done++
			took += to.Sub(from).Seconds()
		}
	}
	if done == 0 {
		return 0, began, seen
	}
	now := time.Now()
	return took / float64(done) * float64(pending), now, now
}
