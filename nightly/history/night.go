package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/metric"
)

// loopback is the network_path of a server on the client's own machine.
const loopback = "loopback"

// Nights returns the cells of a run that were measured in it, in the plan's order. A trial
// that was taken over from another run is none of this one.
func Nights(run *report.Run) []Night {
	rows := map[string][]result.Row{}
	for _, t := range run.Trials {
		if t.Outcome == nil || t.Outcome.Row[col.ReusedFrom] != nil || t.Outcome.Row[col.Status] == result.StatusSkipped {
			continue
		}
		rows[t.Cell.ID] = append(rows[t.Cell.ID], t.Outcome.Row.Trusted())
	}
	var nights []Night
	m := run.State.Manifest
	for _, c := range run.Resolved.Cells {
		if trials := rows[c.ID]; len(trials) > 0 {
			n := night(trials)
			n.Date, n.Run, n.Plan, n.Label = m.CreatedAt.UTC(), m.RunID, m.Plan, c.Label
			nights = append(nights, n)
		}
	}
	return nights
}

// night returns a cell by the rows of its trials.
func night(rows []result.Row) Night {
	valid := slices.DeleteFunc(slices.Clone(rows), func(r result.Row) bool { return r[col.Valid] != true })
	standing := valid
	if len(valid) == 0 { // what is INVALID in part has figures to use
		standing = slices.DeleteFunc(slices.Clone(rows), func(r result.Row) bool { return !r.InPart() })
	}
	of := rows[:1]
	if len(standing) > 0 {
		of = standing
	}
	text := func(column string) string { return texts(of, column) }
	first := of[0]
	method, _ := first[col.Method].(int64)
	n := Night{
		Key: Key{Cell: text(col.CellID), Conditions: text(col.ConditionsDigest), Machine: machine(first), Method: int(method)},
		Subject: Subject{
			Digest: text(col.SubjectDigest), Engine: text(col.Engine), EngineVersion: text(col.EngineVersion),
			ImageDigest: text(col.ImageDigest), ModelRevision: text(col.ModelRevision), Driver: text(col.DriverVersion),
		},
		GPU: text(col.GPU), Simulated: first[col.Simulated] == true,
		Trials: len(rows), Valid: len(valid), Figures: map[string]Figure{},
	}
	for _, m := range metric.Kept() {
		if f := figure(standing, m.Column); f.N > 0 {
			n.Figures[m.Column] = f
		}
	}
	return n
}

// texts returns the different values of a column of texts, sorted and joined by commas.
func texts(rows []result.Row, column string) string {
	var list []string
	for _, r := range rows {
		if s, ok := r[column].(string); ok {
			list = append(list, s)
		}
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ",")
}

// machine returns the class of the machine that a row was measured on.
func machine(r result.Row) string {
	text := func(column string) string { s, _ := r[column].(string); return s }
	class := text(col.Backend) + " " + cmp.Or(text(col.GPU), "-")
	if n, ok := r[col.GPUCount].(int64); ok {
		class += fmt.Sprintf(" x%d", n)
	}
	path := text(col.NetworkPath)
	class += " " + cmp.Or(path, "-")
	if path == loopback && r[col.Simulated] != true {
		class += " " + text(col.ClientHost)
	}
	return class
}

// figure returns a metric over rows.
func figure(rows []result.Row, column string) Figure {
	var f Figure
	var values []float64
	for _, r := range rows {
		if r.Infinite(column) {
			f.Infinite++
			continue
		}
		if v, ok := r.Number(column); ok && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	f.N = len(values) + f.Infinite
	if f.Infinite > 0 || len(values) == 0 {
		return f
	}
	mean := 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	f.Mean = &mean
	if len(values) > 1 {
		sd := 0.0
		for _, v := range values {
			sd += (v - mean) * (v - mean)
		}
		sd = math.Sqrt(sd / float64(len(values)-1))
		f.SD = &sd
	}
	return f
}

// Value returns a figure of a night as a number: infinity if a trial had no finite one, NaN
// if nothing valid was measured.
func (n Night) Value(column string) float64 {
	f, ok := n.Figures[column]
	switch {
	case !ok:
		return math.NaN()
	case f.Mean == nil:
		return math.Inf(1)
	}
	return *f.Mean
}

// Changed says in words what another subject has that is not of this one, "" for nothing.
// settings are those that differ, "" if they are not known.
func (s Subject) Changed(now Subject, settings string) string {
	var changes []string
	for _, f := range []struct {
		name     string
		old, new string
		short    func(string) string
	}{
		{"engine", s.Engine, now.Engine, nil},
		{s.name(now), s.EngineVersion, now.EngineVersion, nil},
		{"image", s.ImageDigest, now.ImageDigest, shortDigest},
		{"model revision", s.ModelRevision, now.ModelRevision, shortDigest},
		{"driver", s.Driver, now.Driver, nil},
	} {
		if f.old == f.new {
			continue
		}
		short := func(s string) string {
			if f.short != nil {
				s = f.short(s)
			}
			return cmp.Or(s, "unknown")
		}
		changes = append(changes, fmt.Sprintf("%s %s -> %s", f.name, short(f.old), short(f.new)))
	}
	switch {
	case s.Digest == now.Digest:
	case settings != "":
		changes = append(changes, settings)
	case len(changes) == 0:
		changes = append(changes, "arguments, environment or settings of the server")
	}
	return strings.Join(changes, ", ")
}

// name returns what a version is of.
func (s Subject) name(now Subject) string {
	if s.Engine == now.Engine && s.Engine != "" {
		return s.Engine
	}
	return "engine version"
}

// shortDigest returns the beginning of a digest.
func shortDigest(s string) string {
	algorithm, digits, ok := strings.Cut(s, ":")
	if !ok {
		algorithm, digits = "", s
	} else {
		algorithm += ":"
	}
	return algorithm + digits[:min(12, len(digits))]
}
