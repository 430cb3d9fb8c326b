package planfile

import (
	"regexp"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
)

var sloName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,40}$`)

// slos decodes the objectives of a plan, in the file's order; section is where they stand.
func (l *loader) slos(n *syntax.Node, section string) []plan.SLO {
	if n.Kind != syntax.Map {
		d := l.Report.Node(n, "type", "%s takes a mapping of names to expressions, found %s", section, n.Kind.Name())
		d.Expected = "for example {responsive: p95_ttft_ms < 200}"
		return nil
	}
	var out []plan.SLO
	for _, e := range n.Entries {
		name := e.Key.Text
		if !sloName.MatchString(name) || name == "pass" {
			d := l.Report.Node(e.Key, "value", "%q cannot be the name of an objective", name)
			d.Expected = "small letters, digits and _, because it becomes the column slo_<name>; and not pass"
		}
		s := plan.SLO{Name: name, Severity: plan.SeverityFail, Line: e.Key.Line, Column: e.Key.Col}
		where := section + "." + name
		switch e.Value.Kind {
		case syntax.Map:
			spec := plan.SLOKeys{Severity: plan.SeverityFail}
			l.Decode(e.Value, &spec, where)
			if e.Value.Get("expr") == nil {
				l.Report.Node(e.Key, "missing", "%s has no expr", where)
			}
			s.Expr, s.Severity, s.Loads = spec.Expr, spec.Severity, spec.Loads
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
