package across

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/result/ratio"
)

// Turns is what a run says whose plan compares the values of a server axis by turns.
type Turns struct {
	Axis     string
	Baseline string
	Sides    []Held // each other value against the baseline, in the plan's order
	// Drift is how the baseline moved between the first turn and the last, which were its
	// own; "" if it did not certainly by more than [Alike]. Then sides differ by what the
	// host did too.
	Drift string
}

// A Held is one value of the axis against the baseline.
type Held struct {
	Value string
	*Comparison
}

// Within is what a run says of the axis that its plan compares; nil if it compares none.
func Within(run Side) *Turns {
	var plan struct {
		Compare *struct{ Axis, Baseline string } `json:"compare"`
		Matrix  struct {
			Axes []struct{ Name, Column string } `json:"axes"`
		} `json:"matrix"`
	}
	if json.Unmarshal(run.Plan, &plan) != nil || plan.Compare == nil {
		return nil
	}
	t := &Turns{Axis: plan.Compare.Axis, Baseline: plan.Compare.Baseline}
	column := t.Axis
	for _, a := range plan.Matrix.Axes {
		if a.Name == t.Axis {
			column = a.Column
		}
	}
	var order []string
	sides := map[string]Side{}
	for _, p := range run.Points {
		value := fmt.Sprint(p.Cell.Value(column))
		side, ok := sides[value]
		if !ok {
			order = append(order, value)
			side = Side{Name: value, RunID: run.RunID}
		}
		side.Points = append(side.Points, p)
		sides[value] = side
	}
	same := func(c compare.Cell) string {
		return c.Text(func(s compare.Setting) bool { return s.Column != column })
	}
	for _, value := range order {
		if value != t.Baseline {
			t.Sides = append(t.Sides, Held{value, by(same, sides[t.Baseline], sides[value], Options{})})
		}
	}
	t.Drift = drift(sides[t.Baseline].Points)
	return t
}

// drift says how the trials of the first turn and those of the last differ.
func drift(points []*compare.Point) string {
	level := Level / float64(2*max(1, len(points)))
	for _, p := range points {
		trials := p.Estimates(compare.TokenRate)
		if len(trials) < 2 || p.Valid < len(p.Trials) {
			continue
		}
		first, last := trials[0], trials[len(trials)-1]
		r := ratio.Of([]ratio.Trial{last}, []ratio.Trial{first}, level)
		if r.More(1+Alike) || r.Less(1/(1+Alike)) {
			return fmt.Sprintf("host_drift: %s gave %+.1f %% tok/s in the last turn against the first, with nothing changed", p.Cell.Label, 100*(r.Value-1))
		}
	}
	return ""
}

// Write says it for people: for each side a table of ratios.
func (t *Turns) Write(w io.Writer, verbose bool) error {
	for _, s := range t.Sides {
		var b strings.Builder
		fmt.Fprintf(&b, "%s %s against %s, by turns\n", plaintext.Line(t.Axis), plaintext.Line(s.Value), plaintext.Line(t.Baseline))
		if len(s.Cells) > 0 {
			s.table(&b, verbose)
		}
		s.left(&b, verbose)
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	if t.Drift != "" {
		_, err := fmt.Fprintln(w, plaintext.Line(t.Drift))
		return err
	}
	return nil
}

// Markdown is a section of summary.md.
func (t *Turns) Markdown(w io.Writer) error {
	if _, err := io.WriteString(w, "\n## Compared by turns\n\n```text\n"); err != nil {
		return err
	}
	if err := t.Write(w, true); err != nil {
		return err
	}
	_, err := io.WriteString(w, "```\n")
	return err
}

// CSV writes the lines of all sides, with the value of the axis before each.
func (t *Turns) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	for i, s := range t.Sides {
		for k, row := range s.rows() {
			switch {
			case k == 0 && i > 0:
				continue
			case k == 0:
				row = append([]string{"axis", "baseline", "value"}, row...)
			default:
				row = append([]string{plaintext.Line(t.Axis), plaintext.Line(t.Baseline), plaintext.Line(s.Value)}, row...)
			}
			if err := out.Write(row); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}
