package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result/summary"
)

// fewest returns the cell of a plan that sends the fewest requests over all of its trials, of
// those that an objective is for, and how many; ok is false if all cells are ended by time, of which that is not known.
func fewest(p *plan.Plan, s plan.SLO) (cell plan.Cell, requests int, ok bool) {
	requests = math.MaxInt
	for _, c := range p.Cells() {
		if n := c.Load.Requests * p.Repeats.Most(); n > 0 && n < requests && s.For(c.LoadName()) {
			cell, requests, ok = c, n, true
		}
	}
	return cell, requests, ok
}

// requestsKey returns the key of the plan that says how many requests a cell has.
func requestsKey(c plan.Cell) string {
	if name := c.LoadName(); name != "" {
		return "loads." + name + ".requests"
	}
	return "load.requests"
}

// needs returns how many requests the percentiles of an objective need at least, and the column
// of the one that needs most; 0 if it reads none.
func needs(s plan.SLO) (requests int, column string) {
	for _, name := range s.Reads() {
		if q, ok := quantileOf(name); ok && summary.MinRequests(q) > requests {
			requests, column = summary.MinRequests(q), name
		}
	}
	return requests, column
}

// warnOfFew says which objectives over a percentile a plan has too few requests to
// decide: trials count together, and what is ended by time is not known.
func (a *app) warnOfFew(path string, p *plan.Plan) {
	for _, s := range p.SLO {
		cell, least, ok := fewest(p, s)
		if need, of := needs(s); ok && need > least {
			a.say("%s:%d:%d: warning: slo.%s cannot be decided: a cell has %s, and %s needs %d at least; write %s: %d, or more repeats [too-few-requests]",
				path, s.Line, s.Column, s.Name, humanize.Plural(least, "request"), of, need, requestsKey(cell), (need+p.Repeats.Most()-1)/p.Repeats.Most())
		}
	}
}

// warnOfLimits says which objectives no server could meet or miss: their limits are often
// meant in another unit.
func (a *app) warnOfLimits(path string, p *plan.Plan) {
	for i := range p.SLO {
		s := &p.SLO[i]
		for _, c := range s.Comparisons() {
			if why := c.Odd(p.Timeouts.Request); why != "" {
				a.say("%s:%d:%d: warning: slo.%s: %s [odd-limit]", path, s.Line, s.Column, s.Name, why)
			}
		}
	}
}

// sampleAdvice returns the number of requests that is enough for the percentiles of the plan's
// objectives, in words; "" if the plan sends that many. Above the least there is a fifth,
// or a request for each of the concurrency: those in flight at the ends do not count.
func sampleAdvice(p *plan.Plan) string {
	need, least, percentile := 0, 0, ""
	var cell plan.Cell
	for _, s := range p.SLO {
		c, fewest, ok := fewest(p, s)
		if n, column := needs(s); ok && n > need && n > fewest {
			need, least, percentile, cell = n, fewest, column, c
		}
	}
	if need == 0 {
		return ""
	}
	percentile, _, _ = strings.Cut(percentile, "_")
	at := ""
	for _, s := range cell.Settings {
		if s.Axis.Amount {
			at = " at " + s.String()
		}
	}
	enough := max((need*6+4)/5, need+cell.Load.Concurrency)
	each := (enough + p.Repeats.Most() - 1) / p.Repeats.Most()
	return fmt.Sprintf("%s needs %s, the plan sends %d%s: %s: %d", percentile, humanize.Plural(need, "request"), least, at, requestsKey(cell), (each+9)/10*10)
}

// quantileOf returns the quantile in the name of a column of a latency: 0.95 of
// p95_ttft_ms.
func quantileOf(name string) (float64, bool) {
	head, _, found := strings.Cut(name, "_")
	digits, isQuantile := strings.CutPrefix(head, "p")
	n, err := strconv.Atoi(digits)
	return float64(n) / 100, found && isQuantile && err == nil && n > 0 && n < 100
}
