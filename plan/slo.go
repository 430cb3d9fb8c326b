package plan

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan/internal/expression"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/result/summary"
)

// A Check is a compiled objective.
type Check struct {
	expr *expression.Expression
}

// Bounds returns those of a good request, as the figures are made with; nil for none.
func (g *Goodput) Bounds() *summary.Goodput {
	if g == nil {
		return nil
	}
	return &summary.Goodput{TTFT: g.TTFT, TPOT: g.TPOT, E2E: g.E2E}
}

// SLOKeys is the long form of an objective in a plan.
type SLOKeys struct {
	Expr     string   `yaml:"expr" doc:"Expression over the columns of the cells table that must hold." example:"p95_ttft_ms < 200"`
	Severity string   `yaml:"severity,omitempty" doc:"Whether a miss fails the run (exit 99) or is only reported." default:"fail" enum:"fail,warn" example:"warn"`
	Loads    []string `yaml:"loads,omitempty" doc:"Names of the loads that the objective is for, in a plan with loads. It is not held against the cells of others." default:"all" example:"[chat]"`
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

// Reads returns the names that the objective reads; none of one that is wrong.
func (s SLO) Reads() []string {
	if s.check == nil {
		return nil
	}
	return s.check.expr.Reads
}

// Evaluate holds the objective against a row, and against the trial that it is of; nil
// for none, so that each part is decided by its value. A column that is nil or absent
// makes an error, never a pass; one that is infinite has that value. Values holds what
// the expression read.
func (s SLO) Evaluate(row result.Row, trial *objective.Trial, confidence float64) result.SLOResult {
	out := result.SLOResult{Name: s.Name, Expr: s.Expr, Severity: s.Severity}
	if s.check == nil {
		out.Error = "the objective was not compiled"
		return out
	}
	out.Values = make(result.Row, len(s.check.expr.Reads))
	parts := s.check.expr.Parts()
	comparisons, confidence := s.comparisons(confidence)
	for i, p := range parts {
		part := point(p, row)
		maps.Copy(out.Values, part.Values)
		if part.Error == "" {
			sides := make([]result.SLOPart, len(p.Any))
			for k, side := range p.Any {
				sides[k] = point(side, row)
			}
			trial.Decide(&part, sides, comparisons[i], confidence)
		} else if out.Error == "" {
			out.Error = part.Error
		}
		out.Parts = append(out.Parts, part)
	}
	if out.Verdict = objective.Verdict(out.Parts); out.Verdict != "" {
		out.Error = ""
	}
	return out
}

// comparisons returns the parts of the objective, each with the sides of its or: the zero
// value for one that is something else. The confidence is that of each, which they share.
func (s SLO) comparisons(confidence float64) ([][]objective.Comparison, float64) {
	parts := s.check.expr.Parts()
	comparisons := make([][]objective.Comparison, len(parts))
	bounded := 0
	for i, p := range parts {
		sides := p.Any
		if len(sides) == 0 {
			sides = []expression.Part{p}
		}
		for _, side := range sides {
			c := objective.Comparison{Column: side.Column, Op: side.Op, Limit: side.Limit}
			if comparisons[i] = append(comparisons[i], c); c.Rule() != result.RulePoint {
				bounded++
			}
		}
	}
	if bounded > 1 {
		confidence = 1 - (1-confidence)/float64(bounded)
	}
	return comparisons, confidence
}

// Comparisons returns the sides of all parts of the objective.
func (s *SLO) Comparisons() []objective.Comparison {
	if s.check == nil {
		return nil
	}
	parts, _ := s.comparisons(objective.Confidence)
	return slices.Concat(parts...)
}

// Watch decides the objectives of severity fail while the load of a cell goes on, to end
// it once they are; nil if the plan does not ask for that, or if one of them is only
// decided at the end.
func (p *Plan) Watch(c Cell) *objective.Watch {
	l := c.Load
	if l.Until == nil || !l.Until.Objectives {
		return nil
	}
	var watched []objective.Watched
	for _, s := range p.SLO {
		if s.Severity == SeverityWarn || s.check == nil || !s.For(c.LoadName()) {
			continue
		}
		parts, confidence := s.comparisons(cmp.Or(p.Confidence, objective.Confidence))
		watched = append(watched, objective.Watched{Name: s.Name, Parts: parts, Confidence: confidence})
	}
	return objective.NewWatch(watched, summary.Options{Open: l.Open(), Goodput: p.Goodput.Bounds()})
}

// point holds a part against the row.
func point(p expression.Part, row result.Row) result.SLOPart {
	part := result.SLOPart{Expr: p.Text, Rule: result.RulePoint, Verdict: result.SLOFail, Values: result.Row{}}
	env := make(map[string]any, len(p.Reads))
	var missing []string
	for _, name := range p.Reads {
		v := row[name]
		if row.Infinite(name) {
			v = math.Inf(1) // so that no bound from above holds
		}
		part.Values[name] = v
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
	if f, ok := env[p.Column].(float64); ok && !math.IsInf(f, 0) {
		part.Figure = &f
	}
	if len(missing) > 0 {
		part.Verdict, part.Error = "", "not measured: "+strings.Join(missing, ", ")
		return part
	}
	pass, err := p.Run(env)
	switch {
	case err != nil:
		part.Verdict, part.Error = "", err.Error()
	case pass:
		part.Verdict = result.SLOPass
	}
	return part
}

// Objectives holds every objective that is for the row's load against the row, and
// against the trial that it is of, and fills in its columns; without a trial they are
// decided by their values alone. slo_pass is what those of severity fail say together:
// false if one is missed, else null if one is undecided or could not be checked. It is
// null without objectives.
func (p *Plan) Objectives(row result.Row, trial *objective.Trial) []result.SLOResult {
	load, _ := row[LoadAxis].(string)
	results := make([]result.SLOResult, 0, len(p.SLO))
	for _, slo := range p.SLO {
		if !slo.For(load) {
			continue
		}
		r := slo.Evaluate(row, trial, cmp.Or(p.Confidence, objective.Confidence))
		for _, part := range r.Parts {
			r.LowConfidence = append(r.LowConfidence, row.LowConfidence(slices.Sorted(maps.Keys(part.Values)))...)
		}
		results = append(results, r)
	}
	if len(results) == 0 {
		return nil
	}
	Record(row, results)
	return results
}

// Record fills in the columns of the objectives with their results.
func Record(row result.Row, results []result.SLOResult) {
	missed, open := false, len(results) == 0
	for _, r := range results {
		delete(row, col.OfSLO(r.Name))
		if r.Verdict != "" {
			row[col.OfSLO(r.Name)] = r.Verdict
		}
		if r.Severity != SeverityWarn {
			missed = missed || r.Verdict == result.SLOFail
			open = open || r.Verdict != result.SLOPass
		}
	}
	delete(row, col.SLOPass)
	if missed || !open {
		row[col.SLOPass] = !missed
	}
}
