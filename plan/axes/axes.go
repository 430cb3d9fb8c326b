// Package axes is the table of the axes that may vary between the cells of a plan: the
// values of each, and where a cell has them.
package axes

import (
	"cmp"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
)

// A Kind is one entry of the table of axes: what its values are, and what
// they change.
type Kind struct {
	name    string         // as in the file; of a family its form: args.<argument>
	pattern *regexp.Regexp // of a family's names; nil if there is one name
	column  string         // "" for the name; of a family with $role, $arg, $env
	short   string         // what a person may write for it on a command line; "" for nothing
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
	text   func(*Draft) *string
	count  func(*Draft) *int
	number func(*Draft) *float64
	kind   Values

	// Role, Arg, Env and Manifest are of a family the parts of the name.
	Role, Arg, Env, Manifest string
}

// A Draft is a cell that its axes are put into.
type Draft struct {
	Load   plan.Load
	Server plan.Server
	GPUs   int // the axis gpu_count
	Args   map[string]any
	Env    map[string]secret.String
	Roles  map[string]plan.Role
	// Manifest is the values of places in manifests, by their paths.
	Manifest map[string]any
}

// Values says what the values of an axis are.
type Values uint8

// The kinds of values of an axis.
const (
	Text   Values = iota
	Count         // whole numbers
	Number        // any numbers
	Any           // an engine argument: whatever it is
	Spelt         // an environment variable: text as it is spelt
)

var (
	flagName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	envName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	roleName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

	argAxis      = regexp.MustCompile(`^args\.(?P<arg>` + inner(flagName) + `)$`)
	envAxis      = regexp.MustCompile(`^env\.(?P<env>` + inner(envName) + `)$`)
	replicasAxis = regexp.MustCompile(`^roles\.(?P<role>` + inner(roleName) + `)\.replicas$`)
	manifestAxis = regexp.MustCompile(`^manifest\.(?P<path>[A-Za-z][^\s]{0,250})$`)
	roleArgAxis  = regexp.MustCompile(`^roles\.(?P<role>` + inner(roleName) + `)\.args\.(?P<arg>` + inner(flagName) + `)$`)
)

// IsArgument reports whether an argument of an engine, or an engine, may have a name.
func IsArgument(name string) bool { return flagName.MatchString(name) }

// IsVariable reports whether a variable of the environment may have a name.
func IsVariable(name string) bool { return envName.MatchString(name) }

// inner returns an anchored expression without its anchors.
func inner(r *regexp.Regexp) string { return strings.TrimSuffix(r.String()[1:], "$") }

// table lists all axes in the order of the documents, the families last. It
// is the only place that names them: to add an axis is to add an entry.
func table() []Kind {
	return []Kind{
		{
			name: "engine", server: true, bare: true, text: func(d *Draft) *string { return &d.Server.Engine },
			doc: "Engines, each a name of engines or of an engine profile.",
		},
		{
			name: "model", server: true, bare: true, text: func(d *Draft) *string { return &d.Server.Model },
			doc: "Models to serve.",
		},
		{
			name: "gpu", server: true, bare: true, text: func(d *Draft) *string { return &d.Server.GPU },
			doc: "GPUs by their names in the catalogue (sweep list gpus); a free label on backends that do not choose hardware.",
		},
		{
			name: "gpu_count", short: "gpus", server: true, bounds: counted("GPUs", engine.MaxGPUs), count: func(d *Draft) *int { return &d.GPUs },
			doc: "GPUs of all roles and replicas of a deployment. Needed only where the arguments of the engine do not say it.",
		},
		{
			name: "concurrency", short: "c", key: "load.concurrency", amount: true, count: func(d *Draft) *int { return &d.Load.Concurrency },
			doc: "Closed loop: requests in flight at once.",
		},
		{
			name: "request_rate", short: "rate", key: "load.request_rate", amount: true, number: func(d *Draft) *float64 { return &d.Load.RequestRate },
			doc: "Open loop: requests sent per second.",
		},
		{
			name: "max_tokens", short: "out", key: "load.max_tokens", count: func(d *Draft) *int { return &d.Load.MaxTokens },
			doc: "Output tokens of one request at most.",
		},
		{
			// The column input_tokens is what was sent; this is what was meant.
			name: "input_tokens", short: "in", column: "target_input_tokens", key: "load.prompts.input_tokens", count: func(d *Draft) *int { return &d.Load.Prompts.InputTokens },
			doc: "Mean length of a synthetic prompt.",
		},
		{
			name: "shared_prefix", short: "prefix", key: "load.prompts.shared_prefix", number: func(d *Draft) *float64 { return &d.Load.Prompts.SharedPrefix },
			doc: "Share of a synthetic prompt that all prompts of a trial begin with.",
		},
		{
			name: "burstiness", short: "burst", key: "load.burstiness", number: func(d *Draft) *float64 { return &d.Load.Burstiness },
			doc: "Shape of gamma arrivals: 1 is Poisson, 0.25 sends the same requests in bursts.",
		},

		{name: "args.<argument>", pattern: argAxis, column: "arg_$arg", server: true, kind: Any, doc: "An argument of the engine."},
		{name: "env.<VARIABLE>", pattern: envAxis, column: "env_$env", server: true, kind: Spelt, doc: "An environment variable of the server."},
		{
			name: "roles.<role>.replicas", pattern: replicasAxis, column: "${role}_replicas", server: true, kind: Count,
			bounds: counted("servers", engine.MaxReplicas), doc: "How many of one role of the engine are started.",
		},
		{name: "roles.<role>.args.<argument>", pattern: roleArgAxis, column: "${role}_arg_$arg", server: true, kind: Any, doc: "An argument of one role of the engine."},
		{
			name: "manifest.<path>", pattern: manifestAxis, column: "manifest_$path", server: true, kind: Any,
			doc: "A value in the manifests of the backend: manifest.spec.replicas, or manifest.KIND/NAME.spec.replicas if there are several objects.",
		},
	}
}

func counted(unit string, most float64) fieldtag.Field {
	one := 1.0
	return fieldtag.Field{Min: &one, Max: &most, Unit: unit}
}

// Values says what the axis' values are.
func (k Kind) Values() Values {
	switch {
	case k.text != nil:
		return Text
	case k.count != nil:
		return Count
	case k.number != nil:
		return Number
	}
	return k.kind
}

// Put puts a value of the axis into a cell.
func (k Kind) Put(d *Draft, v plan.Value) {
	switch {
	case k.text != nil:
		*k.text(d) = v.(string)
	case k.count != nil:
		*k.count(d) = int(v.(int64))
	case k.number != nil:
		*k.number(d) = v.(float64)
	case k.Manifest != "":
		d.Manifest[k.Manifest] = v
	case k.Role != "":
		d.Roles[k.Role] = with(d.Roles[k.Role], k.Arg, v)
	case k.Env != "":
		d.Env[k.Env] = secret.Plain(v.(string))
	default:
		d.Args[k.Arg] = v
	}
}

// with returns a role with another value of an argument, or without one, of replicas.
func with(r plan.Role, arg string, v plan.Value) plan.Role {
	if arg == "" {
		r.Replicas = int(v.(int64))
		return r
	}
	r.Args = maps.Clone(r.Args)
	if r.Args == nil {
		r.Args = make(map[string]any)
	}
	r.Args[arg] = v
	return r
}

// of returns the value that a load has; nil for none, which is 0, and for an axis of
// the server.
func (k Kind) of(l plan.Load) plan.Value {
	d := &Draft{Load: l}
	if k.count != nil && *k.count(d) != 0 {
		return int64(*k.count(d))
	}
	if k.number != nil && *k.number(d) != 0 {
		return *k.number(d)
	}
	return nil
}

// Lookup says what an axis of the matrix is; ok is false for no axis.
func Lookup(name string) (Kind, bool) {
	for _, k := range table() {
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
			k.Role, k.Arg, k.Env, k.Manifest = part("role"), part("arg"), part("env"), part("path")
			k.column = columnName(k.pattern.ReplaceAllString(name, k.column))
			return k, true
		}
	}
	return Kind{}, false
}

// Column returns the column of the cells table that has the axis' values.
func (k Kind) Column() string { return k.column }

// Short returns the column of the axis that a short form stands for: concurrency for c.
// ok is false for no short form.
func Short(form string) (column string, ok bool) {
	for _, k := range table() {
		if k.short != "" && k.short == form {
			return cmp.Or(k.column, k.name), true
		}
	}
	return "", false
}

// Shorts returns the axes that have a short form, each by its name, with the form.
func Shorts() (names, forms []string) {
	for _, k := range table() {
		if k.short != "" {
			names, forms = append(names, k.name), append(forms, k.short)
		}
	}
	return names, forms
}

// Bare reports whether the values of the axis with a column are words that need no name
// beside them.
func Bare(column string) bool {
	return column == plan.LoadAxis || slices.ContainsFunc(table(), func(k Kind) bool { return k.bare && cmp.Or(k.column, k.name) == column })
}

// Axis returns the axis of a matrix by its name in the file.
func (k Kind) Axis(name string, values ...plan.Value) plan.Axis {
	return plan.Axis{
		Name: name, Column: k.column, Unit: k.Field().Unit,
		Server: k.server, Amount: k.amount, Bare: k.bare, Family: k.pattern != nil, Values: values,
	}
}

// Names lists the axes with a fixed name.
func Names() []string {
	var names []string
	for _, k := range table() {
		if k.pattern == nil {
			names = append(names, k.name)
		}
	}
	return names
}

// Forms lists the names of all axes as messages have them, with what else
// may stand in a matrix.
func Forms(also ...string) []string {
	names := append(Names(), also...)
	for _, k := range table() {
		if k.pattern != nil {
			names = append(names, k.name)
		}
	}
	return names
}

// Amounts lists the axes whose value is an amount of load.
func Amounts() []string {
	var names []string
	for _, k := range table() {
		if k.amount {
			names = append(names, k.name)
		}
	}
	return names
}

// Path returns where the value of a load axis stands if it is no axis; nil for others.
func (k Kind) Path() []string {
	if k.key == "" {
		return nil
	}
	return strings.Split(k.key, ".")
}

// Path returns where a load axis stands if it is no axis; nil for others.
func Path(axis string) []string {
	kind, _ := Lookup(axis)
	return kind.Path()
}

// Field returns the bounds, unit and meaning of one value.
func (k Kind) Field() fieldtag.Field {
	f := k.bounds
	t := reflect.TypeFor[plan.Plan]()
	for _, key := range k.Path() {
		fields := fieldtag.Of(t)
		f = fields[slices.IndexFunc(fields, func(f fieldtag.Field) bool { return f.Key == key })]
		t = f.Type
	}
	return fieldtag.Field{Min: f.Min, Max: f.Max, Above: f.Above, Below: f.Below, Unit: f.Unit, Doc: k.doc}
}

// columnName makes an identifier of SQL and of expressions.
func columnName(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ']' || r == '"':
			return -1
		case r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
			return r
		}
		return '_'
	}, strings.ToLower(s))
}

// Columns returns the values that the cell's row has of the axes: those of the
// matrix, and those that the plan's load gives to all cells where the table has a
// column for them.
func Columns(p *plan.Plan, c plan.Cell) map[string]plan.Value {
	out := make(map[string]plan.Value)
	columns := p.Columns()
	for _, k := range table() {
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

// A Doc describes an axis for the schema and the documentation.
type Doc struct {
	Name    string // of a family its form: args.<argument>
	Pattern string // of a family's names; "" for no family
	Field   fieldtag.Field
	// Ranges says whether {from, to, factor} may stand for a list; Text and
	// Whole what single values are: text, whole numbers, any scalar otherwise.
	Ranges, Text, Whole, Number bool
}

// Docs describes every axis that a matrix may have.
func Docs() []Doc {
	var out []Doc
	for _, k := range table() {
		values := k.Values()
		d := Doc{
			Name: k.name, Field: k.Field(),
			Ranges: values != Text && values != Spelt,
			Text:   values == Text, Whole: values == Count, Number: values == Number,
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
