package statistics

import (
	"testing"

	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/test/statistics/tables"
)

// TestRules makes the reduced tables, or without the tag slow the first cases of each: no
// figure is far beyond its bound.
func TestRules(t *testing.T) {
	t.Parallel()
	l := NewLab(true)
	l.Quick = !slow.Tests
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			table := rule.Run(l)
			t.Log("\n" + table.Text(tables.Record{}))
			if len(table.Cases) == 0 {
				t.Error("no case")
			}
			for _, c := range table.Cases {
				if len(c.Figures) != len(table.Columns) {
					t.Errorf("%s: %d figures in %d columns", c.Name, len(c.Figures), len(table.Columns))
				}
				for i, f := range c.Figures {
					if f.Broken(4) {
						t.Errorf("%s: %s is %s, want %s", c.Name, table.Columns[i], f, f.Bound.Text(f.Unit))
					}
				}
			}
		})
	}
}

// TestLimits: of the limits that the table's servers have, the counters that tell lead to
// the right name, and the others to none that is wrong. Without the tag slow it has every
// fourth server.
func TestLimits(t *testing.T) {
	t.Parallel()
	const runs = 4
	for i, s := range scarceServers() {
		if !slow.Tests && i%4 > 0 {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			var counts [len(views)][wrongly + 1]int
			missed := 0
			for seed := range uint64(runs) {
				all := s.named(seed + 1)
				if all == nil {
					continue
				}
				missed++
				for i, n := range all {
					counts[i][n]++
				}
			}
			if missed < runs/2 {
				t.Errorf("the objective is missed in %d of %d runs", missed, runs)
			}
			for i, v := range views {
				if right, wrong := counts[i][rightly], counts[i][wrongly]; s.told[i] && right < missed-1 || wrong > 0 {
					t.Errorf("%s: %d of %d right, %d wrong", v.name, right, missed, wrong)
				}
			}
		})
	}
}

func TestFigure(t *testing.T) {
	t.Parallel()
	hits := make([]bool, 100)
	for i := range 20 {
		hits[i] = true
	}
	if f := share(hits); f.String() != "20 ± 4 %" || f.Keep(atMost(0.1)).String() != "20 ± 4 % !" || f.Keep(atMost(0.15)).Broken(2) {
		t.Errorf("%s", f)
	}
	values := make([]float64, 101)
	for i := range values {
		values[i] = float64(100 - i)
	}
	if f := median(values, tables.Count); f.Value != 50 || f.Error < 5 || f.Error > 6 {
		t.Errorf("%+v", f)
	}
	if f := median(nil, tables.Count); f.String() != "-" || f.Keep(atLeast(1)).Broken(0) {
		t.Errorf("%s", f)
	}
}
