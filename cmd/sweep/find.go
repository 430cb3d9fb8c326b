package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/search"
)

// This file is what commands know of the searches of a plan (find).

// searchesOf are the searches over some cells of a plan, as a run directory keeps them.
func searchesOf(p *plan.Plan, cells []plan.Cell) []report.Search {
	var out []report.Search
	for _, s := range executor.Searches(p, cells) {
		one := report.Search{Settings: s.Settings, Axis: p.Matrix.Axis(p.Find.Axis).Column}
		for _, c := range s.Cells {
			one.Cells = append(one.Cells, c.ID)
		}
		one.Label = others(p, s.Cells[0])
		out = append(out, one)
	}
	return out
}

// others are the axes of a cell but for the one that is searched, in words.
func others(p *plan.Plan, c plan.Cell) string {
	var words []string
	for _, s := range c.Settings {
		if s.Axis.Name != p.Find.Axis {
			words = append(words, s.String())
		}
	}
	return strings.Join(words, " ")
}

// A forecast of a search, or of several.
type searchEstimate struct {
	probes, most int
	took, longer time.Duration
}

// looked is at how many capacities the cost of a search is looked at, evenly over its levels.
const looked = 12

// estimateSearch is what a search is expected to take, the mean over all capacities, and
// the most that it takes if each level needs all trials that it may have.
func estimateSearch(s executor.Search, scale float64) (e searchEstimate) {
	sum := 0
	n := min(looked, len(s.Levels))
	for i := range n {
		edge := (i + 1) * len(s.Levels) / n
		took := func(probes []search.Probe) (d time.Duration) {
			for _, p := range probes {
				d += trialEstimate(s.Cells[p.Level].Server, s.Load(p), scale)
			}
			return d
		}
		sure, unsure := search.Rehearse(s.Settings, edge, true), search.Rehearse(s.Settings, edge, false)
		sum += len(sure)
		e.took += took(sure)
		e.most, e.longer = max(e.most, len(unsure)), max(e.longer, took(unsure))
	}
	e.probes, e.took = (sum+n/2)/n, e.took/time.Duration(n)
	return e
}

// estimateSearches is the sum over the searches of a deployment.
func estimateSearches(p *plan.Plan, d plan.Deployment, scale float64) (e searchEstimate) {
	for _, s := range executor.Searches(p, d.Cells) {
		one := estimateSearch(s, scale)
		e.probes, e.most, e.took, e.longer = e.probes+one.probes, e.most+one.most, e.took+one.took, e.longer+one.longer
	}
	return e
}

// searching are the cells of the searches that have not ended, by their ids.
func (j *job) searching(cells []plan.Cell) map[string]bool {
	open := map[string]bool{}
	for _, s := range executor.Searches(j.plan, cells) {
		_, _, more := search.Replay(s.Settings, func(p search.Probe) (search.Outcome, bool) {
			key := s.Key(p)
			if j.pending(s.Cells[p.Level], key.Trial) {
				return search.Outcome{}, false
			}
			o, err := rundir.Outcome(j.path, j.state.Committed[key])
			if err != nil {
				return search.Outcome{}, false // the run will say it
			}
			return search.Of(o), true
		})
		for _, c := range s.Cells {
			open[c.ID] = more
		}
	}
	return open
}

// hunted are the deployments with searches that have not ended.
func (j *job) hunted() ([]plan.Deployment, error) {
	all, err := selected(j.plan, j.only)
	if err != nil {
		return nil, err
	}
	var left []plan.Deployment
	for _, d := range all {
		open := j.searching(d.Cells)
		if d.Cells = slices.DeleteFunc(slices.Clone(d.Cells), func(c plan.Cell) bool { return !open[c.ID] }); len(d.Cells) > 0 {
			left = append(left, d)
		}
	}
	return left, nil
}

// searches prints what each search is expected to take.
func (p planned) searches(page *draw.Document, servers []server) {
	if p.plan.Find == nil {
		return
	}
	rows := [][]string{{"search of " + p.plan.Find.Axis, "probes", "time", "$", "at most", "time", "$"}}
	for _, s := range servers {
		if s.skipped {
			continue
		}
		for _, one := range executor.Searches(p.plan, s.of.Cells) {
			e := estimateSearch(one, p.plugins.traits().scale)
			cost := func(d time.Duration) string {
				if !s.price.Known {
					return "-"
				}
				return humanize.Price(s.price.USDPerHour * d.Hours())
			}
			rows = append(rows, []string{
				others(p.plan, one.Cells[0]), fmt.Sprint(e.probes), roundMinutes(e.took), cost(e.took), fmt.Sprint(e.most), roundMinutes(e.longer), cost(e.longer),
			})
			if len(rows) == maxDeployments+1 {
				page.Rows(rows...)
				return
			}
		}
	}
	page.Rows(rows...)
}

// searchExit is how the searches of a run ended: the exit code.
func searchExit(run *report.Run, strict bool) int {
	code := exitOK
	worse := func(c int) {
		order := []int{exitOK, exitSLO, exitIncomplete, exitBudget}
		if slices.Index(order, c) > slices.Index(order, code) {
			code = c
		}
	}
	for _, s := range run.Searches() {
		for _, a := range s.Answers() {
			switch {
			case a.Capacity != nil:
			case a.Reason == search.BelowRange:
				worse(exitSLO)
			case a.Reason == search.Budget:
				worse(exitBudget)
			case a.Reason != search.TooNoisy || strict:
				worse(exitIncomplete)
			}
		}
	}
	return code
}

// unchosen are the trials of a run whose plan has no search, which count by themselves. A
// search repeats those that are INVALID, and a server that fails under a load is an answer.
func unchosen(run *report.Run) []*result.Outcome {
	if len(run.Resolved.Searches) > 0 {
		return nil
	}
	return run.Outcomes()
}

// A searchJSON is a search in the output of sweep plan --json.
type searchJSON struct {
	Label   string  `json:"label"`
	Probes  int     `json:"expected_probes"`
	Seconds float64 `json:"expected_seconds"`
	Most    int     `json:"most_probes"`
	Longer  float64 `json:"most_seconds"`
}
