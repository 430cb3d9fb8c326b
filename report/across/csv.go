package across

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/rundir"
)

// CSV writes one line for each figure of each cell, with the rows of both sides that it
// rests on, and one for each cell that is not compared.
func (c *Comparison) CSV(w io.Writer) error {
	return csv.NewWriter(w).WriteAll(c.rows())
}

// rows are the lines of the CSV, the names of the columns first.
func (c *Comparison) rows() [][]string {
	rows := [][]string{{col.CellID, "cell", "metric", "base", "head", "ratio", "low", "high", "scope", "paired", "verdict", "regression", "repeats", "base_run_id", "base_rows", "head_run_id", "head_rows", "why"}}
	for _, cell := range c.Cells {
		for _, f := range cell.Figures {
			if f.Base == nil && f.Head == nil && f.Why == "" {
				continue
			}
			repeats := ""
			if f.Repeats != nil {
				repeats = strconv.Itoa(*f.Repeats)
			}
			rows = append(rows, []string{
				cell.ID, plaintext.Line(cell.Label), f.Metric, number(f.Base), number(f.Head), number(f.Ratio), number(f.Low), number(f.High), f.Scope, strconv.FormatBool(f.Paired),
				string(f.Verdict), strconv.FormatBool(f.Regression), repeats, c.Base.RunID, names(cell.Base), c.Head.RunID, names(cell.Head), plaintext.Line(f.Why),
			})
		}
	}
	for _, l := range c.Left {
		row := make([]string, len(rows[0]))
		row[0], row[1], row[10], row[len(row)-1] = l.ID, plaintext.Line(l.Label), "not compared", plaintext.Line(l.Why)
		rows = append(rows, row)
	}
	return rows
}

// number is a value with all its digits; empty if it is not known.
func number(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

func names(keys []rundir.Key) string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = k.String()
	}
	return strings.Join(all, " ")
}
