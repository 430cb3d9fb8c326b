package plan

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan/internal/expression"
	"sweep.dev/sweep/plan/internal/file"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// A Check is a compiled objective.
type Check struct {
	expr *expression.Expression
	// means holds the columns that names mean, where that is not themselves: under
	// the plan's slo_window, or as they were called before.
	means map[string]string
}

// column is where the value of a name stands.
func (c *Check) column(name string) string {
	if other, ok := c.means[name]; ok {
		return other
	}
	return name
}

// streamed matches the columns that only a streamed answer has.
var streamed = regexp.MustCompile(`^[a-z0-9]+_(ttft|ttfo|tpot|itl|icl)_ms|^p50_user_tok_s$`)

var sloName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,40}$`)

// SLOKeys is the long form of an objective in a plan.
type SLOKeys struct {
	Expr     string `yaml:"expr" doc:"Expression over the columns of the cells table that must hold." example:"p95_ttft_ms < 200"`
	Severity string `yaml:"severity,omitempty" doc:"Whether a miss fails the run (exit 99) or is only told." default:"fail" enum:"fail,warn"`
}

// slos decodes the objectives of a plan, in the file's order.
func (l *loader) slos(n *syntax.Node) []SLO {
	if n.Kind != syntax.Map {
		d := l.Report.Node(n, "type", "slo takes a mapping of names to expressions, found %s", n.Kind.Name())
		d.Expected = "for example {responsive: p95_ttft_ms < 200}"
		return nil
	}
	var out []SLO
	for _, e := range n.Entries {
		name := e.Key.Text
		if !sloName.MatchString(name) || name == "pass" {
			d := l.Report.Node(e.Key, "value", "%q cannot be the name of an objective", name)
			d.Expected = "small letters, digits and _, because it becomes the column slo_<name>; and not pass"
		}
		s := SLO{Name: name, Severity: SeverityFail}
		where := "slo." + name
		switch e.Value.Kind {
		case syntax.Map:
			spec := SLOKeys{Severity: SeverityFail}
			l.Decode(e.Value, &spec, where)
			if e.Value.Get("expr") == nil {
				l.Report.Node(e.Key, "missing", "%s has no expr", where)
			}
			s.Expr, s.Severity = spec.Expr, spec.Severity
		case syntax.String:
			s.Expr = e.Value.Text
		default:
			d := l.Report.Node(e.Value, "type", "%s takes an expression, found %s", where, e.Value.Kind.Name())
			d.Expected = "for example p95_ttft_ms < 200"
		}
		out = append(out, s)
	}
	return out
}

// sloNode is the expression's place in the file.
func sloNode(f *file.File, name string) *syntax.Node {
	n := f.Root.Get("slo").Get(name)
	if n != nil && n.Kind == syntax.Map {
		return n.Get("expr")
	}
	return n
}

// means says which columns names mean, where that is not themselves.
func (p *Plan) means(names []string) map[string]string {
	out := make(map[string]string)
	for _, c := range p.columns {
		if c.Before != "" && slices.Contains(names, c.Before) {
			out[c.Before] = c.Name
		}
	}
	if p.SLOWindow != WindowPlateau {
		return out
	}
	for _, name := range names {
		if _, ok := result.Lookup(p.columns, name+col.PlateauSuffix); ok {
			out[name] = name + col.PlateauSuffix
		}
	}
	return out
}

// Evaluate holds the objective against a row. A column that is nil or absent
// makes an error, never a pass. Values holds what the expression read, by the
// names of the columns.
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
		column := s.check.column(name)
		v := row[column]
		out.Values[column] = v
		switch n := v.(type) {
		case nil:
			if why := row.WhyNull(column); why != "" {
				column += " (" + why + ")"
			}
			missing = append(missing, column)
		case int64:
			v = float64(n)
		case int:
			v = float64(n)
		case time.Time:
			missing = append(missing, column)
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
