package view

import (
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/groups"
	"sweep.dev/sweep/rundir"
)

// Trust returns what the numbers rest on, in a few lines: the run and the client that
// took them, the software that was measured, and the objectives that too few
// requests decided.
func (v *View) Trust() []string {
	lines := slices.Concat([]string{v.scopes()}, v.Basis(), []string{v.since(), v.client()}, drifted(v.Set.Points), v.thinObjectives())
	return slices.DeleteFunc(lines, func(l string) bool { return l == "" })
}

// Basis lists what is unusual about the figures and their verdicts: another method, trials
// that were taken over, servers for prefill, decisions by values alone.
func (v *View) Basis() []string {
	lines := []string{v.method(), v.reused(), v.Disaggregated()}
	if v.State.Manifest.Decide == rundir.DecidePoint {
		lines = append(lines, "Objectives are decided by their values alone (--decide point): one that is met by little is missed in truth about as often.")
	}
	return slices.DeleteFunc(lines, func(l string) bool { return l == "" })
}

// method says that a run's figures were made in another way than those of today; ""
// if they were not.
func (v *View) method() string {
	method := v.State.Manifest.Method
	if method == result.Method || !slices.ContainsFunc(v.Rows(), func(r result.Row) bool { return r.Method() == method }) {
		return ""
	}
	return fmt.Sprintf("These figures are of method %d, those of this sweep are of method %d: the two cannot be compared.", method, result.Method)
}

// since lists the changes since the method of the run; "" for a run of today's.
func (v *View) since() string {
	if since := result.NewSince(v.State.Manifest.Method); since != "" && v.method() != "" {
		return "New since: " + since + "."
	}
	return ""
}

// client says what the measuring client was and what it adds, the worst over
// all trials; "" if no trial knows.
func (v *View) client() string {
	kinds, stamps := v.texts(col.Client), v.texts(col.StampKind)
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
		for _, row := range v.Rows() {
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

// texts returns the different values of a column of texts.
func (v *View) texts(column string) []string {
	var all []string
	for _, row := range v.Rows() {
		if text, ok := row[column].(string); ok && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// thinObjectives returns the objectives that percentiles of too few requests
// decided, one way or the other.
func (v *View) thinObjectives() []string {
	type objective struct {
		columns      string
		thin, trials int
	}
	var order []string
	byName := map[string]*objective{}
	for _, t := range v.Trials {
		if t.Outcome == nil || conclude.Judge(t) == conclude.Invalid {
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

// Outliers returns the trials that are unlike the others of their cell.
func (v *View) Outliers() []draw.Item {
	var items []draw.Item
	for _, p := range v.Set.Points {
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
