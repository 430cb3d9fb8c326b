package plan

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/result"
)

// An axisKind is one entry of the table of axes: what its values are, and what
// they change.
type axisKind struct {
	name    string         // as in the file; of a family its form: args.<argument>
	pattern *regexp.Regexp // of a family's names; nil if there is one name
	column  string         // "" for the name; of a family with $role, $arg, $env
	server  bool           // changes the server, not only the load
	amount  bool           // an amount of load: a plan has one of them at most
	bare    bool           // its values are words that need no name beside them
	doc     string

	// key is the key of the plan that gives all cells one value, in place of the
	// axis, which has its bounds and unit; without one they are in bounds.
	key    string
	bounds fieldtag.Field

	// One of text, count and number is where a cell has the value. A family has
	// none of them: its kind says what its values are.
	text   func(*draft) *string
	count  func(*draft) *int
	number func(*draft) *float64
	kind   valueKind

	role, arg, env string // of a family: the parts of the name
}

// A draft is a cell that its axes are put into.
type draft struct {
	load   Load
	server Server
	gpus   int // the axis gpu_count
	args   map[string]any
	env    map[string]secret.String
	roles  map[string]Role
}

type valueKind uint8

const (
	textValue  valueKind = iota
	countValue           // whole number
	numberValue
	anyValue   // an engine argument: whatever it is
	speltValue // an environment variable: text as it is spelt
)

var (
	flagName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	envName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	roleName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

	argAxis      = regexp.MustCompile(`^args\.(?P<arg>` + inner(flagName) + `)$`)
	envAxis      = regexp.MustCompile(`^env\.(?P<env>` + inner(envName) + `)$`)
	replicasAxis = regexp.MustCompile(`^roles\.(?P<role>` + inner(roleName) + `)\.replicas$`)
	roleArgAxis  = regexp.MustCompile(`^roles\.(?P<role>` + inner(roleName) + `)\.args\.(?P<arg>` + inner(flagName) + `)$`)
)

// inner is an anchored expression without its anchors.
func inner(r *regexp.Regexp) string { return strings.TrimSuffix(r.String()[1:], "$") }

// axisTable lists all axes in the order of the documents, the families last. It
// is the only place that names them: to add an axis is to add an entry.
func axisTable() []axisKind {
	return []axisKind{
		{
			name: "engine", server: true, bare: true, text: func(d *draft) *string { return &d.server.Engine },
			doc: "Engines, each a name of engines or of an engine profile.",
		},
		{
			name: "model", server: true, bare: true, text: func(d *draft) *string { return &d.server.Model },
			doc: "Models to serve.",
		},
		{
			name: "gpu", server: true, bare: true, text: func(d *draft) *string { return &d.server.GPU },
			doc: "GPUs by their names in the catalogue (sweep gpus); a free label on backends that do not choose hardware.",
		},
		{
			name: "gpu_count", server: true, bounds: counted("GPUs", engine.MaxGPUs), count: func(d *draft) *int { return &d.gpus },
			doc: "GPUs of all roles and replicas of a deployment. Needed only where the arguments of the engine do not say it.",
		},
		{
			name: "concurrency", key: "load.concurrency", amount: true, count: func(d *draft) *int { return &d.load.Concurrency },
			doc: "Closed loop: requests in flight at once.",
		},
		{
			name: "request_rate", key: "load.request_rate", amount: true, number: func(d *draft) *float64 { return &d.load.RequestRate },
			doc: "Open loop: requests sent per second.",
		},
		{
			name: "max_tokens", key: "load.max_tokens", count: func(d *draft) *int { return &d.load.MaxTokens },
			doc: "Output tokens of one request at most.",
		},
		{
			// The column input_tokens is what was sent; this is what was meant.
			name: "input_tokens", column: "target_input_tokens", key: "load.prompts.input_tokens", count: func(d *draft) *int { return &d.load.Prompts.InputTokens },
			doc: "Mean length of a synthetic prompt.",
		},
		{
			name: "shared_prefix", key: "load.prompts.shared_prefix", number: func(d *draft) *float64 { return &d.load.Prompts.SharedPrefix },
			doc: "Share of a synthetic prompt that all prompts of a trial begin with.",
		},

		{name: "args.<argument>", pattern: argAxis, column: "arg_$arg", server: true, kind: anyValue, doc: "An argument of the engine."},
		{name: "env.<VARIABLE>", pattern: envAxis, column: "env_$env", server: true, kind: speltValue, doc: "An environment variable of the server."},
		{
			name: "roles.<role>.replicas", pattern: replicasAxis, column: "${role}_replicas", server: true, kind: countValue,
			bounds: counted("servers", engine.MaxReplicas), doc: "How many of one role of the engine are started.",
		},
		{name: "roles.<role>.args.<argument>", pattern: roleArgAxis, column: "${role}_arg_$arg", server: true, kind: anyValue, doc: "An argument of one role of the engine."},
	}
}

func counted(unit string, most float64) fieldtag.Field {
	one := 1.0
	return fieldtag.Field{Min: &one, Max: &most, Unit: unit}
}

// values says what the axis' values are.
func (k axisKind) values() valueKind {
	switch {
	case k.text != nil:
		return textValue
	case k.count != nil:
		return countValue
	case k.number != nil:
		return numberValue
	}
	return k.kind
}

// put puts a value of the axis into a cell.
func (k axisKind) put(d *draft, v Value) {
	switch {
	case k.text != nil:
		*k.text(d) = v.(string)
	case k.count != nil:
		*k.count(d) = int(v.(int64))
	case k.number != nil:
		*k.number(d) = v.(float64)
	case k.role != "":
		d.roles[k.role] = d.roles[k.role].with(k.arg, v)
	case k.env != "":
		d.env[k.env] = secret.Plain(v.(string))
	default:
		d.args[k.arg] = v
	}
}

// of is the value that a load has; nil for none, which is 0, and for an axis of
// the server.
func (k axisKind) of(l Load) Value {
	d := &draft{load: l}
	if k.count != nil && *k.count(d) != 0 {
		return int64(*k.count(d))
	}
	if k.number != nil && *k.number(d) != 0 {
		return *k.number(d)
	}
	return nil
}

// lookupAxis says what an axis of the matrix is; ok is false for no axis.
func lookupAxis(name string) (axisKind, bool) {
	for _, k := range axisTable() {
		switch {
		case k.pattern == nil && k.name == name:
			k.column = cmp.Or(k.column, name)
			return k, true
		case k.pattern != nil && k.pattern.MatchString(name):
			parts := k.pattern.FindStringSubmatch(name)
			part := func(group string) string {
				if i := k.pattern.SubexpIndex(group); i > 0 {
					return parts[i]
				}
				return ""
			}
			k.role, k.arg, k.env = part("role"), part("arg"), part("env")
			k.column = columnName(k.pattern.ReplaceAllString(name, k.column))
			return k, true
		}
	}
	return axisKind{}, false
}

// newAxis is an axis of a matrix; ok is false for no axis.
func newAxis(name string, values ...Value) (a Axis, ok bool) {
	kind, ok := lookupAxis(name)
	return Axis{Name: name, Column: kind.column, Server: kind.server, Amount: kind.amount, Values: values, kind: &kind}, ok
}

// axisNames lists the axes with a fixed name.
func axisNames() []string {
	var names []string
	for _, k := range axisTable() {
		if k.pattern == nil {
			names = append(names, k.name)
		}
	}
	return names
}

// axisForms lists the names of all axes as messages have them, with what else
// may stand in a matrix.
func axisForms(also ...string) []string {
	names := append(axisNames(), also...)
	for _, k := range axisTable() {
		if k.pattern != nil {
			names = append(names, k.name)
		}
	}
	return names
}

// amountAxes lists the axes whose value is an amount of load.
func amountAxes() []string {
	var names []string
	for _, k := range axisTable() {
		if k.amount {
			names = append(names, k.name)
		}
	}
	return names
}

// path is where the value of a load axis stands if it is no axis; nil for others.
func (k axisKind) path() []string {
	if k.key == "" {
		return nil
	}
	return strings.Split(k.key, ".")
}

// field is the bounds, unit and meaning of one value.
func (k axisKind) field() fieldtag.Field {
	f := k.bounds
	t := reflect.TypeFor[Plan]()
	for _, key := range k.path() {
		fields := fieldtag.Of(t)
		f = fields[slices.IndexFunc(fields, func(f fieldtag.Field) bool { return f.Key == key })]
		t = f.Type
	}
	return fieldtag.Field{Min: f.Min, Max: f.Max, Above: f.Above, Below: f.Below, Unit: f.Unit, Doc: k.doc}
}

// columnName makes an identifier of SQL and of expressions.
func columnName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '.' {
			return '_'
		}
		return r
	}, strings.ToLower(s))
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
	c := result.Column{Name: a.Column, Type: result.String, Unit: a.kind.field().Unit, Doc: "Value of the axis " + a.Name + "."}
	switch a.kind.values() {
	case countValue:
		c.Type = result.Int
	case numberValue:
		c.Type = result.Float
	case anyValue:
		if len(a.Values) == 0 {
			return c
		}
		switch a.Values[0].(type) {
		case bool:
			c.Type = result.Bool
		case int64:
			c.Type = result.Int
		case float64:
			c.Type = result.Float
		}
	}
	return c
}

// String is the value in a person's words: L4, concurrency=8.
func (s Setting) String() string {
	if s.Axis.kind.bare {
		return fmt.Sprint(s.Value)
	}
	return fmt.Sprintf("%s=%v", s.Axis.Column, s.Value)
}

// Number is a value as a number; ok is false for another value.
func Number(v Value) (n float64, ok bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// AxisColumns are the values that the cell's row has of the axes: those of the
// matrix, and those that the plan's load gives to all cells where the table has a
// column for them.
func (p *Plan) AxisColumns(c Cell) map[string]Value {
	out := make(map[string]Value)
	columns := p.Columns()
	for _, k := range axisTable() {
		v, column := k.of(c.Load), cmp.Or(k.column, k.name)
		if _, ok := result.Lookup(columns, column); ok && v != nil {
			out[column] = v
		}
	}
	for _, s := range c.Settings {
		out[s.Axis.Column] = s.Value
	}
	return out
}

// An AxisDoc describes an axis for the schema and the documentation.
type AxisDoc struct {
	Name    string // of a family its form: args.<argument>
	Pattern string // of a family's names; "" for no family
	Field   fieldtag.Field
	// Ranges says whether {from, to, factor} may stand for a list; Text and
	// Whole what single values are: text, whole numbers, any scalar otherwise.
	Ranges, Text, Whole, Number bool
}

// Axes describes every axis that a matrix may have.
func Axes() []AxisDoc {
	var out []AxisDoc
	for _, k := range axisTable() {
		values := k.values()
		d := AxisDoc{
			Name: k.name, Field: k.field(),
			Ranges: values != textValue && values != speltValue,
			Text:   values == textValue, Whole: values == countValue, Number: values == numberValue,
		}
		if k.pattern != nil {
			d.Pattern = groupName.ReplaceAllString(k.pattern.String(), "(")
		}
		out = append(out, d)
	}
	return out
}

// groupName is how Go writes the name of a group, which a JSON Schema's patterns
// do not know.
var groupName = regexp.MustCompile(`\(\?P<[a-z]+>`)
