package nightly

import (
	"fmt"
	"io"
	"math"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/nightly/gate"
)

// sparkWidth is how many nights a line shows, in columns.
const sparkWidth = 76

// WriteTrend prints each series with its nights as a line of bars, the steps in it, and
// what of the software changed with each.
func (b *Board) WriteTrend(w io.Writer) error {
	var out strings.Builder
	for i, s := range b.Series {
		if i > 0 {
			out.WriteByte('\n')
		}
		v := s.Last()
		fmt.Fprintf(&out, "%s, %s\n  %s\n", plaintext.Line(s.Label), s.Metric.Column, spark(s.Values))
		fmt.Fprintf(&out, "  %s to %s: last %s%s", b.Nights[max(0, len(b.Nights)-sparkWidth)], b.Nights[len(b.Nights)-1], value(v.Value), unit(s))
		if !math.IsNaN(v.Low) {
			fmt.Fprintf(&out, ", band %s to %s", humanize.Figure(v.Low), humanize.Figure(v.High))
		}
		fmt.Fprintf(&out, ", %s\n", words(v.State))
		for _, step := range gate.Steps(s.Values) {
			change := s.stepText(step.Night)
			fmt.Fprintf(&out, "  %s  %s: %s\n", b.Nights[step.Night], stepped(step), plaintext.Line(change))
		}
	}
	if len(b.Series) == 0 {
		out.WriteString("no night has a valid figure of these metrics\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// words returns a state for people.
func words(s gate.State) string { return strings.ReplaceAll(string(s), "_", " ") }

// value returns a figure for people.
func value(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case math.IsInf(v, 0):
		return "infinite"
	}
	return humanize.Figure(v)
}

// spark returns the last nights as bars between the least and the largest of them; "!" is
// infinite, and a night that was not measured is a space.
func spark(values []float64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	values = values[max(0, len(values)-sparkWidth):]
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			low, high = min(low, v), max(high, v)
		}
	}
	var line []rune
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			line = append(line, ' ')
		case math.IsInf(v, 0):
			line = append(line, '!')
		case high == low:
			line = append(line, bars[len(bars)/2])
		default:
			line = append(line, bars[min(len(bars)-1, int(float64(len(bars))*(v-low)/(high-low)))])
		}
	}
	return string(line)
}
