package planfile

import (
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/plan/internal/strict"
	"sweep.dev/sweep/result/meant"
)

// matrix decodes the matrix of a plan.
func (l *loader) matrix(n *syntax.Node) plan.Matrix {
	var m plan.Matrix
	if n.Kind != syntax.Map {
		d := l.Report.Node(n, "type", "matrix takes a mapping, found %s", n.Kind.Name())
		d.Expected = "axes, like concurrency: [1, 4, 16]"
		return m
	}
	columns := make(map[string]string)
	for _, e := range n.Entries {
		name := e.Key.Text
		switch name {
		case "zip":
			l.Decode(e.Value, &m.Zip, "matrix.zip")
			continue
		case "exclude":
			l.Decode(e.Value, &m.Exclude, "matrix.exclude")
			continue
		case "include":
			continue // needs the axes
		}
		kind, ok := axes.Lookup(name)
		if !ok {
			l.unknownAxis(e.Key)
			continue
		}
		a := kind.Axis(name)
		if other, ok := columns[a.Column]; ok {
			l.Report.Node(e.Key, "duplicate", "the axes %s and %s share the column %s", other, name, a.Column)
			continue
		}
		columns[a.Column] = name
		a.Values = l.axisValues(e.Value, kind, "matrix."+name)
		if len(a.Values) > 0 {
			m.Axes = append(m.Axes, a)
		}
	}
	if inc := n.Get("include"); inc != nil && !l.file.Has("loads") { // of several loads each has its own
		l.include(&m, inc)
	}
	return m
}

func (l *loader) unknownAxis(key *syntax.Node) {
	names := append(axes.Names(), "zip", "include", "exclude")
	d := l.Report.Node(key, "unknown-axis", "%q is not an axis", key.Text)
	d.Expected = strict.OneOf(axes.Forms("zip", "include", "exclude"))
	prefix, rest, dotted := strings.Cut(key.Text, ".")
	switch d.Nearest, d.Hint = l.axisMeant(key.Text, names); {
	case key.Text == plan.LoadAxis:
		d.Nearest, d.Hint = "", "each load of loads is run; take one away with exclude or --only"
	case d.Nearest != "":
		l.Mistake("matrix." + d.Nearest)
	case !dotted:
	case prefix == "args" || prefix == "env":
		d.Hint = fmt.Sprintf("%q cannot be the name of an argument or variable", rest)
	case prefix == "roles":
		d.Hint = "of a role there are the axes roles.<role>.replicas and roles.<role>.args.<argument>"
	default:
		d.Hint = "axes that reach the engine begin with args., env., roles. or manifest."
	}
}

// axisMeant returns the axis that an unknown one most likely stands for: a kind of
// parallelism or another argument of the plan's engines, a word for an axis, or
// what is spelt alike. Of a key of another section it is a hint.
func (l *loader) axisMeant(name string, names []string) (axis, hint string) {
	if kind := meant.Parallelism(name); kind != "" {
		if axis = l.argAxis(func(p *engine.Profile) string { return p.SizeArg(kind) }); axis != "" {
			return axis, "gpu_count says how many GPUs there are where no argument of the engine does"
		}
		return "gpu_count", "no engine of the plan has an argument for this"
	}
	path := meant.Setting(name)
	if last := path[strings.LastIndexByte(path, '.')+1:]; slices.Contains(names, last) {
		return last, ""
	}
	if axis = l.argAxis(func(p *engine.Profile) string {
		if !p.Known(name) {
			return ""
		}
		return p.FlagName(name)
	}); axis != "" {
		return axis, ""
	}
	if near := syntax.Nearest(name, names); near != "" {
		return near, ""
	}
	if path == "" {
		path, _ = l.Elsewhere(name)
	}
	if path != "" {
		return "", path + " is the same for all cells, and no axis"
	}
	return "", ""
}

// argAxis returns the axis of the argument that arg gives for the first engine of the
// plan that has one; of any engine, if the plan names none that is known.
func (l *loader) argAxis(arg func(*engine.Profile) string) string {
	var profiles []*engine.Profile
	for _, n := range l.file.Values("engine") {
		name := n.Text
		if other := l.file.Root.Get("engines").Get(name).Get("profile"); other != nil {
			name = other.Text
		}
		if p, ok := l.profile(name); ok {
			profiles = append(profiles, p)
		}
	}
	if len(profiles) == 0 {
		for _, name := range l.profileNames() {
			p, _ := l.profile(name)
			profiles = append(profiles, p)
		}
	}
	for _, p := range profiles {
		if name := arg(p); name != "" {
			return "args." + name
		}
	}
	return ""
}

// axisValues decodes a list, a range or a single value.
func (l *loader) axisValues(n *syntax.Node, kind axes.Kind, where string) []plan.Value {
	items := n.Items
	switch n.Kind {
	case syntax.Map:
		return l.axisRange(n, kind, where)
	case syntax.List:
		if len(items) == 0 {
			l.Report.Node(n, "value", "%s has no values", where)
			return nil
		}
	case syntax.Null:
		d := l.Report.Node(n, "type", "%s has no values", where)
		d.Expected = "a list, a range like {from: 1, to: 64, factor: 2}, or one value"
		return nil
	default:
		items = []*syntax.Node{n}
	}
	var out []plan.Value
	var good []*syntax.Node
	for _, item := range items {
		if v, ok := l.axisValue(item, kind, where); ok {
			out, good = append(out, v), append(good, item)
		}
	}
	if kind.Values() == axes.Any {
		out = l.unify(good, out, where)
	}
	seen := make(map[plan.Value]bool)
	for i, v := range out {
		if seen[v] {
			l.Report.Node(good[i], "duplicate", "%s has the value %v twice", where, v)
		}
		seen[v] = true
	}
	return out
}

// axisValue decodes one value of an axis.
func (l *loader) axisValue(n *syntax.Node, kind axes.Kind, where string) (plan.Value, bool) {
	if n.Kind == syntax.String && strings.Contains(n.Text, "${") {
		d := l.Report.Node(n, "variable", "values of axes are written out in every row: no variables here")
		d.Hint = "use --set " + where + "=[...]"
		return nil, false
	}
	switch kind.Values() {
	case axes.Count:
		v, ok := l.Int(n, kind.Field(), where)
		return v, ok
	case axes.Number:
		v, ok := l.Float(n, kind.Field(), where)
		return v, ok
	case axes.Text:
		v, ok := l.Text(n, kind.Field(), where)
		return v, ok
	}
	switch n.Kind {
	case syntax.List, syntax.Map, syntax.Null:
		d := l.Report.Node(n, "type", "%s takes single values, found %s", where, n.Kind.Name())
		if n.Kind != syntax.Null {
			d.Hint = "give each value a name of its own under engines, and vary engine"
		}
		return nil, false
	}
	if kind.Values() == axes.Spelt {
		if name := strings.TrimPrefix(where, "matrix.env."); strict.LooksSecret(name) {
			l.Report.Node(n, "secret", "%s looks like a credential, and values of axes are written out in every row", where)
			return nil, false
		}
		if n.Text == "" {
			l.Report.Node(n, "value", "%s has an empty value", where)
			return nil, false
		}
		return n.Text, true
	}
	v := l.Natural(n, where)
	if s, ok := v.(string); ok && s == "" {
		return nil, false // reported
	}
	return v, true
}

// unify makes the values of an engine argument one type: they are one column.
func (l *loader) unify(items []*syntax.Node, values []plan.Value, where string) []plan.Value {
	types := make(map[string]int)
	for _, v := range values {
		types[fmt.Sprintf("%T", v)]++
	}
	if len(types) < 2 {
		return values
	}
	if len(types) == 2 && types["int64"] > 0 && types["float64"] > 0 {
		out := make([]plan.Value, len(values))
		for i, v := range values {
			if n, ok := v.(int64); ok {
				v = float64(n)
			}
			out[i] = v
		}
		return out
	}
	first := items[0]
	for _, item := range items {
		if item.Kind != first.Kind {
			d := l.Report.Node(item, "type", "%s mixes %s and %s", where, first.Kind.Name(), item.Kind.Name())
			d.Hint = "the values of an axis are one column; write them all in quotes to make them text"
			break
		}
	}
	return values
}

// include decodes the cells that are added to the product.
func (l *loader) include(m *plan.Matrix, n *syntax.Node) {
	if n.Kind != syntax.List {
		l.Report.Node(n, "type", "matrix.include takes a list of mappings, found %s", n.Kind.Name())
		return
	}
	for i, item := range n.Items {
		where := fmt.Sprintf("matrix.include[%d]", i)
		if item.Kind != syntax.Map {
			l.Report.Node(item, "type", "%s takes a mapping of axes to values, found %s", where, item.Kind.Name())
			continue
		}
		values := make(map[string]plan.Value)
		for _, e := range item.Entries {
			kind, ok := axes.Lookup(e.Key.Text)
			if axis := m.Axis(e.Key.Text); !ok || axis == nil && e.Key.Text != "engine" {
				d := l.Report.Node(e.Key, "unknown-axis", "%q is no axis of this matrix", e.Key.Text)
				d.Expected = strict.OneOf(m.Names())
				d.Nearest = syntax.Nearest(e.Key.Text, m.Names())
				continue
			}
			if v, ok := l.axisValue(e.Value, kind, where+"."+e.Key.Text); ok {
				values[e.Key.Text] = v
			}
		}
		for _, a := range m.Axes {
			if _, ok := item.At(a.Name); ok {
				continue
			}
			if len(a.Values) != 1 {
				l.Report.Node(item, "missing", "%s does not say which %s", where, a.Name)
				continue
			}
			values[a.Name] = a.Values[0]
		}
		m.Include = append(m.Include, values)
	}
}
