package ending

import (
	"fmt"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/draw"
)

// strips draw a large run: a line for each series, with a mark for each of its cells
// and its sweet spot.
func (e *ending) strips(d *draw.Document) {
	down, rest := e.down()
	series := e.series(down, rest)
	values := make([]string, len(down.Values))
	for i, v := range down.Values {
		values[i] = fmt.Sprint(v)
	}
	d.Parts("sweet spot: "+e.caption(), e.common())
	d.Parts("one mark for each " + down.Column + ": " + list(values))
	var names, marks, answers []string
	left, middle := 0, 0
	for _, s := range series[:min(len(series), maxSeries/e.share)] {
		n, m := rest.Text(s.Points[0].Cell), e.strip(s, down)
		names, marks, answers = append(names, n), append(marks, m), append(answers, e.inShort(s, down))
		left, middle = max(left, len([]rune(n))), max(middle, len(m))
	}
	for i, n := range names {
		line := "  " + n + strings.Repeat(" ", left-len([]rune(n))) + "  " + marks[i] + strings.Repeat(" ", middle-len(marks[i])) + "  " + answers[i]
		d.Parts(line)
	}
	if n := len(series) - maxSeries/e.share; n > 0 {
		d.Parts(fmt.Sprintf("  the other %d of %d series: %s", n, len(series), e.more))
	}
	d.Parts(e.legend(true)...)
	d.Blank()
	d.Labelled("Best", e.tally()...)
}

// list is values in words, shortened in the middle where they are many.
func list(values []string) string {
	if len(values) > 12 {
		values = append(append(values[:4:4], "..."), values[len(values)-2:]...)
	}
	return strings.Join(values, ", ")
}

// strip is a mark for each value of the axis that goes down.
func (e *ending) strip(s *compare.Series, down *compare.Axis) string {
	marks := []byte(strings.Repeat(" ", len(down.Values)))
	for _, p := range s.Points {
		if at := down.Rank(p.Cell); at >= 0 {
			marks[at] = p.Verdict.Mark()[0]
		}
	}
	return string(marks)
}

// inShort is the answer of a series in a few words.
func (e *ending) inShort(s *compare.Series, down *compare.Axis) string {
	for _, c := range e.claims(compare.AskSweetSpot) {
		switch {
		case c.About != about(s.Points[0].Cell):
		case c.Answer == compare.Decided:
			return e.brief(c.Places[0].Point, down)
		case c.Answer == compare.None:
			return "none is acceptable"
		case c.Answer == compare.Tied:
			return "not distinguishable"
		default:
			return "not decided"
		}
	}
	return ""
}

// brief is a cell of a series with its figures: "16: 1390 (214)".
func (e *ending) brief(p *compare.Point, down *compare.Axis) string {
	f := e.figure(p)
	return strings.TrimSpace(fmt.Sprint(p.Cell.Value(down.Column)) + ": " + f.Value + " " + f.Note)
}

// tally counts the answers of all series.
func (e *ending) tally() []string {
	counts := map[compare.Answer]int{}
	for _, c := range e.claims(compare.AskSweetSpot) {
		counts[c.Answer]++
	}
	var parts []string
	if n := counts[compare.Decided]; n > 0 {
		parts = append(parts, humanize.Plural(n, "sweet spot"))
	}
	if n := counts[compare.NotDecided] + counts[compare.Tied]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d not decided", n))
	}
	if n := counts[compare.None]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d series without an acceptable cell", n))
	}
	if len(parts) == 0 {
		return nil
	}
	return append([]string{strings.Join(parts, ", ")}, e.edge()...)
}
