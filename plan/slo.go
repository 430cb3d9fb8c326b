package plan

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan/internal/expression"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// A Check is a compiled objective.
type Check struct {
	expr *expression.Expression
}

// SLOKeys is the long form of an objective in a plan.
type SLOKeys struct {
	Expr     string `yaml:"expr" doc:"Expression over the columns of the cells table that must hold." example:"p95_ttft_ms < 200"`
	Severity string `yaml:"severity,omitempty" doc:"Whether a miss fails the run (exit 99) or is only told." default:"fail" enum:"fail,warn"`
}

// CompileSLOs compiles the objectives over the columns of the plan. at is where the
// expression of one stands, nil for one that was reported.
func (p *Plan) CompileSLOs(r *syntax.Report, columns []result.Column, at func(name string) *syntax.Node) {
	env := columnEnv(columns)
	for i := range p.SLO {
		n := at(p.SLO[i].Name)
		if n == nil || n.Kind != syntax.String {
			continue // reported
		}
		if e := expression.Compile(r, n, env.Env); e != nil {
			p.SLO[i].check = &Check{expr: e}
		}
	}
}

// Reads are the names that the objective reads; none of one that is wrong.
func (s SLO) Reads() []string {
	if s.check == nil {
		return nil
	}
	return s.check.expr.Reads
}

// Evaluate holds the objective against a row. A column that is nil or absent
// makes an error, never a pass; one that is infinite has that value. Values holds
// what the expression read.
func (s SLO) Evaluate(row result.Row) result.SLOResult {
	out := result.SLOResult{Name: s.Name, Expr: s.Expr, Severity: s.Severity}
	if s.check == nil {
		out.Error = "the objective was not compiled"
		return out
	}
	env := make(map[string]any, len(s.check.expr.Reads))
	out.Values = make(result.Row, len(env))
	var missing []string
	for _, name := range s.check.expr.Reads {
		v := row[name]
		if row.Infinite(name) {
			v = math.Inf(1) // so that no bound from above holds
		}
		out.Values[name] = v
		switch n := v.(type) {
		case nil:
			if why := row.WhyNull(name); why != "" {
				name += " (" + why + ")"
			}
			missing = append(missing, name)
		case int64:
			v = float64(n)
		case int:
			v = float64(n)
		case time.Time:
			missing = append(missing, name)
		}
		env[name] = v
	}
	if len(missing) > 0 {
		out.Error = "not measured: " + strings.Join(missing, ", ")
		return out
	}
	pass, err := s.check.expr.Run(env)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	out.Pass = pass
	return out
}

// Objectives holds every objective against the row and fills in its columns.
// slo_pass is what those of severity fail say together: false if one is missed,
// else null if one could not be checked. It is null without objectives.
func (p *Plan) Objectives(row result.Row) []result.SLOResult {
	if len(p.SLO) == 0 {
		return nil
	}
	results := make([]result.SLOResult, 0, len(p.SLO))
	missed, unchecked := false, false
	for _, slo := range p.SLO {
		r := slo.Evaluate(row)
		if r.Error == "" {
			row[col.OfSLO(r.Name)] = r.Pass
		}
		r.LowConfidence = row.LowConfidence(slices.Sorted(maps.Keys(r.Values)))
		if r.Severity != SeverityWarn {
			missed = missed || !r.Pass && r.Error == ""
			unchecked = unchecked || r.Error != ""
		}
		results = append(results, r)
	}
	if missed || !unchecked {
		row[col.SLOPass] = !missed
	}
	return results
}
