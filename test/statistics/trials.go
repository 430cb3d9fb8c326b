package statistics

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/groups"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/test/statistics/models"
	"sweep.dev/sweep/test/statistics/tables"
)

// A cell is repeated trials of one cell of a plan, each as its row.
type cell struct {
	engine string
	slots  float64
	rows   []result.Row
}

// batches are into how many a trial is cut, and wide is the 97.5 % quantile of Student's t
// of so many less one.
const (
	batches = 10
	wide    = 2.262157
)

// scattered returns n trials whose throughput scatters normally about a truth by cv, all of it
// within the trials: each is the mean of independent batches and has their interval.
func scattered(seed uint64, n int, truth, cv float64) []result.Row {
	rows := make([]result.Row, n)
	parts := models.Normal(seed, n*batches)
	for i := range rows {
		mean, squares := 0.0, 0.0
		for _, z := range parts[i*batches:][:batches] {
			mean += z / batches
			squares += z * z
		}
		// The batches scatter by more than their mean.
		half := wide * math.Sqrt((squares-batches*mean*mean)/(batches-1))
		v := 1 + cv*math.Sqrt(batches)*mean
		rows[i] = result.Row{
			col.ThroughputTokS: truth * v, col.ThroughputTokSLow: truth * (v - cv*half), col.ThroughputTokSHigh: truth * (v + cv*half),
		}
	}
	return rows
}

// conclusions returns what a summary says of cells that differ in engine and concurrency.
func conclusions(cells []cell) *conclude.Set {
	var in conclude.Input
	in.Columns = result.Columns(result.Extra{})
	for i, c := range cells {
		of := conclude.Cell{ID: fmt.Sprint(i), Label: fmt.Sprint(c.engine, " ", c.slots), Settings: []conclude.Setting{
			{Column: col.Engine, Server: true, Text: c.engine, Value: c.engine},
			{Column: col.Concurrency, Amount: true, Text: fmt.Sprint("concurrency ", c.slots), Value: c.slots},
		}}
		for trial, row := range c.rows {
			row[col.CellID], row[col.Trial] = of.ID, int64(trial)
			row[col.Status], row[col.Valid] = result.StatusOK, true
			row[col.Engine], row[col.Concurrency] = c.engine, c.slots
			in.Trials = append(in.Trials, conclude.Trial{
				Key: rundir.Key{Cell: of.ID, Trial: trial}, Cell: of, Outcome: &result.Outcome{Row: row},
			})
		}
	}
	return conclude.Conclude(in)
}

// outliers asks how often a trial of equal ones is called unlike the others, and
// how often one that is.
func outliers(l *Lab) tables.Table {
	t := tables.Table{
		What:    "Six cells of one deployment, of n equal trials each, whose throughput, p95 TTFT and p50 TPOT scatter normally and independently: the share of the cells in which groups.outlier_trials names one, and the share of the runs in which it names the trial of the first cell that is 30 % slower, also if that cell is alone. Unlike: the share of first cells with one named, if that scatters by 12 % and the five others by 3 %. Before: each cell by itself.",
		Columns: []string{"cv 3 %", "cv 5 %", "cv 10 %", "30 %, cv 3 %", "alone", "unlike"},
		Drawn:   1,
	}
	const cells = 6
	even := func(n int, cv float64) []float64 { return slices.Repeat([]float64{cv}, n) }
	for _, n := range []int{3, 4, 5, 6, 8, 10} {
		if l.enough(&t) {
			break
		}
		c := tables.Case{Name: fmt.Sprintf("n = %d", n), Runs: l.runs(1000)}
		for _, cv := range []float64{0.03, 0.05, 0.10} {
			var all []bool
			for _, names := range each(c.Runs, func(seed uint64) []string { return unlike(seed, n, even(cells, cv), 0) }) {
				for _, name := range names {
					all = append(all, name != "")
				}
			}
			c.Figures = append(c.Figures, share(all).Keep(atMost(0.02)))
		}
		for _, k := range []int{cells, 1} {
			found := share(each(c.Runs, func(seed uint64) bool {
				return slices.Contains(strings.Split(unlike(seed, n, even(k, 0.03), 0.30)[0], ","), "0:"+col.ThroughputTokS)
			}))
			if k > 1 && n >= 5 {
				found = found.Keep(atLeast(0.80))
			}
			c.Figures = append(c.Figures, found)
		}
		cvs := append([]float64{0.12}, even(cells-1, 0.03)...)
		c.Figures = append(c.Figures, share(each(c.Runs, func(seed uint64) bool { return unlike(seed, n, cvs, 0)[0] != "" })))
		t.Cases = append(t.Cases, c)
	}
	return t
}

// unlike returns the outliers of cells of n trials that scatter by cvs, if a trial of the
// first is slower by a share.
func unlike(seed uint64, n int, cvs []float64, slow float64) []string {
	var rows []result.Row
	for cell, cv := range cvs {
		for i := range n {
			rows = append(rows, result.Row{col.CellID: fmt.Sprint(cell), col.Trial: int64(i), col.Valid: true})
		}
		for k, column := range []string{col.ThroughputTokS, col.P95TTFTMs, col.P50TPOTMs} {
			for i, z := range models.Normal(seed+uint64(k+8*cell)<<32, n) {
				v := 100 * (1 + cv*z)
				if i+k+cell == 0 {
					v *= 1 - slow
				}
				rows[cell*n+i][column] = v
			}
		}
	}
	_, table := groups.Each(result.Columns(result.Extra{}), slices.Values(rows), nil)
	names := make([]string, 0, len(cvs))
	for row := range table {
		name, _ := row[groups.OutlierTrials].(string)
		names = append(names, name)
	}
	return names
}

// mostPowerful is how often the most powerful scale-invariant test at a level of 5 %
// for a cv of 10 %, that of sd / mean, finds a cv of 30 % in five normal values.
const mostPowerful = 0.893

// unstable asks which cells are called unstable.
func unstable(l *Lab) tables.Table {
	t := tables.Table{
		What:    "How often a summary calls a cell unstable. Trials: n of them whose throughput scatters normally by a cv. Open loops: H100, Poisson, LN 0.5, 60 s at a share of what 128 slots get, in which nothing is unstable.",
		Columns: []string{"unstable"},
	}
	judged := func(rows []result.Row) bool {
		return conclusions([]cell{{"a", 1, rows}}).Points[0].Verdict == conclude.Unstable
	}
	for _, cv := range []float64{0.03, 0.05, 0.15, 0.30} {
		for _, n := range []int{2, 3, 5} {
			runs := l.runs(2000)
			f := share(each(runs, func(seed uint64) bool { return judged(scattered(seed, n, 1000, cv)) }))
			switch {
			case cv <= 0.05:
				f = f.Keep(atMost(0.01))
			case cv >= 0.30 && n >= 5:
				f = f.Keep(atLeast(mostPowerful))
			}
			t.Add(fmt.Sprintf("%d trials, cv %.0f %%", n, 100*cv), runs, f)
		}
	}
	if l.Reduced {
		return t
	}
	b := batching{"H100", 128, usual(0.5)}
	capacity := l.truth(b).throughput / float64(b.lengths.Output)
	for _, rho := range []float64{0.4, 0.7} {
		runs := l.runs(200)
		t.Add(fmt.Sprintf("open loop at %.0f %%", 100*rho), runs,
			share(each(runs, func(seed uint64) bool {
				return judged([]result.Row{openRow(b.server(), b.lengths, seed, rho*capacity, time.Minute)})
			})).Keep(atMost(0.01)),
		)
	}
	return t
}

// common asks what a comparison of two servers gains by giving both the same
// requests.
func common(l *Lab) tables.Table {
	t := tables.Table{
		What:    "Two servers, of which one is truly 5 % slower in every step, each with one open loop of 60 s (H100, Poisson, LN 0.5) at a share of what 128 slots get: how often the ratio of their mean TTFT has the wrong sign, and the width of the middle 90 % of the ratios. Common: as two cells of a plan with one seed have them. Own: each with a seed of its own, as cells were before commit cd490b7.",
		Columns: []string{"wrong sign", "90 % width"},
	}
	b := batching{"H100", 128, usual(0.5)}
	capacity := l.truth(b).throughput / float64(b.lengths.Output)
	shares, length := []float64{0.4, 0.7, 0.9}, time.Minute
	if l.Reduced {
		shares = shares[:1]
	}
	if l.Quick {
		length = 5 * time.Second
	}
	for _, rho := range shares {
		for _, own := range []bool{true, false} {
			runs := l.runs(100)
			all := each(runs, func(seed uint64) float64 {
				slow, other := b.server(), seed
				slow.Slower, slow.Chance = 1.05, 1
				if own {
					other += 1 << 32
				}
				fast := openRow(b.server(), b.lengths, seed, rho*capacity, length)
				return openRow(slow, b.lengths, other, rho*capacity, length).Float(col.MeanTTFTMs) / fast.Float(col.MeanTTFTMs)
			})
			name := fmt.Sprintf("at %.0f %%, ", 100*rho)
			wrong := share(which(all, func(r float64) bool { return r < 1 }))
			if own {
				name += "own"
			} else {
				name, wrong = name+"common", wrong.Keep(atMost(0.01))
			}
			slices.Sort(all)
			width := result.Quantile(all, 0.95) - result.Quantile(all, 0.05)
			t.Add(name, runs,
				wrong,
				// The error of a width is about that of two quantiles.
				tables.Figure{Value: width, Error: width / math.Sqrt(float64(runs)), Unit: tables.Ratio, N: runs},
			)
		}
	}
	return t
}
