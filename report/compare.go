package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// measures are the lines of a comparison. Client and server stand side by side
// with their means: an engine's histogram has no exact percentile. Engines are
// not ranked by how long a trial took, which its plan or an early end decides,
// nor by what each counts in its own way.
var measures = []measure{
	{name: "start-up, s", column: col.StartUpS, best: lessIsBest, lasting: true},
	{name: "duration, s", column: col.DurationS},
	tokenRate,
	{name: "engine's count, tok/s", column: col.ServerThroughputTokS},
	{name: "engine's report, tok/s", column: reported},
	{name: "TTFT, ms", column: col.MeanTTFTMs, best: lessIsBest, said: true},
	{name: "TTFT p95, ms", column: col.P95TTFTMs, best: lessIsBest},
	{name: "TTFT by engine, ms", column: col.MeanServerTTFTMs},
	{name: "TPOT, ms", column: col.MeanTPOTMs, best: lessIsBest, said: true},
	{name: "TPOT p95, ms", column: col.P95TPOTMs, best: lessIsBest},
	{name: "TPOT by engine, ms", column: col.MeanServerTPOTMs},
	{name: "ITL by engine, ms", column: col.MeanServerITLMs},
	{name: "E2E, ms", column: col.MeanE2EMs, best: lessIsBest, said: true},
	{name: "E2E by engine, ms", column: col.MeanServerE2EMs},
	{name: "queue, ms", column: col.MeanServerQueueMs},
	{name: "prefill, ms", column: col.MeanServerPrefillMs},
	{name: "decode, ms", column: col.MeanServerDecodeMs},
	{name: "KV cache, blocks", column: col.KVCacheBlocks, lasting: true},
	{name: "KV cache, tokens", column: col.KVCacheTokens, lasting: true},
	{name: "request bytes", column: col.ServerRequestBytes},
	{name: "response bytes", column: col.ServerResponseBytes},
	{name: "uptime, s", column: col.EngineUptimeS, lasting: true},
	{name: "metric lines", column: col.MetricLines, lasting: true},
	{name: "unique metrics", column: col.MetricNames, lasting: true},
}

// reported is the throughput that an engine reports of itself, which is compared
// with the delivered one.
const reported = col.ServerReportedThroughputTokS

// maxRanked is how many shared loads are ranked one by one.
const maxRanked = 12

// A comparison is the points of several engines at one load: they differ in the
// engine alone, and in the settings that are tied to it.
type comparison struct {
	*series
	claims []Claim
}

// compareEngines compares engines at each load at which several have numbers. The
// first comparison, which a table shows, has most valid engines, and of those that
// do, most tokens/s.
func (s *summary) compareEngines() []*comparison {
	tied := s.tied()
	var all []*comparison
	for _, l := range group(s.points, func(p *Point) string {
		return label(p.Cell, func(set Setting) bool { return set.Column != col.Engine && !slices.Contains(tied, set.Column) })
	}) {
		if c := (&comparison{series: l}); len(c.measured()) > 1 {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b *comparison) int {
		return cmp.Or(cmp.Compare(b.valid(), a.valid()), cmp.Compare(b.most(), a.most()))
	})
	for i, c := range all {
		s.claim(c, i == 0)
	}
	return all
}

// claim makes the claims of a comparison, by each measure that has a best: by
// those that are said, or for the comparison that is shown, by all of its table.
// The last claim, without a measure, has the engines that are in none of them.
func (s *summary) claim(c *comparison, shown bool) {
	in := Claim{Question: AskEngine, About: c.name, Loads: []float64{load(c.points[0].Cell)}}
	for _, p := range c.points {
		name := fmt.Sprint(s.value(p, col.Engine))
		if p.Valid > 0 {
			in.Places = append(in.Places, p.place(name, measure{}))
			continue
		}
		in.Left = append(in.Left, Left{Side: name, Why: p.why(), Hole: p.open.kind != "", points: []*Point{p}})
	}
	in.drop(finding.ContentUnrepresentative.String(), (*Point).unrepresentative)
	in.unmix()
	in.answer()
	for _, m := range measures {
		if m.best == plainFact || !shown && !m.said {
			continue
		}
		claim := Claim{Question: AskEngine, About: c.name, Loads: in.Loads, measure: m}
		for _, side := range in.Places {
			if _, ok := side.point.figure(m); ok {
				claim.Places = append(claim.Places, side.point.place(side.Side, m))
			}
		}
		if claim.answer(); claim.Answer == Decided {
			c.claims = append(c.claims, claim)
		}
	}
	c.claims = append(c.claims, in)
}

// tied are the server axes that belong to the engine: each engine has one value
// of them, and not all the same (a model that only one of them can read).
func (s *summary) tied() []string {
	columns, _ := s.varied()
	return slices.DeleteFunc(columns, func(column string) bool {
		all, byEngine := map[any]bool{}, map[any]any{}
		for _, p := range s.points {
			engine, v := s.value(p, col.Engine), p.Cell.value(column)
			if own, ok := byEngine[engine]; ok && own != v {
				return true
			}
			all[v], byEngine[engine] = true, v
		}
		return column == col.Engine || len(all) < 2
	})
}

func (c *comparison) valid() (n int) {
	for _, p := range c.points {
		if p.Valid > 0 {
			n++
		}
	}
	return n
}

func (c *comparison) most() (most float64) {
	for _, p := range c.points {
		v, _ := p.figure(tokenRate)
		most = max(most, v)
	}
	return most
}

// measured are the points that have numbers, also such as must not be used.
func (c *comparison) measured() []*Point {
	return slices.DeleteFunc(slices.Clone(c.points), func(p *Point) bool { return p.Valid == 0 && p.Verdict != Invalid })
}

// table is a comparison with a measure on each line and an engine in each column.
func (s *summary) table(c *comparison) grid {
	g := grid{name: "Engines side by side", down: col.Engine}
	if c.name != "" {
		g.name += ": " + c.name
	}
	shown := c.measured()
	for _, p := range shown {
		g.values = append(g.values, fmt.Sprint(s.value(p, col.Engine)))
	}
	line := func(name string, text func(*Point) string) {
		row := []field{{text: name}}
		for _, p := range shown {
			row = append(row, field{text: text(p)})
		}
		g.rows = append(g.rows, row)
	}
	outcome := []field{{text: "outcome"}}
	for _, p := range shown {
		outcome = append(outcome, field{text: p.Verdict.Mark() + " " + p.outcome(), verdict: p.Verdict})
	}
	g.rows = append(g.rows, outcome)
	line("version", func(p *Point) string { return cmp.Or(p.words(col.EngineVersion), "-") })
	line("requests completed", s.completed)
	for _, m := range measures {
		ranked := c.ranks(m)
		line(m.name, func(p *Point) string { return p.measured(m, ranked[p]) })
		if m.column == reported {
			line("reported / actual", (*Point).overReported)
		}
	}
	return g
}

// outcome is how a point ended, in a word or two.
func (p *Point) outcome() string {
	switch p.Verdict {
	case Invalid:
		return string(Invalid)
	case NoStart, FailedRun:
		return p.reason()
	}
	return string(p.Verdict)
}

// why is the reason that a point has no place in a comparison.
func (p *Point) why() string {
	switch {
	case p.open.kind != "":
		return p.open.String()
	case p.passes():
		return "not measured"
	}
	return p.outcome()
}

// ranks are how much worse each point is than the best of a measure; it has none
// for points that are not ranked.
func (c *comparison) ranks(m measure) map[*Point]float64 {
	ranks := map[*Point]float64{}
	for _, claim := range c.claims {
		if claim.measure == m {
			for _, p := range claim.Places {
				ranks[p.point] = p.Ratio
			}
		}
	}
	return ranks
}

// measured is a line's field: the value, and how much worse it is than the
// best. What an INVALID trial measured has a mark and no rank.
func (p *Point) measured(m measure, ratio float64) string {
	v, ok := p.average(m)
	switch {
	case !ok:
		return "-"
	case p.Valid == 0 && !m.lasting:
		return Invalid.Mark() + " " + Figure(v) + p.mark(m.column)
	}
	text := Figure(v) + p.mark(m.column)
	if ratio > 0 {
		text += "  " + times(ratio)
	}
	return text
}

// overReported is the throughput that the engine reports over the delivered one.
func (p *Point) overReported() string {
	claimed, told := p.average(measure{column: reported})
	actual, measured := p.average(tokenRate)
	if !told || !measured || actual <= 0 {
		return "-"
	}
	text := fmt.Sprintf("%.2f", claimed/actual)
	if p.Valid == 0 {
		text = Invalid.Mark() + " " + text
	}
	return text
}

// words are the different texts of a column over the trials that count.
func (p *Point) words(column string) string {
	var all []string
	for _, t := range p.counting() {
		if text, ok := t.Outcome.Row[column].(string); ok && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

// scraped are the replicas of roles whose metrics were read, by the files that
// keep what they exposed.
func (p *Point) scraped() []string {
	var roles []string
	for _, t := range p.Trials {
		if t.Outcome == nil {
			continue
		}
		for _, f := range t.Outcome.Files {
			if role, ok := layout.Scraped(f.Name); ok && !slices.Contains(roles, role) {
				roles = append(roles, role)
			}
		}
	}
	return roles
}

// counts say which values of an axis ran on how many GPUs, if those differ and
// the plan does not vary them: then deployments are compared.
func (s *summary) counts(axis string, points []*Point) []string {
	var order []string
	by := map[string][]string{}
	all := map[string]bool{}
	for _, p := range points {
		if p.Cell.value(col.GPUCount) != nil {
			return nil // every sentence names it
		}
		name := fmt.Sprint(s.value(p, axis))
		if by[name] == nil {
			order = append(order, name)
		}
		for _, t := range p.counting() {
			if n, ok := t.Outcome.Row[col.GPUCount].(int64); ok && !slices.Contains(by[name], fmt.Sprint(n)) {
				by[name] = append(by[name], fmt.Sprint(n))
				all[fmt.Sprint(n)] = true
			}
		}
	}
	if len(all) < 2 {
		return nil
	}
	var each []string
	for _, name := range order {
		if len(by[name]) > 0 {
			each = append(each, name+" "+strings.Join(by[name], ", "))
		}
	}
	return []string{fmt.Sprintf("The servers have different numbers of GPUs (%s): this compares deployments.", strings.Join(each, "; "))}
}

// caveats are the limits of a comparison: what else differs, what is simulated and
// what has no numbers.
func (s *summary) caveats(c *comparison) []string {
	var lines []string
	for _, column := range s.tied() {
		var each []string
		for _, p := range c.points {
			each = append(each, fmt.Sprintf("%v %v", s.value(p, col.Engine), s.value(p, column)))
		}
		lines = append(lines, fmt.Sprintf("The engines differ in %s too (%s): this compares deployments, not engines alone.", column, strings.Join(each, ", ")))
	}
	lines = append(lines, s.counts(col.Engine, c.points)...)
	lines = append(lines, drifted(c.points)...)
	var simulated []string
	for _, p := range c.points {
		if p.simulated() {
			simulated = append(simulated, fmt.Sprint(s.value(p, col.Engine)))
		}
	}
	if len(simulated) > 0 {
		lines = append(lines, "Simulated: "+strings.Join(simulated, ", ")+". They share one arithmetic of a GPU, and differ in what they say and in how they divide its memory.")
	}
	var read []string
	for _, p := range c.points {
		if roles := p.scraped(); len(roles) > 0 {
			read = append(read, fmt.Sprintf("%v %s", s.value(p, col.Engine), strings.Join(roles, ", ")))
		}
	}
	if len(read) > 0 {
		lines = append(lines, "Metrics were read from: "+strings.Join(read, "; ")+".")
	}
	var without []string
	for _, p := range c.points {
		if p.Valid == 0 && p.Verdict != Invalid {
			without = append(without, fmt.Sprintf("%v (%s)", s.value(p, col.Engine), p.outcome()))
		}
	}
	if len(without) > 0 {
		lines = append(lines, "Without numbers: "+strings.Join(without, ", ")+".")
	}
	var notes []string
	if c.valid() > 1 {
		notes = append(notes, "Nx: N times slower than the best of the line.")
	}
	if slices.ContainsFunc(c.points, func(p *Point) bool { return p.Verdict == Invalid }) {
		notes = append(notes, "!: of an INVALID trial, and not ranked.")
	}
	if slices.ContainsFunc(c.points, func(p *Point) bool { return p.Valid > 1 }) {
		notes = append(notes, "Means over the valid trials.")
	}
	return append(lines, strings.Join(append(notes, "-: not measured."), " "))
}
