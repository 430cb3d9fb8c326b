package validity

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/result/summary"
)

// A rule looks for one way in which a measurement goes wrong.
type rule func(*Evidence, bounds.Bounds) (result.Finding, bool)

// another are the causes by which another thing was measured than the plan asks for: each
// makes the whole row INVALID.
var another = []rule{
	timeScaled, engineRestarted, stackChanged, stackUnwatched, tunnelled, pdAbsent, pdPartial, serverShared, serverStopped, compiling, errorRate, warmupMissing, cacheState,
	cpuSteal, clientLost, clientsDiffer, gpuThrottled, gpuForeign, drift,
}

// observed are the causes by which the client saw late or sent late what the server did as
// it did it. Each bounds how far it moved each figure, and to which side.
var observed = []func(*Evidence) (moved, bool){lateSends, lateReads, coalesced, reopened, clockStep, clientClock, clientSkew}

// unknown are the causes by which something that a figure is made of is not known, with
// the latencies and rates that stand all the same.
var unknown = []struct {
	rule
	stand []string
}{
	{outputLength, []string{"ttft", "ttfo"}},
	{tokensContradict, []string{"ttft", "ttfo", "icl", "e2e", "requests/s"}},
}

// A Verdict is what the numbers of a trial are worth.
type Verdict struct {
	// Reasons make the row INVALID. None means VALID.
	Reasons []result.Finding
	// Remarks are of what leaves the row VALID and is worth saying: causes that made figures
	// INVALID by which nobody judges the row.
	Remarks []result.Finding
	// Figures are the columns that are INVALID; nil if none is, or the whole row.
	Figures []string
	// SLOs are the objectives, decided with what the figures may be off by.
	SLOs []result.SLOResult
	// Low and High are the figures at both ends of where the truth may lie; nil for the
	// figures themselves.
	Low, High result.Row
}

// floor is how far a time to first token or of a whole answer may be off in any case, in
// milliseconds.
const floor = 2

// Rules do not know of each other; what several causes move is added.

// Judge returns what the numbers of a measured trial are worth.
func Judge(e Evidence, b bounds.Bounds) Verdict {
	v := Verdict{Reasons: hold(&e, b, another)}
	whole := len(v.Reasons) > 0
	v.SLOs = slices.Clone(e.figures(nil).slos)
	for i := range v.SLOs { // a trial is judged by several bounds, and each decides for itself
		v.SLOs[i].Parts = slices.Clone(v.SLOs[i].Parts)
	}

	bad := map[string]float64{} // INVALID columns, with what share of what is allowed they are off by
	var blamed []result.Finding
	condemned := false
	for _, c := range unknown {
		if f, broken := c.rule(&e, b); broken {
			blamed, condemned = append(blamed, f), true
			for _, column := range columns() {
				latency, name := figureOf(column)
				if !slices.Contains(c.stand, latency) && !slices.Contains(c.stand, name) && e.Row[column] != nil {
					bad[column] = math.Inf(1)
				}
			}
		}
	}
	causes := e.causes()
	if len(causes) > 0 && b.Moved < anything {
		low, high := e.figures(shift(causes, -1)), e.figures(shift(causes, +1))
		v.Low, v.High = low.row, high.row
		off := e.beyond(low, high, b, 1)
		flipped := v.decide(low.slos, high.slos)
		for _, column := range flipped {
			off[column] = max(off[column], 1)
		}
		for column, by := range off {
			bad[column] = max(bad[column], by)
		}
		if len(off) > 0 {
			blamed = append(blamed, e.blame(causes, b, off)...)
		}
	}
	if len(blamed) == 0 {
		return v
	}
	v.Figures = slices.DeleteFunc(columns(), func(c string) bool { _, ok := bad[c]; return !ok })
	condemned = condemned || slices.ContainsFunc(v.Figures, func(c string) bool { return slices.Contains(headline, c) || reads(v.SLOs, c) })
	if words := e.usable(&v); words != "" && !whole {
		for i := range blamed {
			blamed[i].Text = words + ": " + blamed[i].Text
		}
	}
	switch {
	case whole:
		v.Figures = nil
		v.Reasons = append(v.Reasons, blamed...)
	case condemned:
		v.Reasons = blamed
	default:
		v.Remarks = blamed
	}
	return v
}

// headline are the figures of which one that is INVALID makes the row INVALID, beside those
// of the objectives.
var headline = []string{
	col.P50TTFTMs, col.P95TTFTMs, col.P50TPOTMs, col.P95TPOTMs, col.P50E2EMs, col.P95E2EMs, col.ThroughputTokS, col.RequestThroughput,
}

// columns returns the figures that have a verdict of their own, in the order of the table.
func columns() []string {
	var all []string
	for _, latency := range []string{"ttft", "ttfo", "tpot", "itl", "icl", "e2e"} {
		for _, statistic := range []string{"mean", "p50", "p90", "p95", "p99"} {
			all = append(all, col.Latency(statistic, latency))
		}
	}
	return append(all, col.ThroughputTokS, col.TotalThroughputTokS, col.RequestThroughput, col.GoodputReqS, col.GoodShare)
}

// figureOf returns the latency of a column; "" for a rate or a share.
func figureOf(column string) (latency, name string) {
	switch column {
	case col.ThroughputTokS, col.TotalThroughputTokS:
		return "", "tokens/s"
	case col.RequestThroughput, col.GoodputReqS:
		return "", "requests/s"
	case col.GoodShare:
		return "", "good share"
	}
	_, rest, _ := strings.Cut(strings.TrimSuffix(column, "_ms"), "_")
	return rest, strings.ToUpper(rest)
}

// reads reports whether an objective is about a column.
func reads(slos []result.SLOResult, column string) bool {
	for _, s := range slos {
		for _, p := range s.Parts {
			if p.Column == column || slices.ContainsFunc(p.Any, func(q result.SLOPart) bool { return q.Column == column }) {
				return true
			}
			if _, ok := p.Values[column]; ok {
				return true
			}
		}
	}
	return false
}

// A figured is a row of figures with the objectives that they come to.
type figured struct {
	row  result.Row
	slos []result.SLOResult
}

func (e *Evidence) figures(s *summary.Shift) figured {
	if e.Figures == nil {
		return figured{row: e.Row}
	}
	row, slos := e.Figures(s)
	return figured{row, slos}
}

// beyond returns the figures that may be off by more than a share of what is allowed, each
// with how many times that.
func (e *Evidence) beyond(low, high figured, b bounds.Bounds, share float64) map[string]float64 {
	off := map[string]float64{}
	for _, column := range columns() {
		value, ok := e.Row.Number(column)
		if !ok {
			continue
		}
		allowed := b.Moved * value
		if latency, _ := figureOf(column); latency == "ttft" || latency == "ttfo" || latency == "e2e" {
			allowed = max(allowed, floor)
		}
		down, up := span(value, column, low.row, high.row)
		if by := max(down, up); by > share*allowed*(1+1e-9) {
			off[column] = by / max(allowed, 1e-9)
		}
	}
	return off
}

// span returns how far the truth may be below and above a figure. The more latencies, the fewer
// good requests: which end is the greater one is the figure's own matter.
func span(value float64, column string, low, high result.Row) (down, up float64) {
	one, ok := low.Number(column)
	if !ok {
		one = value
	}
	other, ok := high.Number(column)
	if !ok {
		other = math.Inf(1)
	}
	return max(0, value-min(one, other)), max(0, max(one, other)-value)
}

// decide makes those parts of objectives undecided of which the ends say different things,
// and returns the columns of those that one end passes and the other fails.
func (v *Verdict) decide(low, high []result.SLOResult) (flipped []string) {
	for i := range v.SLOs {
		s := &v.SLOs[i]
		if i >= len(low) || i >= len(high) || len(s.Parts) != len(low[i].Parts) || len(s.Parts) != len(high[i].Parts) {
			continue
		}
		changed := false
		for k := range s.Parts {
			p := &s.Parts[k]
			one, other := low[i].Parts[k].Verdict, high[i].Parts[k].Verdict
			if partMoved(*p, low[i].Parts[k]) || partMoved(*p, high[i].Parts[k]) {
				p.Ends = []result.SLOPart{low[i].Parts[k], high[i].Parts[k]}
			}
			if one == p.Verdict && other == p.Verdict || p.Verdict == "" || p.Verdict == result.SLOUndecided {
				continue
			}
			if against(p.Verdict, one) || against(p.Verdict, other) {
				flipped = append(flipped, columnsOf(*p)...)
				continue
			}
			objective.AtEnds(p)
			changed = true
		}
		if changed {
			s.Verdict = objective.Verdict(s.Parts)
		}
	}
	return slices.DeleteFunc(flipped, func(c string) bool { return !slices.Contains(columns(), c) })
}

// alike is how far a mean may be moved and count as it was, as a share of it.
const alike = 1e-3

// partMoved reports whether a part rests on other counts or another mean than one of the same trial.
func partMoved(a, b result.SLOPart) bool {
	return a.Verdict != b.Verdict || a.N != b.N || a.Over != b.Over || math.Abs(a.Mean-b.Mean) > alike*math.Abs(a.Mean) ||
		!slices.EqualFunc(a.Any, b.Any, func(a, b result.SLOPart) bool { return !partMoved(a, b) })
}

func against(a, b string) bool {
	return a == result.SLOPass && b == result.SLOFail || a == result.SLOFail && b == result.SLOPass
}

// columnsOf returns those that a part reads.
func columnsOf(p result.SLOPart) (all []string) {
	if p.Column != "" {
		all = append(all, p.Column)
	}
	for name := range p.Values {
		all = append(all, name)
	}
	for _, q := range p.Any {
		all = append(all, columnsOf(q)...)
	}
	return all
}

// blame returns the causes by which figures are INVALID: those that take half of what is
// allowed alone, and all if none does.
func (e *Evidence) blame(causes []moved, b bounds.Bounds, off map[string]float64) []result.Finding {
	var all, alone []result.Finding
	for i, c := range causes {
		all = append(all, c.finding)
		one := causes[i : i+1]
		for column := range e.beyond(e.figures(shift(one, -1)), e.figures(shift(one, +1)), b, 0.5) {
			if _, bad := off[column]; bad {
				alone = append(alone, c.finding)
				break
			}
		}
	}
	if len(alone) > 0 {
		return alone
	}
	return all
}

func hold(e *Evidence, b bounds.Bounds, rules []rule) []result.Finding {
	var out []result.Finding
	for _, r := range rules {
		if f, broken := r(e, b); broken && !slices.Contains(e.Expected, f.Code) {
			out = append(out, f)
		}
	}
	return out
}

// said are the figures that words are about: of several that always go together one.
var said = []string{"TTFT", "TPOT", "ITL", "E2E", "tokens/s", "requests/s", "good share"}

// usable says in a user's words which figures cannot be used, by how much they may be off,
// and which can: "p95 TTFT not usable, up to 12 ms too long; TPOT and tokens/s are". It is ""
// if no figure of a row is to be had.
func (e *Evidence) usable(v *Verdict) string {
	var bad, good []string
	for _, name := range said {
		var measured, spoilt []string
		for _, column := range columns() {
			if _, of := figureOf(column); of != name || e.Row[column] == nil {
				continue
			}
			measured = append(measured, column)
			if slices.Contains(v.Figures, column) {
				spoilt = append(spoilt, column)
			}
		}
		switch {
		case len(measured) == 0:
		case len(spoilt) == 0:
			good = append(good, name)
		default:
			text := name
			if len(spoilt) < len(measured) {
				text = listed(statistics(spoilt)) + " " + name
			}
			bad = append(bad, strings.TrimSpace(text)+" not usable"+e.off(spoilt, v))
		}
	}
	switch text := strings.Join(bad, ", "); {
	case text == "" || len(good) == 0:
		return text
	case len(good) == 1:
		return text + "; " + good[0] + " is"
	default:
		return text + "; " + listed(good) + " are"
	}
}

// listed joins names: a, b and c.
func listed(names []string) string {
	if n := len(names) - 1; n > 0 {
		return strings.Join(names[:n], ", ") + " and " + names[n]
	}
	return strings.Join(names, "")
}

// statistics returns those of columns of one latency, without the mean, which goes with others.
func statistics(columns []string) (all []string) {
	for _, c := range columns {
		if statistic, _, _ := strings.Cut(c, "_"); statistic[0] == 'p' {
			all = append(all, statistic)
		}
	}
	return all
}

// off says by how much the worst of some figures of one kind may be off, to which side.
func (e *Evidence) off(columns []string, v *Verdict) string {
	if v.Low == nil {
		return ""
	}
	by, side := 0.0, ""
	rate := false
	for _, column := range columns {
		value, _ := e.Row.Number(column)
		down, up := span(value, column, v.Low, v.High)
		if latency, _ := figureOf(column); latency == "" {
			rate, down, up = true, down/value, up/value
		}
		if down > by {
			by, side = down, "long"
		}
		if up > by {
			by, side = up, "short"
		}
	}
	switch {
	case by <= 0:
		return ""
	case math.IsInf(by, 1):
		return ", by an unknown time"
	case rate:
		return fmt.Sprintf(", up to %.2g %% too %s", 100*by, map[string]string{"long": "high", "short": "low"}[side])
	case by < 100:
		return fmt.Sprintf(", up to %.2g ms too %s", by, side)
	}
	return fmt.Sprintf(", up to %.0f ms too %s", by, side)
}
