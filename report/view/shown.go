package view

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// Shown is which figures of cells are shown: those that their trials have.
type Shown struct {
	Rate      conclude.Measure // how much a cell carries
	Latencies []string         // those whose p95 is shown: ttft and tpot of a stream, else e2e
	E2E       bool             // that of the whole answer was measured
	// Main are one or two latencies, the one that answers are given with first: that which
	// the plan's objectives are about, else a p95, and beside it the p95 of E2E, or that of
	// TTFT beside an E2E. None if none was measured.
	Main []conclude.Measure
}

// ShownOf chooses the figures of points by their valid trials, or if there is none, by
// their INVALID ones.
func ShownOf(points []*conclude.Point) Shown {
	s := Shown{Rate: conclude.RequestRate, Latencies: []string{"e2e"}}
	rows := withStatus(points, result.StatusOK)
	if len(rows) == 0 {
		rows = withStatus(points, result.StatusInvalid)
	}
	has := func(column string) bool {
		return slices.ContainsFunc(rows, func(row result.Row) bool { return row[column] != nil || row.Infinite(column) })
	}
	if has(conclude.TokenRate.Column) {
		s.Rate = conclude.TokenRate
	}
	if has(col.P95TTFTMs) || has(col.P95TPOTMs) {
		s.Latencies = []string{"ttft", "tpot"}
	}
	s.E2E = has(col.P95E2EMs)
	first := objectiveLatency(points, has)
	for _, l := range []string{"ttft", "e2e", "tpot"} {
		if name := col.Latency("p95", l); first == "" && has(name) {
			first = name
		}
	}
	if first == "" {
		return s
	}
	s.Main = []conclude.Measure{{Column: first}}
	second := col.P95E2EMs
	if strings.HasSuffix(first, "_e2e_ms") {
		second = col.P95TTFTMs
	}
	if has(second) {
		s.Main = append(s.Main, conclude.Measure{Column: second})
	}
	return s
}

func withStatus(points []*conclude.Point, status string) (rows []result.Row) {
	for _, p := range points {
		for _, t := range p.Trials {
			if t.Outcome != nil && t.Outcome.Row[col.Status] == status {
				rows = append(rows, t.Outcome.Row)
			}
		}
	}
	return rows
}

// objectiveLatency returns the column of the first latency that an objective of points is about
// and that was measured; "" for none.
func objectiveLatency(points []*conclude.Point, has func(column string) bool) string {
	for _, p := range points {
		for _, o := range p.Objectives {
			if o.Severity == conclude.SeverityWarn {
				continue
			}
			for _, name := range columnsOf(o) {
				if percentile.MatchString(name) && has(name) {
					return name
				}
			}
		}
	}
	return ""
}

// percentile matches the columns of percentiles of latencies.
var percentile = regexp.MustCompile(`^p[0-9]+_[a-z0-9]+_ms$`)

// columnsOf returns the columns that an objective reads, in its order.
func columnsOf(o result.SLOResult) []string {
	var names []string
	for _, p := range o.Parts {
		if p.Column != "" {
			names = append(names, p.Column)
		}
	}
	for _, word := range strings.FieldsFunc(o.Expr, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}) {
		if _, ok := o.Values[word]; ok {
			names = append(names, word)
		}
	}
	return names
}

// All returns the latencies of [Shown.Latencies] and that of the whole answer, if it was
// measured.
func (s Shown) All() []string {
	if s.E2E && !slices.Contains(s.Latencies, "e2e") {
		return append(slices.Clone(s.Latencies), "e2e")
	}
	return s.Latencies
}

// P95 returns the measures of some latencies' p95.
func P95(latencies []string) []conclude.Measure {
	all := make([]conclude.Measure, len(latencies))
	for i, l := range latencies {
		all[i].Column = col.Latency("p95", l)
	}
	return all
}

// LatencyName returns a latency's column in words: "p95 TTFT".
func LatencyName(m conclude.Measure) string {
	p, rest, _ := strings.Cut(strings.TrimSuffix(m.Column, "_ms"), "_")
	return p + " " + strings.ToUpper(rest)
}

// figureOf returns a figure of the trials of a point that count, for people: of a point without
// a valid trial that of the others. ok is false if none of them has it.
func figureOf(p *conclude.Point, m conclude.Measure) (text string, ok bool) {
	if p.Valid > 0 {
		text = p.Shown(m)
		return text, text != "-"
	}
	if v, ok := p.Average(m); ok {
		return humanize.Figure(v), true
	}
	return "-", false
}

// Figures returns those of a point in words: how much it carries by a measure, some of its
// latencies and the price of its tokens, as far as they are known. A figure of too few
// requests has their number behind it.
func Figures(p *conclude.Point, rate conclude.Measure, latencies []conclude.Measure) string {
	var parts []string
	if text, ok := figureOf(p, rate); ok {
		parts = append(parts, text+" "+conclude.Rates[rate.ID()])
		if p.Valid > 1 {
			parts[0] += fmt.Sprintf(" ±%.0f%% over %s", 100*p.Spread(rate), humanize.Plural(p.Valid, "trial"))
		}
	}
	for _, l := range latencies {
		if text, ok := figureOf(p, l); ok {
			parts = append(parts, LatencyName(l)+" "+text+" ms"+few(p.RestsOn(l.Column)))
		}
	}
	if usd, ok := p.Figure(conclude.TokenCost); ok {
		parts = append(parts, conclude.TokenCost.Show(usd)+" per 1M output tokens")
	}
	return strings.Join(parts, ", ")
}

// few returns how few requests a percentile rests on, in brackets; "" if they are enough.
func few(n int) string {
	if n == 0 {
		return ""
	}
	return " (" + humanize.Plural(n, "request") + ")"
}
