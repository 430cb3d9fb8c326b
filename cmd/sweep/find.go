package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// This file is what commands know of the searches of a plan (find).

// searchesOf returns the searches over some cells of a plan, as a run directory keeps them.
func searchesOf(p *plan.Plan, cells []plan.Cell) []report.Search {
	var out []report.Search
	for _, s := range executor.Searches(p, cells) {
		one := report.Search{Settings: s.Settings, Axis: p.Matrix.Axis(p.Find.Axis).Column}
		for _, c := range s.Cells {
			one.Cells = append(one.Cells, c.ID)
		}
		one.Label = others(p, s.Cells[0])
		if profile, ok := p.Profile(s.Cells[0].Server.Profile); ok {
			one.Servers = s.Cells[0].Server.Copies(profile)
		}
		out = append(out, one)
	}
	return out
}

// others returns the axes of a cell but for the one that is searched, in words.
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

// costPoints is the number of capacities, evenly over its levels, of which the cost of a search
// is computed.
const costPoints = 12

// An endedTrials is what of a search has ended.
type endedTrials struct {
	outcomes []search.Outcome // in their order, up to the first that is left
	// hasOutcome reports whether a trial behind these has an outcome too: those behind a
	// trial that is run again have one. nil: none has.
	hasOutcome func(search.Probe) bool
}

// An endedOf returns what of each search has ended; nil is nothing of any.
type endedOf func(executor.Search) endedTrials

func (d endedOf) of(s executor.Search) endedTrials {
	if d == nil {
		return endedTrials{}
	}
	return d(s)
}

// estimateSearch returns what is left of a search after what is done: the mean over all
// capacities that this leaves open, and the most that it takes if each level needs all trials
// that it may have, of the least, the middle and the greatest capacity.
func estimateSearch(s executor.Search, done endedTrials, scale float64) (e searchEstimate) {
	e = expectedSearch(s, done, scale)
	low, high := search.Edges(s.Settings, done.outcomes)
	for _, edge := range slices.Compact([]int{low + 1, (low + high + 1) / 2, high}) {
		most, longer := done.left(s, edge, true, scale)
		e.most, e.longer = max(e.most, most), max(e.longer, longer)
	}
	return e
}

// expectedSearch returns the mean of it over the capacities alone, with the greatest of them as the most.
func expectedSearch(s executor.Search, done endedTrials, scale float64) (e searchEstimate) {
	sum := 0
	low, high := search.Edges(s.Settings, done.outcomes)
	n := min(costPoints, high-low)
	for i := range n {
		probes, took := done.left(s, low+(i+1)*(high-low)/n, false, scale)
		sum, e.took = sum+probes, e.took+took
		e.most, e.longer = max(e.most, probes), max(e.longer, took)
	}
	e.probes, e.took = (sum+n/2)/n, e.took/time.Duration(n)
	return e
}

// A searching is how far the searches of a deployment are, as its live view follows them.
type searching struct {
	all      []executor.Search
	outcomes []map[rundir.Key]search.Outcome // of each
	scale    float64
}

// searchingFor returns that of a deployment as the journal has it.
func (j *job) searchingFor(d plan.Deployment) *searching {
	s := &searching{all: executor.Searches(j.plan, d.Cells), scale: j.plugins.traits().scale}
	for _, one := range s.all {
		done, _ := j.replay(one)
		ended := map[rundir.Key]search.Outcome{}
		for _, o := range done {
			ended[one.Key(o.Probe)] = o
		}
		s.outcomes = append(s.outcomes, ended)
	}
	return s
}

// replay returns what of a search has ended, and its next trial; ok is false if there is none.
func (s *searching) replay(i int) (done []search.Outcome, next search.Probe, ok bool) {
	return search.Replay(s.all[i].Settings, func(p search.Probe) (search.Outcome, bool) {
		o, ended := s.outcomes[i][s.all[i].Key(p)]
		return o, ended
	})
}

// ended takes the outcome of a trial in.
func (s *searching) ended(key rundir.Key, o *result.Outcome) {
	for i := range s.all {
		if o != nil && slices.ContainsFunc(s.all[i].Cells, func(c plan.Cell) bool { return c.ID == key.Cell }) {
			s.outcomes[i][key] = search.Of(o)
		}
	}
}

// longer returns a trial as long as its search asks for it; a deployment without one has none that is
// longer.
func (s *searching) longer(key rundir.Key, e *expected) *expected {
	if s == nil {
		return e
	}
	for i := range s.all {
		if _, next, ok := s.replay(i); ok && s.all[i].Key(next) == key {
			return &expected{e.seconds * float64(next.Times), e.requests * next.Times, e.duration * time.Duration(next.Times)}
		}
	}
	return e
}

// left returns how many trials there are in all after some that are done, and how many seconds what is
// left of them takes: that of the middle capacity of those that are still possible.
func (s *searching) left(done int) (total int, seconds float64) {
	total = done
	for i := range s.all {
		outcomes, _, more := s.replay(i)
		if !more {
			continue
		}
		low, high := search.Edges(s.all[i].Settings, outcomes)
		n, took := endedTrials{outcomes: outcomes}.left(s.all[i], (low+high+1)/2, false, s.scale)
		total, seconds = total+n, seconds+took.Seconds()
	}
	return max(1, total), seconds
}

// left returns how many trials of a search are left, and how long they take, if its server keeps every
// objective below an edge.
func (d endedTrials) left(s executor.Search, edge int, hard bool, scale float64) (n int, took time.Duration) {
	for _, p := range search.RehearseFrom(s.Settings, d.outcomes, s.Server(edge, hard)) {
		if d.hasOutcome == nil || !d.hasOutcome(p) {
			n, took = n+1, took+trialEstimate(s.Cells[p.Level].Server, s.Load(p), scale)
		}
	}
	return n, took
}

// estimateSearches returns the sum over the searches of a deployment.
func estimateSearches(p *plan.Plan, d plan.Deployment, done endedOf, scale float64) (e searchEstimate) {
	for _, s := range executor.Searches(p, d.Cells) {
		one := estimateSearch(s, done.of(s), scale)
		e.probes, e.most, e.took, e.longer = e.probes+one.probes, e.most+one.most, e.took+one.took, e.longer+one.longer
	}
	return e
}

// searching returns the cells of the searches that have not ended, by their ids.
func (j *job) searching(cells []plan.Cell) map[string]bool {
	open := map[string]bool{}
	for _, s := range executor.Searches(j.plan, cells) {
		_, more := j.replay(s)
		for _, c := range s.Cells {
			open[c.ID] = more
		}
	}
	return open
}

// replay returns what of a search has ended, and whether more of it is left.
func (j *job) replay(s executor.Search) (done []search.Outcome, more bool) {
	done, _, more = search.Replay(s.Settings, func(p search.Probe) (search.Outcome, bool) {
		key := s.Key(p)
		if !executor.Done(j.plan, j.state, j.retry, s.Cells[p.Level], key.Trial) {
			return search.Outcome{}, false
		}
		o, err := rundir.Outcome(j.path, j.state.Committed[key])
		if err != nil {
			return search.Outcome{}, false // the run will say it
		}
		return search.Of(o), true
	})
	return done, more
}

// done returns what of a search has ended.
func (j *job) done(s executor.Search) endedTrials {
	done, _ := j.replay(s)
	return endedTrials{done, func(p search.Probe) bool {
		return executor.Done(j.plan, j.state, j.retry, s.Cells[p.Level], s.Key(p).Trial)
	}}
}

// quoteSearches prints on stderr what is left of the searches of a run that goes on.
func (a *app) quoteSearches(ctx context.Context, j job) error {
	if j.plan.Find == nil {
		return nil
	}
	left, err := j.hunted()
	if err != nil || len(left) == 0 {
		return err
	}
	p := planned{path: j.path, plan: j.plan, plugins: j.plugins, deployments: left, done: j.done}
	servers, err := a.serversOf(ctx, p)
	if err != nil {
		return err
	}
	page, _ := a.notes()
	p.searches(page, servers)
	return nil
}

// hunted returns the deployments with searches that have not ended.
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

// searches prints what each search is expected to take, and the launches that those of a
// deployment share.
func (p planned) searches(page *draw.Document, servers []server) {
	if p.plan.Find == nil {
		return
	}
	title := "search of " + p.plan.Find.Axis
	if p.done != nil {
		title = "left of each search"
	}
	rows := [][]string{{title, "probes", "time", "$", "at most", "time", "$"}}
	launches := "launches"
	if of := p.plugins.traits(); p.plan.Fingerprints(of.given, of.rents) {
		launches += " with fingerprints"
	}
	for _, s := range servers {
		if s.skipped {
			continue
		}
		if len(rows) > maxDeployments {
			break
		}
		row := func(label string, n int, took time.Duration, most int, longer time.Duration) {
			cost := func(d time.Duration) string {
				if !s.price.Known {
					return "-"
				}
				return humanize.Price(s.price.USDPerHour * d.Hours())
			}
			if len(rows) <= maxDeployments {
				rows = append(rows, []string{label, fmt.Sprint(n), humanize.Duration(took), cost(took), fmt.Sprint(most), humanize.Duration(longer), cost(longer)})
			}
		}
		for _, one := range executor.Searches(p.plan, s.of.Cells) {
			e := estimateSearch(one, p.done.of(one), p.plugins.traits().scale)
			row(others(p.plan, one.Cells[0]), e.probes, e.took, e.most, e.longer)
		}
		row(launches, s.about.launches, s.about.starts, s.about.mostLaunches, s.about.mostStarts)
	}
	page.Rows(rows...)
}

// confidences returns what all searches take by the confidence that they end with; "" without any.
func (p planned) confidences(servers []server) string {
	if p.plan.Find == nil {
		return ""
	}
	var parts []string
	for _, confidence := range []float64{0.9, 0.95, 0.99} {
		took, cost, known := time.Duration(0), 0.0, true
		for _, s := range servers {
			if s.skipped {
				continue
			}
			for _, one := range executor.Searches(p.plan, s.of.Cells) {
				one.Confidence = confidence
				each := expectedSearch(one, endedTrials{}, p.plugins.traits().scale).took
				took, cost, known = took+each, cost+s.price.USDPerHour*each.Hours(), known && s.price.Known
			}
		}
		text := fmt.Sprintf("%.0f %% %s", 100*confidence, humanize.Duration(took))
		if known {
			text += " and $" + humanize.Price(cost)
		}
		parts = append(parts, text)
	}
	return "by find.confidence: " + strings.Join(parts, ", ")
}

// searchExit returns how the searches of a run ended: the exit code.
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

// unchosen returns the trials of a run whose plan has no search, which count by themselves. A
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
