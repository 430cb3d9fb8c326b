// Package capacity says what the searches of a plan with find have found: the table
// capacity.csv, and the same in words.
package capacity

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/rundir"
)

// An Answer is what a search found for one objective, with the figures of the server at
// the certified load.
type Answer struct {
	search.Answer
	Of       report.Searched
	Expr     string
	Settings []conclude.Setting // of the combination: all axes but the searched one

	// Figures are means over the VALID trials at the certified load, by their columns; nil
	// for what nobody measured.
	Figures result.Row
	CostUSD *float64 // of the measured time of all trials of the search
	Limit   *Limit   // why no more is carried; nil if nothing failed

	Predicted *report.Predicted // by the simulator before the run; nil if it was not asked
}

// figures are those of the certified load.
var figures = []string{col.ThroughputTokS, col.RequestThroughput, col.USDPer1MOutputTokens, col.JoulesPerOutputToken}

// Of returns the answers of a run, by its searches and in each by the objectives.
func Of(run *report.Run) []Answer {
	var all []Answer
	for _, s := range run.Searches() {
		cost := sum(s.Trials, col.CostUSD)
		for _, a := range s.Answers() {
			one := Answer{Answer: a, Of: s, CostUSD: cost, Expr: tierOf(s, a.Objective).Expr, Settings: settings(run, s)}
			one.Predicted = run.Rehearsal.Search(s.Label, a.Objective)
			if a.Capacity != nil {
				one.Figures = mean(rows(valid(at(s, *a.Capacity))), figures)
			}
			if a.FailsAt != nil {
				one.Limit = LimitOf(rows(one.decisive(*a.FailsAt)), parts(tierOf(s, a.Objective), a.Missed), s.Servers)
			}
			all = append(all, one)
		}
	}
	return all
}

// settings returns those of the cells of a search that do not differ between them.
func settings(run *report.Run, s report.Searched) []conclude.Setting {
	for _, c := range run.Resolved.Cells {
		if !slices.Contains(s.Cells, c.ID) {
			continue
		}
		own := slices.DeleteFunc(slices.Clone(c.Settings), func(o conclude.Setting) bool { return o.Column == s.Axis })
		for i, o := range own { // JSON has one kind of numbers
			column, _ := result.Lookup(run.Resolved.Columns, o.Column)
			if n, ok := o.Value.(float64); ok && column.Type == result.Int {
				own[i].Value = int64(n)
			}
		}
		return own
	}
	return nil
}

// tierOf returns an objective of a search as its trials have it, with its parts if a trial has them.
func tierOf(s report.Searched, name string) (found result.SLOResult) {
	for _, t := range s.Trials {
		for _, o := range t.Outcome.SLOs {
			if o.Name != name {
				continue
			}
			if found = o; len(o.Parts) > 0 {
				return found
			}
		}
	}
	return found
}

// parts returns those of an objective with some expressions.
func parts(o result.SLOResult, exprs []string) (all []result.SLOPart) {
	for _, expr := range exprs {
		one := result.SLOPart{Expr: expr}
		if i := slices.IndexFunc(o.Parts, func(p result.SLOPart) bool { return p.Expr == expr }); i >= 0 {
			one = o.Parts[i]
		}
		all = append(all, one)
	}
	return all
}

// at returns the trials of a search at a load; if states are given those that ended so.
func at(s report.Searched, load float64, states ...string) []report.Trial {
	var trials []report.Trial
	for i, o := range s.Outcomes {
		if s.Levels[o.Level] == load && (len(states) == 0 || slices.Contains(states, o.State)) {
			trials = append(trials, s.Trials[i])
		}
	}
	return trials
}

// decisive returns the trials of the search at a load that say whether it fails: of several
// devices those of the one that carries least.
func (a *Answer) decisive(load float64) []report.Trial {
	return slices.DeleteFunc(at(a.Of, load, search.Measured, search.Drifting), func(t report.Trial) bool {
		return a.Decides != "" && t.Outcome.Row[col.GPUUUID] != a.Decides
	})
}

// deviceIDs returns the UUIDs of the devices that the answer rests on.
func (a *Answer) deviceIDs() []string {
	list := make([]string, len(a.Devices))
	for i, d := range a.Devices {
		list[i] = d.ID
	}
	return list
}

// Mean returns that of a column over the VALID trials at the certified load; ok is false if
// there are none, or nobody measured it.
func (a *Answer) Mean(column string) (v float64, ok bool) {
	if a.Capacity == nil {
		return 0, false
	}
	row := mean(rows(valid(at(a.Of, *a.Capacity))), []string{column})
	return row.Number(column)
}

// Simulated reports whether a trial of the search is.
func (a *Answer) Simulated() bool {
	return slices.ContainsFunc(a.Of.Trials, func(t report.Trial) bool { return t.Outcome.Row[col.Simulated] == true })
}

// Conditions returns what all trials of the search share of prompts, load, seed and client; ""
// if nobody knows.
func (a *Answer) Conditions() string {
	for _, t := range a.Of.Trials {
		if digest, ok := t.Outcome.Row[col.ConditionsDigest].(string); ok {
			return digest
		}
	}
	return ""
}

// Rows returns the VALID trials at the certified load, which the answer rests on.
func (a *Answer) Rows() []rundir.Key {
	var keys []rundir.Key
	if a.Capacity == nil {
		return nil
	}
	for _, t := range valid(at(a.Of, *a.Capacity)) {
		keys = append(keys, t.Key)
	}
	return keys
}

func valid(trials []report.Trial) []report.Trial {
	return slices.DeleteFunc(slices.Clone(trials), func(t report.Trial) bool { return t.Outcome.Row[col.Valid] != true })
}

// sum returns that of a column; nil if no trial has it.
func sum(trials []report.Trial, column string) *float64 {
	var total *float64
	for _, t := range trials {
		if v, ok := t.Outcome.Row.Number(column); ok {
			if total == nil {
				total = new(float64)
			}
			*total += v
		}
	}
	return total
}

func rows(trials []report.Trial) []result.Row {
	all := make([]result.Row, len(trials))
	for i, t := range trials {
		all[i] = t.Outcome.Row
	}
	return all
}

// mean returns that of columns over trials.
func mean(trials []result.Row, columns []string) result.Row {
	row := result.Row{}
	for _, column := range columns {
		total, n := 0.0, 0
		for _, t := range trials {
			if v, ok := t.Number(column); ok {
				total, n = total+v, n+1
			}
		}
		if n > 0 {
			row[column] = total / float64(n)
		}
	}
	return row
}

// missed returns the parts of the objective that the trials at the load where it fails missed,
// pooled.
func (a *Answer) missed() []result.SLOPart {
	if a.FailsAt == nil {
		return nil
	}
	var trials []result.SLOResult
	for _, t := range a.decisive(*a.FailsAt) {
		for _, o := range t.Outcome.SLOs {
			if o.Name == a.Objective {
				trials = append(trials, o)
			}
		}
	}
	if len(trials) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(objective.Pool(trials).Parts), func(p result.SLOPart) bool {
		return !slices.Contains(a.Missed, p.Expr)
	})
}

// Columns of the table, beside the axes of the combination.
const (
	axis        = "axis"
	name        = "objective"
	expression  = "expression"
	confidence  = "confidence"
	certified   = "capacity"
	point       = "capacity_point"
	devices     = "devices"
	ids         = "device_uuids"
	least       = "certified_min"
	most        = "certified_max"
	decides     = "decided_on"
	failsAt     = "fails_at"
	missed      = "missed"
	contradicts = "contradicts_at"
	openFrom    = "open_from"
	openTo      = "open_to"
	more        = "more_requests"
	reason      = "reason"
	probes      = "probes"
	predicted   = "predicted_capacity"
	limit       = "limited_by"
	evidence    = "limited_by_columns"
)

// Columns returns those of [Rows].
func Columns(run *report.Run) []result.Column {
	core := func(name string, t result.Type, unit, doc string) result.Column {
		return result.Column{Name: name, Type: t, Unit: unit, Tier: result.Core, Nullable: true, Doc: doc}
	}
	var columns []result.Column
	for _, s := range run.Searches() {
		for _, o := range settings(run, s) {
			if c, ok := result.Lookup(run.Resolved.Columns, o.Column); ok && !slices.ContainsFunc(columns, func(h result.Column) bool { return h.Name == c.Name }) {
				columns = append(columns, c)
			}
		}
	}
	columns = append(columns,
		core(axis, result.String, "", "The axis that was searched; capacity and the other loads are its values."),
		core(name, result.String, "", "The objective of the plan that was searched for."),
		core(expression, result.String, "", "The expression of the objective; null if no trial was measured."),
		core(certified, result.Float, "", "The greatest load at which the objective holds with the confidence; null if none is certified."),
		core(point, result.Float, "", "The greatest load whose one trial kept the objective on the way, at least the capacity; often too high."),
		core(devices, result.Int, "GPUs", "How many different GPUs, or sets of them, the answer was measured on; null if nobody knows which they were."),
		core(ids, result.String, "", "Their UUIDs in the order in which they were measured, joined by semicolons; of a set by commas."),
		core(least, result.Float, "", "The least of the greatest loads that are certified on each of several devices: the capacity. Null for one device, and if one of them has none."),
		core(most, result.Float, "", "The greatest of them."),
		core(decides, result.String, "", "The UUID of the device that carries least, of several."),
		core(failsAt, result.Float, "", "The least load above the capacity whose trials leave no doubt that it misses the objective."),
		core(missed, result.String, "", "The parts of the objective that were missed there, joined by a semicolon."),
		core(contradicts, result.Float, "", "A load above fails_at that certainly keeps the objective."),
		core(openFrom, result.Float, "", "The least load above the capacity and below fails_at that nothing decides; null if there is none."),
		core(openTo, result.Float, "", "The greatest of them."),
		core(more, result.Int, "requests", "Further requests at open_from that are likely to decide it; null if nobody knows."),
		core(reason, result.String, "", "Why the search ended: "+strings.Join(search.Reasons(), ", ")+"; null if it has not."),
		core(confidence, result.Float, "ratio", "The chance that the objective holds at the capacity."),
	)
	for _, f := range figures {
		if c, ok := result.Lookup(run.Resolved.Columns, f); ok {
			c.Doc, c.Tier, c.Nullable = "At the capacity, the mean over its VALID trials. "+c.Doc, result.Core, true
			columns = append(columns, c)
		}
	}
	cost, _ := result.Lookup(run.Resolved.Columns, col.CostUSD)
	cost.Doc, cost.Tier, cost.Nullable = "Of the measured time of all probes of the search.", result.Core, true
	return append(columns,
		core(probes, result.Int, "trials", "Trials of the search, INVALID ones included; its objectives share them."),
		core(col.Requests, result.Int, "requests", "Requests of all probes of the search."),
		cost,
		core(predicted, result.Float, "", "The capacity that the simulator predicted before the run (sweep run --rehearse); null if it was not asked, or predicted none."),
		core(limit, result.String, "", "What limits the server at fails_at, by its counters: "+strings.Join(limits(), ", ")+" or unknown."),
		core(evidence, result.String, "", "The columns that say it, with their means there."),
	)
}

// Rows returns the answers of a run as a table: a row for each search and objective.
func Rows(run *report.Run) iter.Seq[result.Row] {
	return func(yield func(result.Row) bool) {
		for _, a := range Of(run) {
			if !yield(a.row()) {
				return
			}
		}
	}
}

func (a *Answer) row() result.Row {
	row := result.Row{
		axis: a.Of.Axis, name: a.Objective, confidence: a.Of.Confidence,
		probes: int64(len(a.Of.Outcomes)), col.Requests: int64(a.Requests),
	}
	for _, s := range a.Settings {
		row[s.Column] = s.Value
	}
	low, high := a.Spread()
	if n := len(a.Devices); n > 0 {
		row[devices], row[ids] = int64(n), strings.Join(a.deviceIDs(), "; ")
	}
	for column, v := range map[string]*float64{certified: a.Capacity, point: a.Point, least: low, most: high, failsAt: a.FailsAt, contradicts: a.Contradicts, openFrom: a.OpenFrom, openTo: a.OpenTo, col.CostUSD: a.CostUSD} {
		if v != nil {
			row[column] = *v
		}
	}
	for column, v := range map[string]string{expression: a.Expr, decides: a.Decides, missed: strings.Join(a.Missed, "; "), reason: a.Reason} {
		if v != "" {
			row[column] = v
		}
	}
	if a.MoreRequests > 0 {
		row[more] = int64(a.MoreRequests)
	}
	if a.Predicted != nil && a.Predicted.Capacity != nil {
		row[predicted] = *a.Predicted.Capacity
	}
	maps.Copy(row, a.Figures)
	if a.Limit != nil {
		row[limit], row[evidence] = a.Limit.By, strings.Join(a.Limit.Says, ", ")
	}
	return row
}
