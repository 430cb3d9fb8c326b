package details

import (
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/groups"
	"sweep.dev/sweep/rundir"
)

// trust is what the numbers rest on, in a few lines: the run and the client that
// took them, the software that was measured, and the objectives that too few
// requests decided.
func (s *summary) trust() []string {
	var lines []string
	for _, text := range []string{s.scopes(), s.method(), s.reused(), s.client()} {
		if text != "" {
			lines = append(lines, text)
		}
	}
	if s.State.Manifest.Decide == rundir.DecidePoint {
		lines = append(lines, "Objectives are decided by their values alone (--decide point): one that is met by little is missed in truth about as often.")
	}
	lines = append(lines, drifted(s.points)...)
	return append(lines, s.thinObjectives()...)
}

// method says that a run's figures were made in another way than those of today; ""
// if they were not.
func (s *summary) method() string {
	method := result.MethodOf(s.State.Manifest.Method)
	if method == result.Method || !slices.ContainsFunc(s.Rows(), func(r result.Row) bool { return r.Method() == method }) {
		return ""
	}
	text := fmt.Sprintf("These figures are of method %d, those of this sweep are of method %d: the two cannot be compared.", method, result.Method)
	if since := result.NewSince(method); since != "" {
		text += " New since: " + since + "."
	}
	return text
}

// client says what the measuring client was and what it adds, the worst over
// all trials; "" if no trial knows.
func (s *summary) client() string {
	kinds, stamps := s.texts(col.Client), s.texts(col.StampKind)
	if len(stamps) == 0 {
		return ""
	}
	var parts []string
	if len(kinds) > 0 {
		parts = append(parts, strings.Join(kinds, " and "))
	}
	parts = append(parts, "receive times by "+strings.Join(stamps, " and "))
	for _, f := range []struct {
		column, format string
		scale          float64
	}{
		{col.P99ClientLagMs, "its reads up to %s ms behind the kernel (p99)", 1},
		{col.CalibratedErrorMs, "an error of %s ms (p99) by calibration", 1},
		{col.StampErrorMs, "coalesced chunks up to %s ms late", 1},
		{col.MaxRTTMs, "round trips of up to %s ms", 1},
		{col.ClientCPU, "up to %s %% of its CPU", 100},
	} {
		worst, known := 0.0, false
		for _, row := range s.Rows() {
			if row[f.column] != nil {
				worst, known = max(worst, f.scale*row.Float(f.column)), true
			}
		}
		if known && (worst > 0 || f.column != col.StampErrorMs) {
			parts = append(parts, fmt.Sprintf(f.format, humanize.Figure(worst)))
		}
	}
	return "Client: " + strings.Join(parts, ", ") + "."
}

// texts are the different values of a column of texts.
func (s *summary) texts(column string) []string {
	var all []string
	for _, row := range s.Rows() {
		if text, ok := row[column].(string); ok && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// thinObjectives are the objectives that percentiles of too few requests
// decided, one way or the other.
func (s *summary) thinObjectives() []string {
	type objective struct {
		columns      string
		thin, trials int
	}
	var order []string
	byName := map[string]*objective{}
	for _, t := range s.Trials {
		if t.Outcome == nil || compare.Judge(t) == compare.Invalid {
			continue
		}
		for _, o := range t.Outcome.SLOs {
			b := byName[o.Name]
			if b == nil {
				b = &objective{}
				byName[o.Name], order = b, append(order, o.Name)
			}
			b.trials++
			if len(o.LowConfidence) > 0 && o.Verdict != "" {
				b.thin++
				b.columns = strings.Join(o.LowConfidence, ", ")
			}
		}
	}
	var parts []string
	for _, name := range order {
		if b := byName[name]; b.thin > 0 {
			parts = append(parts, fmt.Sprintf("%s (%s) in %d of %s", name, b.columns, b.thin, humanize.Plural(b.trials, "trial")))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{"Decided on too few requests, met or not: " + strings.Join(parts, "; ") + "."}
}

// outliers are the trials that are unlike the others of their cell.
func (s *summary) outliers() []draw.Item {
	var items []draw.Item
	for _, p := range s.points {
		named, _ := p.Group[groups.OutlierTrials].(string)
		if named == "" {
			continue
		}
		var trials []string
		figures := map[string][]string{}
		for name := range strings.SplitSeq(named, ",") {
			trial, column, _ := strings.Cut(name, ":")
			if figures[trial] == nil {
				trials = append(trials, trial)
			}
			for _, t := range p.Trials {
				if t.Outcome != nil && fmt.Sprint(t.Trial) == trial {
					figures[trial] = append(figures[trial], fmt.Sprintf("%s %s where the median is %s",
						column, humanize.Figure(t.Outcome.Row[column]), humanize.Figure(p.Group[column+groups.Median])))
				}
			}
		}
		for _, trial := range trials {
			items = append(items, draw.Item{Text: fmt.Sprintf("%s, trial %s: %s", p.Cell.Label, trial, strings.Join(figures[trial], ", "))})
		}
	}
	return items
}
