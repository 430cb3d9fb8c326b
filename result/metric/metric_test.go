package metric

import (
	"testing"

	"sweep.dev/sweep/result"
)

// TestTable holds that each metric is a column, once, and that which way is better is what
// its unit says: a time, a price, an energy or a share of errors is to be small, a rate large.
func TestTable(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, m := range table {
		c, ok := result.Lookup(result.Columns(result.Extra{}), m.Column)
		if !ok || known[m.Column] {
			t.Errorf("%s is no column, or twice in the table", m.Column)
		}
		known[m.Column] = true
		more := map[string]bool{"tokens/s": true, "requests/s": true}[c.Unit]
		if m.Less == more {
			t.Errorf("%s is in %s, and less is better: %v", m.Column, c.Unit, m.Less)
		}
		if !m.Kept && (m.Gated || m.Floor > 0) {
			t.Errorf("%s is gated and not kept of any night", m.Column)
		}
		if (m.Title == "") != (m.Better == "") || (m.Better == "") != (m.Worse == "") {
			t.Errorf("%s has some words and lacks others: %+v", m.Column, m.Words)
		}
	}
}
