package report

import (
	"fmt"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// modern converts the plan parts of an earlier version's run: the columns, and
// what its settings did not say then.
func (r *Resolved) modern(method int) {
	r.Columns = result.Modern(r.Columns, method)
	for _, cells := range [][]Cell{r.Cells, r.Skipped} {
		for _, c := range cells {
			for i := range c.Settings {
				if c.Settings[i].Text == "" {
					complete(&c.Settings[i])
				}
			}
		}
	}
}

// complete fills in the text of a setting and whether it is an amount of load.
func complete(s *Setting) {
	switch s.Column {
	case col.Engine, col.GPU, col.Model:
		s.Text = fmt.Sprint(s.Value)
	default:
		s.Text = fmt.Sprintf("%s=%v", s.Column, s.Value)
	}
	s.Amount = s.Column == col.Concurrency || s.Column == col.RequestRate
}
