package view

import (
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// maxDigest is how much of an image's digest a line shows: sha256: and 12 digits.
const maxDigest = 19

// drifted names the software that is not the same in all the trials that count of
// one engine and model, as far as the run recorded it: a figure of one of them then
// says nothing of the other.
func drifted(points []*conclude.Point) []string {
	var order []string
	values := map[string][]string{}
	for _, p := range points {
		for _, t := range p.Counting() {
			row := t.Outcome.Row
			for _, r := range result.Recorded {
				text, ok := row[r.Column].(string)
				if !ok {
					continue
				}
				if len(text) > maxDigest && strings.HasPrefix(text, "sha256:") {
					text = text[:maxDigest]
				}
				what := fmt.Sprintf("%v with %v has more than one %s", row[col.Engine], row[col.Model], r.Name)
				if values[what] == nil {
					order = append(order, what)
				}
				if !slices.Contains(values[what], text) {
					values[what] = append(values[what], text)
				}
			}
		}
	}
	var lines []string
	for _, what := range order {
		if v := values[what]; len(v) > 1 {
			lines = append(lines, fmt.Sprintf("%s (%s): a difference between these figures may be that of the software.", what, strings.Join(v, ", ")))
		}
	}
	return lines
}

// reused says how many trials another run has measured; "" for none.
func (v *View) reused() string {
	n := 0
	for _, row := range v.Rows() {
		if row[col.ReusedFrom] != nil {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %s were measured by an earlier run, and taken over from %s.", n, humanize.Plural(len(v.Rows()), "trial"), strings.Join(v.texts(col.ReusedFrom), ", "))
}
