// Package bench reports a run of one server at several loads: a table with a row for
// each load, and the sweet spot.
package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/view"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// width is how long a line may be: a row's remark that would pass it has a line of its
// own.
const width = 80

// Write writes the table of a run whose cells differ in their load alone, and the
// sentences below it. think is the time that a person takes from an answer to the next
// message, for the number of people at each load; 0 is not asked.
func Write(w io.Writer, r *report.Run, style draw.Style, think time.Duration) error {
	v := view.Of(r)
	lines := []row{header(v.Set.Points)}
	for _, p := range v.Set.Points {
		lines = append(lines, rowOf(p))
	}
	t := table{w: w, style: style}
	t.rows(lines)
	for _, text := range sentences(v, lines[1:]) {
		t.line(text)
	}
	if text := people(v.Set.Points, think); text != "" {
		t.line(text)
	}
	return t.err
}

// A row is one line of the table.
type row struct {
	texts   []string
	remark  string
	verdict conclude.Verdict
	open    bool // the p95 of TTFT has no interval
}

// The columns between the load and the requests.
var measures = []struct {
	name    string
	measure conclude.Measure
}{
	{"tok/s", conclude.TokenRate},
	{"/user", conclude.Measure{Column: col.P50UserTokS}},
	{"TTFT p50", conclude.Measure{Column: col.Latency("p50", "ttft")}},
	{"p95", conclude.FirstToken},
	{"TPOT p50", conclude.Measure{Column: col.Latency("p50", "tpot")}},
	{"p95", conclude.Measure{Column: col.Latency("p95", "tpot")}},
}

// header names the columns. The first is that of the load.
func header(points []*conclude.Point) row {
	load := "conc"
	if len(points) > 0 && points[0].Cell.Value(col.RequestRate) != nil {
		load = "req/s"
	}
	h := row{texts: []string{load}}
	for _, m := range measures {
		h.texts = append(h.texts, m.name)
	}
	h.texts = append(h.texts, "reqs")
	return h
}

func rowOf(p *conclude.Point) row {
	line := row{texts: []string{humanize.Figure(conclude.Load(p.Cell))}, remark: remark(p), verdict: p.Verdict}
	for _, m := range measures {
		text := "-"
		if v, ok := p.Average(m.measure); ok {
			text = humanize.Figure(v)
		} else if p.Valid > 0 {
			text = p.Shown(m.measure)
		}
		if m.measure.Column == col.P95TTFTMs {
			more := margin(p)
			line.open = more == unknown
			text += more
		}
		line.texts = append(line.texts, text)
	}
	requests := 0
	for _, t := range p.Counting() {
		requests += int(t.Outcome.Row.Float(col.PlateauRequests))
	}
	line.texts = append(line.texts, fmt.Sprint(requests))
	return line
}

// unknown stands for the margin of a percentile that too few requests bound.
const unknown = " ±?"

// margin returns how far the p95 of TTFT may be from its figure: the farther end of its
// interval within the trial. A cell of several trials has none.
func margin(p *conclude.Point) string {
	counting := p.Counting()
	figure, ok := p.Average(conclude.FirstToken)
	if !ok || len(counting) != 1 {
		return ""
	}
	row := counting[0].Outcome.Row
	low, below := row.Number(col.P95TTFTMs + col.LowSuffix)
	high, above := row.Number(col.P95TTFTMs + col.HighSuffix)
	if !below || !above {
		return unknown
	}
	return " ±" + digits(max(figure-low, high-figure))
}

// digits returns a margin, with two digits at most.
func digits(v float64) string {
	switch {
	case v >= 9.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 0.095:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// remark returns what stands behind a row.
func remark(p *conclude.Point) string {
	switch p.Verdict {
	case conclude.SweetSpot:
		return "<- sweet spot"
	case conclude.Missed:
		return "misses " + strings.Join(expressions(p, result.SLOFail), ", ")
	case conclude.Undecided:
		return "undecided: " + strings.Join(expressions(p, result.SLOUndecided, ""), ", ")
	case conclude.Invalid:
		return "INVALID: " + strings.ReplaceAll(p.Reason(), ",", ", ")
	case conclude.FailedRun, conclude.NoStart:
		return "failed: " + p.Reason()
	case conclude.Skipped, conclude.Pending:
		return "not measured"
	case conclude.Unstable:
		return "unstable: " + p.Why
	}
	return ""
}

// expressions returns the parts of the point's objectives that have one of some verdicts.
func expressions(p *conclude.Point, verdicts ...string) (list []string) {
	for _, o := range p.Objectives {
		if o.Severity == conclude.SeverityWarn {
			continue
		}
		parts := o.Parts
		if len(parts) == 0 { // of before
			parts = []result.SLOPart{{Expr: o.Expr, Verdict: o.Verdict}}
		}
		for _, part := range parts {
			if !slices.Contains(verdicts, part.Verdict) {
				continue
			}
			text := part.Expr
			if part.MoreRequests > 0 {
				text += fmt.Sprintf(" (about %s more)", humanize.Plural(part.MoreRequests, "request"))
			}
			list = append(list, text)
		}
	}
	return list
}

// sentences returns what the table comes to.
func sentences(v *view.View, lines []row) (list []string) {
	if slices.ContainsFunc(lines, func(l row) bool { return l.open }) {
		list = append(list, "±?: too few requests to bound the p95 at a confidence of 95 %")
	}
	for _, r := range v.Reasons(conclude.Invalid) {
		if r.OfAll {
			list = append(list, r.Code+": "+r.Text)
		}
	}
	if text := v.Simulated(); text != "" {
		list = append(list, text)
	}
	if text := costs(v.Set.Points); text != "" {
		list = append(list, text)
	}
	if len(v.Set.Points) < 2 {
		return list
	}
	for _, c := range v.Set.Answers(conclude.AskSweetSpot, conclude.AskBest) {
		switch c.Answer {
		case conclude.Decided:
			list = append(list, string(c.Question)+": "+describe(v.Set, c.Places[0].Point))
		case conclude.None:
			list = append(list, "sweet spot: "+view.Open(c)+under(v.Set))
		default:
			list = append(list, "sweet spot: "+view.Open(c))
		}
	}
	return list
}

// costs returns what a million output tokens costs at each load; "" without a price.
func costs(points []*conclude.Point) string {
	var each []string
	for _, p := range points {
		if v, ok := p.Figure(conclude.TokenCost); ok {
			each = append(each, conclude.TokenCost.Show(v)+" at "+humanize.Figure(conclude.Load(p.Cell)))
		}
	}
	if len(each) == 0 {
		return ""
	}
	return "a million output tokens costs " + strings.Join(each, ", ")
}

// people returns how many people each load is that misses no objective: requests/s times the
// time from one message of a person to the next, which is an answer and a thought (the response
// time law of interactive systems: Denning and Buzen, Computing Surveys 10, 1978). "" without a
// time to think.
func people(points []*conclude.Point, think time.Duration) string {
	var each []string
	for _, p := range points {
		rate, _ := p.Figure(conclude.RequestRate)
		answer, known := p.Figure(conclude.Measure{Column: col.Latency("mean", "e2e")})
		if n := humanize.Floor(rate * (answer/1000 + think.Seconds())); n > 0 && known && think > 0 && p.Verdict != conclude.Missed {
			each = append(each, fmt.Sprintf("%d at %s", n, humanize.Figure(conclude.Load(p.Cell))))
		}
	}
	if len(each) == 0 {
		return ""
	}
	return "people who think " + humanize.Duration(think) + " after each answer: about " + strings.Join(each, ", ")
}

// describe returns the load that was found, and the next one that was not tried.
func describe(set *conclude.Set, p *conclude.Point) string {
	load, open := conclude.Load(p.Cell), p.Cell.Value(col.RequestRate) != nil
	text := humanize.Figure(load) + " at once"
	if open {
		text = humanize.Figure(load) + " requests/s"
	}
	if figures := view.Figures(p, conclude.TokenRate, []conclude.Measure{conclude.FirstToken}); figures != "" {
		text += ", " + figures
	}
	next := math.Inf(1) // the next load that was tried
	for _, other := range set.Points {
		if l := conclude.Load(other.Cell); l > load {
			next = min(next, l)
		}
	}
	switch {
	case math.IsInf(next, 1):
		text += "; more was not tried"
	case 2*load < next:
		text += "; " + humanize.Figure(2*load) + " was not tried"
	}
	return text
}

// under says of loads that all miss their objectives that less was not tried.
func under(set *conclude.Set) string {
	least := math.Inf(1)
	for _, p := range set.Points {
		least = min(least, conclude.Load(p.Cell))
	}
	if open := set.Points[0].Cell.Value(col.RequestRate) != nil; !open && least <= 1 {
		return ""
	}
	return "; less than " + humanize.Figure(least) + " was not tried"
}

// A table writes lines, and keeps the first error.
type table struct {
	w     io.Writer
	style draw.Style
	err   error
}

func (t *table) line(text string) {
	if t.err == nil {
		_, t.err = fmt.Fprintln(t.w, plaintext.Line(text))
	}
}

// rows writes lines with their texts under each other, to the right. What follows ±
// stands to its left, so that the figures before it are in line.
func (t *table) rows(lines []row) {
	heads, tails := widths(lines)
	for _, l := range lines {
		var b strings.Builder
		for i, text := range l.texts {
			head, tail := split(text)
			fmt.Fprintf(&b, "  %s%s%s", strings.Repeat(" ", heads[i]-utf8.RuneCountInString(head)), head, tail)
			if i < len(l.texts)-1 || l.remark != "" {
				b.WriteString(strings.Repeat(" ", tails[i]-utf8.RuneCountInString(tail)))
			}
		}
		text, below := b.String(), ""
		if l.remark != "" {
			if utf8.RuneCountInString(text)+2+utf8.RuneCountInString(l.remark) <= width {
				text += "  " + l.remark
			} else {
				text, below = strings.TrimRight(text, " "), strings.Repeat(" ", 2+heads[0]+2)+l.remark
			}
		}
		t.painted(text, l.verdict)
		if below != "" {
			t.painted(below, l.verdict)
		}
	}
}

func (t *table) painted(text string, v conclude.Verdict) {
	text = plaintext.Line(text)
	if t.style.Paint != nil && v != "" {
		text = t.style.Paint(v, text)
	}
	if t.err == nil {
		_, t.err = fmt.Fprintln(t.w, text)
	}
}

// split cuts a text before its margin.
func split(text string) (head, tail string) {
	if i := strings.Index(text, " ±"); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

func widths(lines []row) (heads, tails []int) {
	heads, tails = make([]int, len(lines[0].texts)), make([]int, len(lines[0].texts))
	for _, l := range lines {
		for i, text := range l.texts {
			head, tail := split(text)
			heads[i] = max(heads[i], utf8.RuneCountInString(head))
			tails[i] = max(tails[i], utf8.RuneCountInString(tail))
		}
	}
	return heads, tails
}
