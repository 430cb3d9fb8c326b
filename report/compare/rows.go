package compare

import (
	"iter"
	"strings"

	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/rundir"
)

// NotCompared is the verdict of a row about a cell that is not compared.
const NotCompared = "not compared"

// Columns returns those of [Comparison.Rows].
func Columns() []result.Column {
	column := func(name string, t result.Type, doc string) result.Column {
		return result.Column{Name: name, Type: t, Tier: result.Core, Doc: doc}
	}
	maybe := func(name string, t result.Type, doc string) result.Column {
		return result.Column{Name: name, Type: t, Tier: result.Core, Nullable: true, Doc: doc}
	}
	return []result.Column{
		column(col.CellID, result.String, "The cell of head; of a cell that only base has, that one."),
		column("cell", result.String, "Its label."),
		maybe("metric", result.String, "The column of the cells table that is compared; null in the row of a cell that is not compared."),
		maybe("base", result.Float, "Mean of the metric over the valid trials of base, in the unit of its column."),
		maybe("head", result.Float, "The same of head."),
		maybe("ratio", result.Float, "head / base, of the geometric means of the trials; of error_rate and quality_score it is head - base."),
		maybe("low", result.Float, "Lower end of its 95 % interval, which all deployments share in rows of quality_score; null if it is not known."),
		maybe("high", result.Float, "Upper end of its 95 % interval; null if it is not known."),
		maybe("scope", result.String, "What the interval covers: within one trial, within one launch, between launches or between runs; null for quality_score, whose interval is over prompts."),
		maybe("paired", result.Bool, "Whether trials of one number, which had the same arrivals and lengths, were held against each other; of quality_score the prompts."),
		column("verdict", result.String, "faster, slower (in every metric: better, worse), same (within 2 %), cannot tell, too_noisy or not compared; of quality_score better, worse or cannot tell."),
		maybe("regression", result.Bool, "Whether it is certainly worse than --max-regression allows; false if no bound was asked for. Of quality_score, whether it is worse and an objective of head of severity fail reads a column of quality."),
		maybe("repeats", result.Int, "How many trials of each side would tell; null if it is told, if nobody knows, or if it would take more than 50."),
		column("base_run_id", result.String, "The run of base."),
		maybe("base_rows", result.String, "Rows of its cells table that base rests on, as CELL/tNN, with spaces between."),
		column("head_run_id", result.String, "The run of head."),
		maybe("head_rows", result.String, "Rows of its cells table that head rests on."),
		maybe("why", result.String, "Why there is no ratio, or why the cell is not compared; of quality_score the verdict in words, with the smallest loss that the prompts show."),
	}
}

// Rows returns one for each figure of each cell, with the rows of both sides that it rests
// on, one for the answers of its deployment, and one for each cell that is not compared.
func (c *Comparison) Rows() iter.Seq[result.Row] {
	return func(yield func(result.Row) bool) {
		for i := range c.Cells {
			for k := range c.Cells[i].Figures {
				f := &c.Cells[i].Figures[k]
				if f.Said() && !yield(c.row(&c.Cells[i], f)) {
					return
				}
			}
			if row := c.Quality.row(c, &c.Cells[i]); row != nil && !yield(row) {
				return
			}
		}
		for _, l := range c.Left {
			if !yield(result.Row{
				col.CellID: l.ID, "cell": plaintext.Line(l.Label), "verdict": NotCompared,
				"base_run_id": c.Base.RunID, "head_run_id": c.Head.RunID, "why": plaintext.Line(l.Why),
			}) {
				return
			}
		}
	}
}

func (c *Comparison) row(cell *Cell, f *Figure) result.Row {
	line := result.Row{
		col.CellID: cell.ID, "cell": plaintext.Line(cell.Label), "metric": f.Metric,
		"paired": f.Paired, "verdict": string(f.Verdict), "regression": f.Regression,
		"base_run_id": c.Base.RunID, "base_rows": names(cell.Base), "head_run_id": c.Head.RunID, "head_rows": names(cell.Head),
	}
	for name, v := range map[string]*float64{"base": f.Base, "head": f.Head, "ratio": f.Ratio, "low": f.Low, "high": f.High} {
		if v != nil {
			line[name] = *v
		}
	}
	if f.Repeats != nil {
		line["repeats"] = int64(*f.Repeats)
	}
	for name, text := range map[string]string{"scope": f.Scope, "why": f.Why} {
		if text != "" {
			line[name] = plaintext.Line(text)
		}
	}
	return line
}

func names(keys []rundir.Key) string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = k.String()
	}
	return strings.Join(all, " ")
}
