package plan

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/plan/internal/strict"
	"sweep.dev/sweep/plan/internal/syntax"
	"sweep.dev/sweep/result"
)

// An axisKind says what values an axis takes.
type axisKind struct {
	column string // "" for the axis' own name
	server bool
	kind   valueKind
	field  fieldtag.Field // bounds and unit
	typ    result.Type
}

type valueKind uint8

const (
	textValue  valueKind = iota
	countValue           // whole number
	numberValue
	anyValue   // an engine argument: whatever it is
	speltValue // an environment variable: text as it is spelt
)

// axisNames lists the axes with a fixed name, in the order of the documents.
func axisNames() []string {
	return []string{"engine", "model", "gpu", "gpu_count", "concurrency", "request_rate", "max_tokens", "input_tokens", "shared_prefix"}
}

// lookupAxis says what an axis of the matrix is; ok is false for no axis.
func lookupAxis(name string) (axisKind, bool) {
	one := 1.0
	count := func(unit string, most float64, doc string) fieldtag.Field {
		return fieldtag.Field{Min: &one, Max: &most, Unit: unit, Doc: doc}
	}
	text := func(doc string) axisKind {
		return axisKind{server: true, kind: textValue, field: fieldtag.Field{Doc: doc}, typ: result.String}
	}
	switch name {
	case "engine":
		return text("Engines, each a name of engines or of an engine profile."), true
	case "model":
		return text("Models to serve."), true
	case "gpu":
		return text("GPUs by their names in the catalogue (sweep gpus); a free label on backends that do not choose hardware."), true
	case "gpu_count":
		return axisKind{server: true, kind: countValue, field: count("GPUs", 4096, "GPUs of one server."), typ: result.Int}, true
	case "concurrency":
		return axisKind{kind: countValue, field: count("requests", 100_000, "Closed loop: requests in flight at once."), typ: result.Int}, true
	case "max_tokens":
		return axisKind{kind: countValue, field: count("tokens", 10_000_000, "Output tokens of one request at most."), typ: result.Int}, true
	case "input_tokens":
		// The column input_tokens is what was sent; this is what was meant.
		return axisKind{column: "target_input_tokens", kind: countValue, field: count("tokens", 10_000_000, "Mean length of a synthetic prompt."), typ: result.Int}, true
	case "request_rate":
		zero, most := 0.0, 1e6
		return axisKind{kind: numberValue, field: fieldtag.Field{Above: &zero, Max: &most, Unit: "requests/s", Doc: "Open loop: requests sent per second."}, typ: result.Float}, true
	case "shared_prefix":
		zero := 0.0
		return axisKind{kind: numberValue, field: fieldtag.Field{Min: &zero, Max: &one, Unit: "ratio", Doc: "Share of a synthetic prompt that all prompts of a trial begin with."}, typ: result.Float}, true
	}
	if arg, ok := strings.CutPrefix(name, "args."); ok && flagName.MatchString(arg) {
		return axisKind{column: "arg_" + columnName(arg), server: true, kind: anyValue, field: fieldtag.Field{Doc: "An argument of the engine."}}, true
	}
	if env, ok := strings.CutPrefix(name, "env."); ok && envName.MatchString(env) {
		return axisKind{column: "env_" + columnName(env), server: true, kind: speltValue, field: fieldtag.Field{Doc: "An environment variable of the server."}, typ: result.String}, true
	}
	return axisKind{}, false
}

var (
	flagName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	envName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// columnName makes an identifier of SQL and of expressions.
func columnName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '.' {
			return '_'
		}
		return r
	}, strings.ToLower(s))
}

// matrix decodes the matrix of a plan.
func (l *loader) matrix(n *syntax.Node) Matrix {
	var m Matrix
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
		kind, ok := lookupAxis(name)
		if !ok {
			l.unknownAxis(e.Key)
			continue
		}
		a := Axis{Name: name, Column: kind.column, Server: kind.server}
		if a.Column == "" {
			a.Column = name
		}
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
	if inc := n.Get("include"); inc != nil {
		l.include(&m, inc)
	}
	return m
}

func (l *loader) unknownAxis(key *syntax.Node) {
	names := append(axisNames(), "zip", "include", "exclude")
	d := l.Report.Node(key, "unknown-axis", "%q is not an axis", key.Text)
	d.Expected = strict.OneOf(append(names, "args.<argument>", "env.<VARIABLE>"))
	d.Nearest = syntax.Nearest(key.Text, names)
	if prefix, rest, ok := strings.Cut(key.Text, "."); ok && d.Nearest == "" {
		switch prefix {
		case "args", "env":
			d.Hint = fmt.Sprintf("%q cannot be the name of an argument or variable", rest)
		default:
			d.Hint = "axes that reach the engine begin with args. or env."
		}
	} else if d.Nearest == "" {
		d.Hint = l.Elsewhere(key.Text)
	}
}

// axisValues decodes a list, a range or a single value.
func (l *loader) axisValues(n *syntax.Node, kind axisKind, where string) []Value {
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
	var out []Value
	var good []*syntax.Node
	for _, item := range items {
		if v, ok := l.axisValue(item, kind, where); ok {
			out, good = append(out, v), append(good, item)
		}
	}
	if kind.kind == anyValue {
		out = l.unify(good, out, where)
	}
	seen := make(map[Value]bool)
	for i, v := range out {
		if seen[v] {
			l.Report.Node(good[i], "duplicate", "%s has the value %v twice", where, v)
		}
		seen[v] = true
	}
	return out
}

// axisValue decodes one value of an axis.
func (l *loader) axisValue(n *syntax.Node, kind axisKind, where string) (Value, bool) {
	if n.Kind == syntax.String && strings.Contains(n.Text, "${") {
		d := l.Report.Node(n, "variable", "values of axes are written out in every row: no variables here")
		d.Hint = "use --set " + where + "=[...]"
		return nil, false
	}
	switch kind.kind {
	case countValue:
		v, ok := l.Int(n, kind.field, where)
		return v, ok
	case numberValue:
		v, ok := l.Float(n, kind.field, where)
		return v, ok
	case textValue:
		v, ok := l.Text(n, kind.field, where)
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
	if kind.kind == speltValue {
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
func (l *loader) unify(items []*syntax.Node, values []Value, where string) []Value {
	types := make(map[string]int)
	for _, v := range values {
		types[fmt.Sprintf("%T", v)]++
	}
	if len(types) < 2 {
		return values
	}
	if len(types) == 2 && types["int64"] > 0 && types["float64"] > 0 {
		out := make([]Value, len(values))
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

// axisRange decodes {from, to, factor} and {from, to, step}.
func (l *loader) axisRange(n *syntax.Node, kind axisKind, where string) []Value {
	if kind.kind == textValue || kind.kind == speltValue {
		l.Report.Node(n, "range", "%s is text and has no ranges", where)
		return nil
	}
	var from, to, factor, step float64
	whole, ok := true, true
	number := func(key string, into *float64, f fieldtag.Field) {
		v := n.Get(key)
		if v == nil {
			return
		}
		if v.Kind == syntax.Float || kind.kind == numberValue {
			whole = false
		}
		switch {
		case f.Unit == "tokens" && v.Kind != syntax.Float:
			i, good := l.Int(v, f, where+"."+key)
			*into, ok = float64(i), ok && good
		default:
			x, good := l.Float(v, f, where+"."+key)
			*into, ok = x, ok && good
		}
	}
	for _, e := range n.Entries {
		switch e.Key.Text {
		case "from", "to", "factor", "step":
		default:
			l.Unknown(e.Key, []string{"from", "to", "factor", "step"}, where)
			ok = false
		}
	}
	for _, key := range []string{"from", "to"} {
		if n.Get(key) == nil {
			l.Report.Node(n, "range", "the range of %s has no %s", where, key).Expected = "{from: 1, to: 64, factor: 2} or {from: 8, to: 64, step: 8}"
			ok = false
		}
	}
	zero, one := 0.0, 1.0
	number("from", &from, kind.field)
	number("to", &to, kind.field)
	number("factor", &factor, fieldtag.Field{Above: &one})
	number("step", &step, fieldtag.Field{Above: &zero, Unit: kind.field.Unit})
	if (n.Get("factor") == nil) == (n.Get("step") == nil) {
		l.Report.Node(n, "range", "the range of %s needs exactly one of factor and step", where).Expected = "{from: 1, to: 64, factor: 2} or {from: 8, to: 64, step: 8}"
		ok = false
	}
	if !ok {
		return nil
	}
	switch {
	case to < from:
		l.Report.Node(n, "range", "the range of %s ends before it begins", where).Hint = "ranges go up; list the values for another order"
		return nil
	case factor > 0 && from <= 0:
		l.Report.Node(n, "range", "the range of %s multiplies %v and never gets anywhere", where, from)
		return nil
	case kind.kind == countValue && !whole:
		l.Report.Node(n, "range", "%s takes whole numbers, and this range has others", where)
		return nil
	}
	// Each value is computed from its index, not from the one before: sums of
	// 0.1 drift.
	var out []Value
	for i := 0; ; i++ {
		x := from + float64(i)*step
		if factor > 0 {
			x = from * math.Pow(factor, float64(i))
		}
		if x > to*(1+1e-9) {
			return out
		}
		if i > DefaultMaxCells {
			l.Report.Node(n, "too-many-cells", "the range of %s has more than %d values", where, DefaultMaxCells)
			return nil
		}
		if whole {
			out = append(out, int64(math.Round(x)))
		} else {
			out = append(out, clean(x))
		}
	}
}

// clean drops the noise of a computed decimal: 0.30000000000000004 is 0.3.
func clean(x float64) float64 {
	scale := math.Pow(10, 12-math.Ceil(math.Log10(max(math.Abs(x), 1e-12))))
	if r := math.Round(x*scale) / scale; !math.IsInf(scale, 0) && !math.IsNaN(r) {
		return r
	}
	return x
}

// include decodes the cells that are added to the product.
func (l *loader) include(m *Matrix, n *syntax.Node) {
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
		values := make(map[string]Value)
		for _, e := range item.Entries {
			kind, ok := lookupAxis(e.Key.Text)
			if axis := m.axis(e.Key.Text); !ok || axis == nil && e.Key.Text != "engine" {
				d := l.Report.Node(e.Key, "unknown-axis", "%q is no axis of this matrix", e.Key.Text)
				d.Expected = strict.OneOf(m.names())
				d.Nearest = syntax.Nearest(e.Key.Text, m.names())
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
		l.included = append(l.included, item)
	}
}

func (m *Matrix) axis(name string) *Axis {
	for i := range m.Axes {
		if m.Axes[i].Name == name {
			return &m.Axes[i]
		}
	}
	return nil
}

func (m *Matrix) names() []string {
	names := make([]string, 0, len(m.Axes))
	for _, a := range m.Axes {
		names = append(names, a.Name)
	}
	return names
}

// column describes the axis for the registry.
func (a Axis) column() result.Column {
	kind, _ := lookupAxis(a.Name)
	c := result.Column{Name: a.Column, Type: kind.typ, Unit: kind.field.Unit, Doc: "Value of the axis " + a.Name + "."}
	if kind.kind == anyValue && len(a.Values) > 0 {
		switch a.Values[0].(type) {
		case bool:
			c.Type = result.Bool
		case int64:
			c.Type = result.Int
		case float64:
			c.Type = result.Float
		default:
			c.Type = result.String
		}
	}
	return c
}

// An AxisDoc describes an axis for the schema and the documentation.
type AxisDoc struct {
	Name    string // "" for a family of axes
	Pattern string // of a family's names: args.*, env.*
	Field   fieldtag.Field
	// Ranges says whether {from, to, factor} may stand for a list; Text and
	// Whole what single values are: text, whole numbers, any scalar otherwise.
	Ranges, Text, Whole, Number bool
}

// Axes describes every axis that a matrix may have.
func Axes() []AxisDoc {
	var out []AxisDoc
	for _, name := range append(axisNames(), "args.x", "env.X") {
		kind, _ := lookupAxis(name)
		d := AxisDoc{
			Name: name, Field: kind.field,
			Ranges: kind.kind != textValue && kind.kind != speltValue,
			Text:   kind.kind == textValue, Whole: kind.kind == countValue, Number: kind.kind == numberValue,
		}
		switch name {
		case "args.x":
			d.Name, d.Pattern = "", `^args\.`+flagName.String()[1:]
		case "env.X":
			d.Name, d.Pattern = "", `^env\.`+envName.String()[1:]
		}
		out = append(out, d)
	}
	return out
}
