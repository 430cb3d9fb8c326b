package executor

import (
	"context"
	"fmt"
	"slices"

	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/search/adapt"
)

// A Curve is the levels of a plan with adapt, for one combination of its other axes.
type Curve struct {
	adapt.Settings
	Metric string
	Names  []string    // of its levels, in words
	Cells  []plan.Cell // the same
}

// Curves are those over some cells of a plan; nil for a plan without adapt.
func Curves(p *plan.Plan, cells []plan.Cell) []Curve {
	var out []Curve
	for _, cells := range p.Curves(cells) {
		c := Curve{Cells: cells, Metric: p.Adapt.Metric, Settings: adapt.Settings{Within: p.Adapt.Within, Trials: p.Repeats.Most()}}
		axis := p.Matrix.Amount()
		for _, cell := range cells {
			c.Levels = append(c.Levels, cell.Level(axis.Name))
			c.Names = append(c.Names, fmt.Sprintf("%s=%v", axis.Column, cell.Setting(axis.Name)))
		}
		out = append(out, c)
	}
	return out
}

// level is that of a cell; -1 for a cell of another curve.
func (c *Curve) level(cell string) int {
	return slices.IndexFunc(c.Cells, func(one plan.Cell) bool { return one.ID == cell })
}

// A course is a curve in progress. All that it knows are the outcomes of trials, so that
// one that goes on asks for the same trials as one that was never interrupted.
type course struct {
	Curve
	ended map[rundir.Key]adapt.Outcome
}

// coursesOf are those of curves, of which nothing is known yet. By the throughput the best
// levels are told, so that it has a course of its own beside any other metric.
func coursesOf(curves []Curve) (all []*course) {
	for _, c := range curves {
		all = append(all, &course{Curve: c, ended: map[rundir.Key]adapt.Outcome{}})
		if c.Metric != col.ThroughputTokS {
			c.Metric = col.ThroughputTokS
			all = append(all, &course{Curve: c, ended: map[rundir.Key]adapt.Outcome{}})
		}
	}
	return all
}

// tell gives the curve the outcome of a trial, if it is one of its own.
func (c *course) tell(key rundir.Key, o *result.Outcome) {
	if level := c.level(key.Cell); level >= 0 {
		out := adapt.Of(o, c.Metric)
		out.Level, out.Trial = level, key.Trial
		c.ended[key] = out
	}
}

func (c *course) outcomes() []adapt.Outcome {
	list := make([]adapt.Outcome, 0, len(c.ended))
	for _, o := range c.ended {
		list = append(list, o)
	}
	return list
}

// why says from what a level that is not run is interpolated.
func (c *course) why(level int) *result.Finding {
	f := &result.Finding{Code: finding.Interpolated, Text: "not run: the levels that are measured tell its " + c.Metric}
	if p, ok := adapt.Between(c.Settings, c.outcomes(), level); ok {
		f.Text = fmt.Sprintf("not run: interpolated between %s and %s: by the levels around, %s is within %s of the line between them",
			c.Names[p.Low], c.Names[p.High], c.Metric, percent(p.Error))
		if p.Noise > 0 {
			f.Text += ", and the scatter of the trials is " + percent(p.Noise)
		}
	}
	return f
}

// percent is a share in words, no finer than a line between levels tells it.
func percent(share float64) string {
	if share < 0.001 {
		return "0.1 %"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

// most is the trial that tells most of any curve, and of equal ones that of the curve with
// the fewest outcomes; of is nil if all curves are known.
func most(courses []*course) (of *course, next adapt.Probe) {
	for _, c := range courses {
		p, more := adapt.Next(c.Settings, c.outcomes())
		if more && (of == nil || p.Error > next.Error || p.Error == next.Error && len(c.ended) < len(of.ended)) {
			of, next = c, p
		}
	}
	return of, next
}

// adapt runs the trials that the deployment's curves ask for. What is left of a curve that
// is known is not run.
func (d *deployment) adapt(ctx context.Context) error {
	if err := d.repeat(ctx); err != nil {
		return err
	}
	for !d.over(ctx) {
		for _, c := range d.courses {
			if d.settled(c) {
				if err := d.leaveOut(ctx, c); err != nil {
					return err
				}
			}
		}
		of, next := most(d.courses)
		if of == nil {
			return nil
		}
		t, err := d.at(rundir.Key{Cell: of.Cells[next.Level].ID, Trial: next.Trial})
		if err != nil {
			return err
		}
		t.why = next.Why
		if err := d.bring(ctx, t); err != nil || !t.done { // not done: the run was ended, or its server could not be
			return err
		}
	}
	return nil
}

// repeat runs what has an outcome that was asked for again, whatever the curves ask: its
// level would be left out in place of a trial that failed.
func (d *deployment) repeat(ctx context.Context) error {
	for i := range d.trials {
		t := &d.trials[i]
		if _, before := d.config.State.Committed[t.key]; !before || t.done || d.over(ctx) {
			continue
		}
		t.why = adapt.Repeat
		if err := d.bring(ctx, t); err != nil || !t.done {
			return err
		}
	}
	return nil
}

// settled says whether no curve over the cells of one asks for another trial.
func (d *deployment) settled(of *course) bool {
	return !slices.ContainsFunc(d.courses, func(c *course) bool {
		if c.Cells[0].ID != of.Cells[0].ID {
			return false
		}
		_, more := adapt.Next(c.Settings, c.outcomes())
		return more
	})
}

// leaveOut commits the trials that a curve does not ask for as skipped.
func (d *deployment) leaveOut(ctx context.Context, c *course) error {
	for i := range d.trials {
		t := &d.trials[i]
		level := c.level(t.key.Cell)
		if level < 0 || t.done || d.over(ctx) {
			continue
		}
		if t.skip == nil {
			t.skip = c.why(level)
		}
		if err := d.commitSkipped(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// at is the trial with a key.
func (d *deployment) at(key rundir.Key) (*trial, error) {
	i := slices.IndexFunc(d.trials, func(t trial) bool { return t.key == key })
	if i < 0 {
		return nil, fmt.Errorf("%s is to run trial %d of cell %s, which is not there", d.label, key.Trial, key.Cell)
	}
	return &d.trials[i], nil
}
