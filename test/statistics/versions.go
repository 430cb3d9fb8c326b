package statistics

import (
	"fmt"
	"math"

	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/noise"
	of "sweep.dev/sweep/result/ratio"
	"sweep.dev/sweep/test/statistics/models"
	"sweep.dev/sweep/test/statistics/tables"
)

// A version is what a new version of a server truly does to cells, and how far its runs
// scatter.
type version struct {
	name    string
	cells   int
	slower  int     // so many of them are
	by      float64 // share of the tokens a second that they lose
	between float64 // sd between runs
	known   int     // runs from which the noise is known; 0 if it is not
	trust   bool    // the interval knows all of the scatter
	uneven  bool    // cells scatter by a third of inRunSD to three times of it
}

// sd returns how far the trials of a cell scatter.
func (v version) sd(cell int) float64 {
	if !v.uneven {
		return inRunSD
	}
	return inRunSD / 3 * math.Pow(9, float64(cell)/float64(v.cells-1))
}

// inRun are the trials of a cell and how far they scatter in a run.
const inRunTrials, inRunSD = 5, 0.01

// versions asks how often sweep compare finds a slower version, and one that is none.
func versions(l *Lab) tables.Table {
	t := tables.Table{
		What:    "Two runs of one plan, 5 trials of each cell that scatter by 1 % within a run (uneven: by a third of 1 % to 3 %), held against each other with --max-regression 3%. A/A: nothing has changed. Between: runs scatter by 1 % too, which nobody knows without the noise of 10 runs (sweep compare noise). Slower: the share of the truly equal cells, or if there are none of the others, that are called slower. Regression: the same of those called worse by more than 3 %. Wrong: of the cells of a comparison that are called slower or faster, the mean share of those that are not.",
		Columns: []string{"slower", "regression", "wrong"},
	}
	for _, v := range []version{
		{name: "A/A", cells: 1, trust: true},
		{name: "5 % slower", cells: 1, slower: 1, by: 0.05, trust: true},
		{name: "10 % slower", cells: 1, slower: 1, by: 0.10, trust: true},
		{name: "A/A, between, not known", cells: 1, between: 0.01},
		{name: "A/A, between, known", cells: 1, between: 0.01, known: 10, trust: true},
		{name: "5 %, between, known", cells: 1, slower: 1, by: 0.05, between: 0.01, known: 10, trust: true},
		{name: "10 %, between, known", cells: 1, slower: 1, by: 0.10, between: 0.01, known: 10, trust: true},
		{name: "A/A, 24 cells", cells: 24, trust: true},
		{name: "A/A, 24 uneven cells", cells: 24, trust: true, uneven: true},
		{name: "24 cells, 6 5 % slower", cells: 24, slower: 6, by: 0.05, trust: true},
		{name: "24 cells, 12 5 % slower", cells: 24, slower: 12, by: 0.05, trust: true},
		{name: "24 uneven cells, 6 5 % slower", cells: 24, slower: 6, by: 0.05, trust: true, uneven: true},
	} {
		if l.enough(&t) {
			break
		}
		c := tables.Case{Name: v.name, Runs: l.runs(1000)}
		if v.cells > 1 {
			c.Runs = l.runs(200)
		}
		counts := each(c.Runs, v.compare)
		var slower, regression, wrong []bool
		for _, n := range counts {
			slower, regression = append(slower, n.slower...), append(regression, n.regression...)
			wrong = append(wrong, n.wrong)
		}
		rate, worse, mistaken := share(slower), share(regression), share(wrong)
		if v.trust {
			switch {
			case v.slower == 0 && v.cells == 1:
				rate, worse = rate.Keep(atMost(0.025)), worse.Keep(atMost(0.025))
			case v.slower == 0:
				rate, worse = rate.Keep(atMost(0.025)), worse.Keep(atMost(0.025))
			case v.by >= 0.10:
				rate, worse = rate.Keep(atLeast(0.9)), worse.Keep(atLeast(0.9))
			}
		}
		if v.cells > 1 {
			total := 0.0
			for _, n := range counts {
				total += n.share
			}
			mistaken.Value = total / float64(len(counts))
			mistaken = mistaken.Keep(atMost(0.05))
		}
		c.Figures = []tables.Figure{rate, worse, mistaken}
		t.Cases = append(t.Cases, c)
	}
	return t
}

// A found is what a comparison says of its cells.
type found struct {
	slower, regression []bool  // of the cells that are asked for
	wrong              bool    // an equal cell is called slower or faster
	share              float64 // of those that are called so, equal ones
}

// run returns one run of the cells, with the scatter of a seed.
func (v version) run(seed uint64, slower int) []cell {
	shift := models.Normal(seed, v.cells)
	cells := make([]cell, v.cells)
	for i := range cells {
		truth := 1000 * (1 + v.between*shift[i])
		if i < slower {
			truth *= 1 - v.by
		}
		cells[i] = cell{"a", float64(i + 1), scattered(seed<<8+uint64(i)+1<<40, inRunTrials, truth, v.sd(i))}
	}
	return cells
}

// compare returns what is said of one pair of runs.
func (v version) compare(seed uint64) found {
	runs := uint64(v.known + 2)
	o := compare.Options{MaxRegression: 0.03}
	if v.known > 0 {
		o.Noise = v.noise(runs * seed)
	}
	side := func(seed uint64, slower int) compare.Side {
		return compare.Side{Points: conclusions(v.run(seed, slower)).Points}
	}
	c := compare.Compare(side(runs*seed, 0), side(runs*seed+1, v.slower), o)
	var out found
	calls, wrong := 0, 0
	for i, cell := range c.Cells {
		changed := i < v.slower
		for _, f := range cell.Figures {
			if f.Metric != col.ThroughputTokS {
				continue
			}
			if changed == (v.slower > 0) {
				out.slower, out.regression = append(out.slower, f.Verdict == compare.Slower), append(out.regression, f.Regression)
			}
			if f.Verdict == compare.Slower || f.Verdict == compare.Faster {
				calls++
				if !changed {
					wrong++
				}
			}
		}
	}
	out.wrong = wrong > 0
	out.share = float64(wrong) / float64(max(1, calls))
	return out
}

// noise returns that of runs of the same cells before.
func (v version) noise(seed uint64) *noise.File {
	f := &noise.File{}
	trials := make([][][]of.Trial, v.cells)
	for n := range v.known {
		for i, c := range v.run(seed+2+uint64(n), 0) {
			trials[i] = append(trials[i], estimates(c.rows))
		}
	}
	for i := range trials {
		s, _ := noise.Of(trials[i])
		f.Cells = append(f.Cells, noise.Cell{ID: fmt.Sprint(i), Spreads: map[string]noise.Spread{col.ThroughputTokS: s}})
	}
	return f
}

func estimates(rows []result.Row) []of.Trial {
	out := make([]of.Trial, len(rows))
	for i, r := range rows {
		out[i] = of.Trial{Number: i, Value: r.Float(col.ThroughputTokS)}
	}
	return out
}
