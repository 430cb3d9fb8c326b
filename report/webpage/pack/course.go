package pack

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/store"
	"sweep.dev/sweep/result/timeline"
	"sweep.dev/sweep/rundir"
)

// The bounds of timelines: of one series, and of all of a run together.
const (
	maxSteps  = 150
	maxPoints = 1_000_000
	minSteps  = 4
)

// courses are the series of a trial that are drawn, in their order. Those of several
// replicas or GPUs are added up, or averaged if they are shares.
var courses = []struct {
	source result.Source
	name   string
	title  string
	unit   string
	mean   bool // over replicas and GPUs
}{
	{result.FromClient, timeline.InFlight, "in flight", "requests", false},
	{result.FromServer, "requests_running", "running", "requests", false},
	{result.FromServer, "requests_waiting", "queue", "requests", false},
	{result.FromServer, "kv_cache_usage", "KV cache in use", "ratio", true},
	{result.FromClient, timeline.OutputRate, "output", "tokens/s", false},
	{result.FromClient, timeline.TTFT50, "TTFT p50", "ms", true},
	{result.FromClient, timeline.TPOT, "TPOT", "ms", true},
	{result.FromGPU, "power", "GPU power", "W", false},
	{result.FromGPU, "utilization", "GPU utilisation", "percent", true},
}

// A trialSeries has the series of one trial on one clock. Their values stand in a block of all
// courses, those of a series together.
type trialSeries struct {
	Start float64 `json:"start"` // of the first step, in seconds from the trial's anchor
	Step  float64 `json:"step"`
	Steps int     `json:"n"`
	Lines []int   `json:"lines"` // places in courses

	values []float64 // of each line in turn; NaN if there is none
}

// A trialKey names a trial in the samples table.
type trialKey struct {
	cell  string
	trial int
}

// samplesOf calls do for each sample of the committed trials of a run: those of the run's
// table if it has one, else those that stand beside each result.
func samplesOf(run *report.Run, do func(store.Sample)) error {
	read := func(path string) error {
		for s, err := range store.SamplesOf(path) {
			if err != nil {
				return err
			}
			do(s)
		}
		return nil
	}
	err := read(filepath.Join(run.Dir, layout.Samples))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, t := range run.Trials {
		if t.Outcome == nil {
			continue
		}
		if err := read(filepath.Join(rundir.AttemptDir(run.Dir, t.Commit), layout.Samples)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// A gauge is one value of one series.
type gauge struct {
	t, v float64
	from part
}

// A part is which replica or GPU a value is of.
type part struct {
	role    string
	replica int
	labels  string
}

// coursesOf returns the timelines of the trials of a run. Each series is brought to equal
// steps of one clock, and has fewer of them if the run has many trials.
func coursesOf(run *report.Run) (map[trialKey]*trialSeries, error) {
	attempts := map[trialKey]int{}
	for _, t := range run.Trials {
		if t.Outcome != nil {
			attempts[trialKey{t.Key.Cell, t.Trial}] = t.Commit.Attempt
		}
	}
	steps := max(minSteps, min(maxSteps, maxPoints/max(1, len(attempts)*len(courses))))
	place := map[result.Source]map[string]int{}
	for i, c := range courses {
		if place[c.source] == nil {
			place[c.source] = map[string]int{}
		}
		place[c.source][c.name] = i
	}
	all := map[trialKey]*trialSeries{}
	raw := make([][]gauge, len(courses))
	var at trialKey
	finish := func() {
		if c := drawn(raw, steps); c != nil {
			all[at] = c
		}
		for i := range raw {
			raw[i] = raw[i][:0]
		}
	}
	err := samplesOf(run, func(s store.Sample) {
		key := trialKey{s.Cell, s.Trial}
		if key != at {
			finish()
			at = key
		}
		i, ok := place[s.Source][s.Name]
		if n := len(raw[max(0, i)]); !ok || attempts[key] != s.Attempt || n >= 1<<20 {
			return
		}
		raw[i] = append(raw[i], gauge{s.T.Seconds(), s.Value, part{s.Role, s.Replica, s.Labels}})
	})
	finish()
	return all, err
}

// drawn brings series to equal steps between the first and the last look of the client;
// nil if there is nothing to draw.
func drawn(raw [][]gauge, steps int) *trialSeries {
	first, last := math.Inf(1), math.Inf(-1)
	for _, g := range raw[0] {
		first, last = min(first, g.t), max(last, g.t)
	}
	if len(raw[0]) < 3 || last <= first {
		return nil
	}
	n := min(steps, len(raw[0]))
	c := &trialSeries{Start: shown(first), Step: shown((last - first) / float64(n)), Steps: n}
	for i, gauges := range raw {
		if len(gauges) == 0 {
			continue
		}
		values := stepped(gauges, first, last, n, courses[i].mean)
		if slices.ContainsFunc(values, func(v float64) bool { return !math.IsNaN(v) }) {
			c.Lines, c.values = append(c.Lines, i), append(c.values, values...)
		}
	}
	return c
}

// stepped returns the mean of a series in each step, of each replica or GPU for itself, and
// over them its sum or its mean.
func stepped(gauges []gauge, first, last float64, n int, mean bool) []float64 {
	type cell struct {
		sum float64
		n   int
	}
	by := map[part][]cell{}
	for _, g := range gauges {
		if g.t < first || g.t > last || math.IsNaN(g.v) || math.IsInf(g.v, 0) {
			continue
		}
		cells := by[g.from]
		if cells == nil {
			cells = make([]cell, n)
			by[g.from] = cells
		}
		i := min(n-1, int(float64(n)*(g.t-first)/(last-first)))
		cells[i].sum += g.v
		cells[i].n++
	}
	values := make([]float64, n)
	for i := range values {
		sum, parts := 0.0, 0
		for _, cells := range by {
			if cells[i].n > 0 {
				sum += cells[i].sum / float64(cells[i].n)
				parts++
			}
		}
		if parts == 0 || !mean && parts < len(by) { // a sum lacks a part
			values[i] = math.NaN()
			continue
		}
		if mean {
			sum /= float64(parts)
		}
		values[i] = shown(sum)
	}
	return values
}
