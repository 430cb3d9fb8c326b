package compare

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/noise"
	"sweep.dev/sweep/result/ratio"
)

// NoiseFile returns the noise file of runs of one plan, in the order in which they are given;
// its cells may be none. It fails if they are not: of fewer than two runs, one that is
// there twice, or runs whose plans or methods differ.
func NoiseFile(runs []*report.Run) (*noise.File, error) {
	if len(runs) < 2 {
		return nil, fmt.Errorf("the noise between runs wants 2 runs of a plan at least, got %d", len(runs))
	}
	first := runs[0].State.Manifest
	f := &noise.File{Version: noise.Version, Plan: first.Plan, Digest: first.PlanDigest, Method: first.Method}
	var sides []Side
	for _, run := range runs {
		m := run.State.Manifest
		switch {
		case m.PlanDigest != first.PlanDigest:
			return nil, fmt.Errorf("%s is a run of another plan than %s (digest %.12s, not %.12s): what differs between them is no noise", run.Dir, runs[0].Dir, m.PlanDigest, first.PlanDigest)
		case m.Method != first.Method:
			return nil, fmt.Errorf("%s and %s have figures of different methods (%d and %d)", runs[0].Dir, run.Dir, first.Method, m.Method)
		case slices.Contains(f.Runs, m.RunID):
			return nil, fmt.Errorf("%s is a run that is there already (%s)", run.Dir, m.RunID)
		}
		f.Runs = append(f.Runs, m.RunID)
		if m.CreatedAt.After(f.CreatedAt) {
			f.CreatedAt = m.CreatedAt
		}
		sides = append(sides, Of(run))
	}
	f.Cells = NoiseOf(sides)
	return f, nil
}

// NoiseOf returns the noise of cells in runs of one plan: those that two runs at least have
// valid trials of, in the order of the first run. Cells that are measured on one side
// and simulated on another, or by different conditions, have none.
func NoiseOf(runs []Side) []noise.Cell {
	cells := []noise.Cell{}
	if len(runs) == 0 {
		return cells
	}
	for _, first := range runs[0].Points {
		points := ofCell(runs, first.Cell.ID)
		if len(points) < 2 || slices.ContainsFunc(points, func(p *conclude.Point) bool {
			return !sameConditions(points[0], p) || p.Simulated() != points[0].Simulated()
		}) {
			continue
		}
		cell := noise.Cell{ID: first.Cell.ID, Label: first.Cell.Label, Conditions: conditions(points[0])[0], Subjects: []string{}, Spreads: map[string]noise.Spread{}}
		for _, p := range points {
			cell.Subjects = append(cell.Subjects, seen(p, col.SubjectDigest)...)
		}
		slices.Sort(cell.Subjects)
		cell.Subjects = slices.Compact(cell.Subjects)
		for _, m := range Metrics() {
			if m.Share || slices.ContainsFunc(points, func(p *conclude.Point) bool { return p.Infinite(m.Measure) }) {
				continue
			}
			all := make([][]ratio.Trial, len(points))
			for i, p := range points {
				all[i] = p.Estimates(m.Measure)
			}
			if s, ok := noise.Of(all); ok {
				cell.Spreads[m.Column] = s
			}
		}
		if len(cell.Spreads) > 0 {
			cells = append(cells, cell)
		}
	}
	return cells
}

// ofCell returns the points of a cell that have valid trials.
func ofCell(runs []Side, id string) []*conclude.Point {
	var points []*conclude.Point
	for _, r := range runs {
		for _, p := range r.Points {
			if p.Cell.ID == id && p.Valid > 0 {
				points = append(points, p)
			}
		}
	}
	return points
}

// WriteNoise says a noise file for people: for each cell the spreads of the figures
// that have columns, and the least change that two such runs can show.
func WriteNoise(w io.Writer, f *noise.File) error {
	var b strings.Builder
	fmt.Fprintf(&b, "noise of %s: %s\n", plaintext.Line(f.Plan), humanize.Plural(len(f.Runs), "run"))
	rows := [][]string{{"cell"}}
	for _, m := range Metrics() {
		if m.Shown {
			rows[0] = append(rows[0], m.Title+" in a run", "between", "shown from")
		}
	}
	for _, c := range f.Cells {
		row := []string{plaintext.Line(c.Label)}
		for _, m := range Metrics() {
			if !m.Shown {
				continue
			}
			s, ok := c.Spreads[m.Column]
			if !ok {
				row = append(row, "-", "-", "-")
				continue
			}
			within := "-"
			if s.Within != nil {
				within = spread(*s.Within)
			}
			n := max(1, s.Trials/s.Runs)
			row = append(row, within, spread(s.Between), spread(s.Floor(n, n, true, Level/2)))
		}
		rows = append(rows, row)
	}
	align(&b, rows)
	_, err := io.WriteString(w, b.String())
	return err
}

func spread(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }
