package conclude

import (
	"cmp"
	"fmt"
	"slices"

	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/metric"
)

// Measures are the lines of a comparison. Client and server stand side by side
// with their means: an engine's histogram has no exact percentile. Engines are
// not ranked by how long a trial took, which its plan or an early end decides,
// nor by what each counts in its own way.
var Measures = []Measure{
	{Name: "start-up, s", Column: col.StartUpS, Lasting: true},
	{Name: "duration, s", Column: col.DurationS},
	TokenRate,
	{Name: "engine's count, tok/s", Column: col.ServerThroughputTokS},
	{Name: "engine's report, tok/s", Column: Reported},
	{Name: "TTFT, ms", Column: col.MeanTTFTMs, Said: true},
	{Name: "TTFT p95, ms", Column: col.P95TTFTMs},
	{Name: "TTFT by engine, ms", Column: col.MeanServerTTFTMs},
	{Name: "TPOT, ms", Column: col.MeanTPOTMs, Said: true},
	{Name: "TPOT p95, ms", Column: col.P95TPOTMs},
	{Name: "TPOT by engine, ms", Column: col.MeanServerTPOTMs},
	{Name: "ITL by engine, ms", Column: col.MeanServerITLMs},
	{Name: "E2E, ms", Column: col.MeanE2EMs, Said: true},
	{Name: "E2E by engine, ms", Column: col.MeanServerE2EMs},
	{Name: "queue, ms", Column: col.MeanServerQueueMs},
	{Name: "prefill, ms", Column: col.MeanServerPrefillMs},
	{Name: "decode, ms", Column: col.MeanServerDecodeMs},
	{Name: "KV cache, blocks", Column: col.KVCacheBlocks, Lasting: true},
	{Name: "KV cache, tokens", Column: col.KVCacheTokens, Lasting: true},
	{Name: "request bytes", Column: col.ServerRequestBytes},
	{Name: "response bytes", Column: col.ServerResponseBytes},
	{Name: "uptime, s", Column: col.EngineUptimeS, Lasting: true},
	{Name: "metric lines", Column: col.MetricLines, Lasting: true},
	{Name: "unique metrics", Column: col.MetricNames, Lasting: true},
}

// Reported is the throughput that an engine reports of itself, which is compared
// with the delivered one.
const Reported = col.ServerReportedThroughputTokS

// A Comparison is the points of several engines at one load: they differ in the
// engine alone, and in the settings that are tied to it.
type Comparison struct {
	*Series
	Claims []Claim
}

// compareEngines compares engines at each load at which several have numbers. The
// first comparison, which a table shows, has most valid engines, and of those that
// do, most tokens/s.
func (s *Set) compareEngines() []*Comparison {
	tied := s.Tied()
	var all []*Comparison
	for _, l := range Group(s.Points, func(p *Point) string {
		return p.Cell.Text(func(set Setting) bool { return set.Column != col.Engine && !slices.Contains(tied, set.Column) })
	}) {
		if c := (&Comparison{Series: l}); len(c.Measured()) > 1 {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b *Comparison) int {
		return cmp.Or(cmp.Compare(b.Valid(), a.Valid()), cmp.Compare(b.most(), a.most()))
	})
	for i, c := range all {
		s.claim(c, i == 0)
	}
	return all
}

// claim makes the claims of a comparison, by each measure that has a best: by
// those that are said, or for the comparison that is shown, by all of its table.
// The last claim, without a measure, has the engines that are in none of them.
func (s *Set) claim(c *Comparison, shown bool) {
	in := Claim{Question: AskEngine, About: c.Name, Loads: []float64{Load(c.Points[0].Cell)}}
	for _, p := range c.Points {
		name := fmt.Sprint(s.Value(p, col.Engine))
		if p.Valid > 0 {
			in.Places = append(in.Places, p.place(name, Measure{}))
			continue
		}
		in.Left = append(in.Left, Left{Side: name, Why: p.why(), Hole: p.open.kind != "", Points: []*Point{p}})
	}
	in.drop(finding.ContentUnrepresentative.String(), (*Point).unrepresentative)
	in.unmix()
	in.answer()
	for _, m := range Measures {
		if _, ranked := metric.Of(m.Column); !ranked || !shown && !m.Said {
			continue
		}
		claim := Claim{Question: AskEngine, About: c.Name, Loads: in.Loads, Measure: m}
		for _, side := range in.Places {
			if _, ok := side.Point.Figure(m); ok {
				claim.Places = append(claim.Places, side.Point.place(side.Side, m))
			}
		}
		if claim.answer(); claim.Answer == Decided || claim.Answer == Tied {
			c.Claims = append(c.Claims, claim)
		}
	}
	c.Claims = append(c.Claims, in)
}

// Tied returns the server axes that belong to the engine: each engine has one value
// of them, and not all the same (a model that only one of them can read).
func (s *Set) Tied() []string {
	return slices.DeleteFunc(s.Servers().Columns(), func(column string) bool {
		all, byEngine := map[any]bool{}, map[string]any{}
		for _, p := range s.Points {
			engine, v := fmt.Sprint(s.Value(p, col.Engine)), p.Cell.Value(column)
			if own, ok := byEngine[engine]; ok && own != v {
				return true
			}
			all[v], byEngine[engine] = true, v
		}
		return column == col.Engine || len(all) < 2
	})
}

// Valid returns how many of its points have valid trials.
func (c *Comparison) Valid() (n int) {
	for _, p := range c.Points {
		if p.Valid > 0 {
			n++
		}
	}
	return n
}

func (c *Comparison) most() (most float64) {
	for _, p := range c.Points {
		v, _ := p.Figure(TokenRate)
		most = max(most, v)
	}
	return most
}

// Measured returns the points that have numbers, also such as must not be used.
func (c *Comparison) Measured() []*Point {
	return slices.DeleteFunc(slices.Clone(c.Points), func(p *Point) bool { return p.Valid == 0 && p.Verdict != Invalid })
}

// Outcome returns how a point ended, in a word or two.
func (p *Point) Outcome() string {
	switch p.Verdict {
	case Invalid:
		return string(Invalid)
	case NoStart, FailedRun:
		return p.Reason()
	}
	return string(p.Verdict)
}

// why returns the reason that a point has no place in a comparison.
func (p *Point) why() string {
	switch {
	case p.open.kind != "":
		return p.open.String()
	case p.passes():
		return "not measured"
	}
	return p.Outcome()
}

// Ranks returns the places of the points in the ranking by a measure; it has none for points that
// are not ranked.
func (c *Comparison) Ranks(m Measure) map[*Point]Place {
	ranks := map[*Point]Place{}
	for _, claim := range c.Claims {
		if claim.Measure == m {
			for _, p := range claim.Places {
				ranks[p.Point] = p
			}
		}
	}
	return ranks
}
