package report

import (
	"fmt"
	"os"
	"strings"

	"sweep.dev/sweep/result"
)

// marks are what a verdict looks like in a grid; every grid explains them.
var marks = []struct {
	v    Verdict
	mark string
}{
	{SweetSpot, "*"}, {Acceptable, "+"}, {Unstable, "~"}, {Missed, "-"}, {Invalid, "!"}, {FailedRun, "x"}, {Pending, "."},
}

func markOf(v Verdict) string {
	for _, m := range marks {
		if m.v == v {
			return m.mark
		}
	}
	return "?"
}

// grids writes one grid for each server (and each value of the further load
// axes): load down, max_tokens across.
func (r *Run) grids(p *printer, verdicts []Verdict) {
	type group struct {
		name  string
		cells []int // indices of trials
	}
	var groups []*group
	byName := map[string]*group{}
	for i, t := range r.Trials {
		name := r.groupName(t)
		g := byName[name]
		if g == nil {
			g = &group{name: name}
			byName[name] = g
			groups = append(groups, g)
		}
		g.cells = append(g.cells, i)
	}
	for _, g := range groups {
		head, rows := r.table(g.cells, verdicts)
		p.grid(g.name, head, rows)
	}
	var legend []string
	for _, m := range marks {
		for _, v := range verdicts {
			if v == m.v {
				legend = append(legend, m.mark+" "+string(m.v))
				break
			}
		}
	}
	p.line("Each cell: output tokens/s, p95 TTFT / p95 TPOT in ms.  " + strings.Join(legend, "  "))
	p.line("")
}

// groupName is a trial's server and whatever is on neither side of the grid.
func (r *Run) groupName(t Trial) string {
	var parts []string
	for _, s := range t.Cell.Settings {
		if s.Column != "concurrency" && s.Column != "request_rate" && s.Column != "max_tokens" {
			parts = append(parts, fmt.Sprintf("%s %v", s.Column, s.Value))
		}
	}
	if r.Resolved.Repeats > 1 {
		parts = append(parts, fmt.Sprintf("trial %d", t.Trial))
	}
	if len(parts) == 0 {
		return "all cells"
	}
	return strings.Join(parts, ", ")
}

// A field is one place of a grid.
type field struct {
	text    string
	verdict Verdict
}

func (r *Run) table(trials []int, verdicts []Verdict) (head []string, rows [][]field) {
	var down, across []string
	at := map[[2]string]field{}
	axis := "concurrency"
	for _, i := range trials {
		t := r.Trials[i]
		y, x := "", ""
		for _, s := range t.Cell.Settings {
			switch s.Column {
			case "concurrency", "request_rate":
				y, axis = fmt.Sprint(s.Value), s.Column
			case "max_tokens":
				x = fmt.Sprint(s.Value)
			}
		}
		if t.Outcome != nil { // an axis that the plan fixes stands in the row alone
			row := t.Outcome.Row
			if y == "" && row["concurrency"] != nil {
				y = fmt.Sprint(row["concurrency"])
			} else if y == "" && row["request_rate"] != nil {
				y, axis = fmt.Sprint(row["request_rate"]), "request_rate"
			}
			if x == "" {
				x = fmt.Sprint(row["max_tokens"])
			}
		}
		down, across = add(down, y), add(across, x)
		at[[2]string{y, x}] = field{text: markOf(verdicts[i]) + " " + gridText(t), verdict: verdicts[i]}
	}
	head = append(head, axis)
	for _, x := range across {
		head = append(head, "max_tokens "+x)
	}
	for _, y := range down {
		line := []field{{text: y}}
		for _, x := range across {
			line = append(line, at[[2]string{y, x}])
		}
		rows = append(rows, line)
	}
	return head, rows
}

func gridText(t Trial) string {
	if t.Outcome == nil {
		return "-"
	}
	row := t.Outcome.Row
	if row["status"] == result.StatusFailed {
		return fmt.Sprint(row["error_class"])
	}
	return fmt.Sprintf("%s  %s/%s", Figure(row["throughput_tok_s"]), Figure(row["p95_ttft_ms"]), Figure(row["p95_tpot_ms"]))
}

func add(list []string, s string) []string {
	for _, have := range list {
		if have == s {
			return list
		}
	}
	return append(list, s)
}

// Figure is a number for people: three or more significant digits, no noise.
func Figure(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case float64:
		switch {
		case v >= 100 || v == float64(int64(v)):
			return fmt.Sprintf("%.0f", v)
		case v >= 10:
			return fmt.Sprintf("%.1f", v)
		case v >= 1:
			return fmt.Sprintf("%.2f", v)
		default:
			return fmt.Sprintf("%.3g", v)
		}
	default:
		return fmt.Sprint(v)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
