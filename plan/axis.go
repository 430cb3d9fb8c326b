package plan

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/fieldtag"
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
	count := func(unit string, most float64, doc string) fieldtag.Field {
		one := 1.0
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
		return axisKind{server: true, kind: countValue, field: count("GPUs", engine.MaxGPUs, "GPUs of all roles and replicas of a deployment. Needed only where the arguments of the engine do not say it."), typ: result.Int}, true
	case "concurrency":
		return axisKind{kind: countValue, field: inPlaceOf[Load]("concurrency", "Closed loop: requests in flight at once."), typ: result.Int}, true
	case "max_tokens":
		return axisKind{kind: countValue, field: inPlaceOf[Load]("max_tokens", "Output tokens of one request at most."), typ: result.Int}, true
	case "input_tokens":
		// The column input_tokens is what was sent; this is what was meant.
		return axisKind{column: "target_input_tokens", kind: countValue, field: inPlaceOf[Prompts]("input_tokens", "Mean length of a synthetic prompt."), typ: result.Int}, true
	case "request_rate":
		return axisKind{kind: numberValue, field: inPlaceOf[Load]("request_rate", "Open loop: requests sent per second."), typ: result.Float}, true
	case "shared_prefix":
		return axisKind{kind: numberValue, field: inPlaceOf[Prompts]("shared_prefix", "Share of a synthetic prompt that all prompts of a trial begin with."), typ: result.Float}, true
	}
	if arg, ok := strings.CutPrefix(name, "args."); ok && flagName.MatchString(arg) {
		return axisKind{column: "arg_" + columnName(arg), server: true, kind: anyValue, field: fieldtag.Field{Doc: "An argument of the engine."}}, true
	}
	if env, ok := strings.CutPrefix(name, "env."); ok && envName.MatchString(env) {
		return axisKind{column: "env_" + columnName(env), server: true, kind: speltValue, field: fieldtag.Field{Doc: "An environment variable of the server."}, typ: result.String}, true
	}
	if role, what, ok := roleAxis(name); ok {
		if arg, ok := strings.CutPrefix(what, "args."); ok {
			return axisKind{column: columnName(role) + "_arg_" + columnName(arg), server: true, kind: anyValue, field: fieldtag.Field{Doc: "An argument of one role of the engine."}}, true
		}
		return axisKind{column: columnName(role) + "_replicas", server: true, kind: countValue, field: count("servers", engine.MaxReplicas, "How many of one role of the engine are started."), typ: result.Int}, true
	}
	return axisKind{}, false
}

// inPlaceOf has the bounds and the unit of the field of T that an axis takes the
// place of.
func inPlaceOf[T any](key, doc string) fieldtag.Field {
	fields := fieldtag.Of(reflect.TypeFor[T]())
	f := fields[slices.IndexFunc(fields, func(f fieldtag.Field) bool { return f.Key == key })]
	return fieldtag.Field{Min: f.Min, Max: f.Max, Above: f.Above, Below: f.Below, Unit: f.Unit, Doc: doc}
}

// roleAxis takes roles.worker.replicas and roles.frontend.args.router-mode
// apart; what is replicas or args.router-mode.
func roleAxis(name string) (role, what string, ok bool) {
	rest, ok := strings.CutPrefix(name, "roles.")
	role, what, more := strings.Cut(rest, ".")
	if !ok || !more || !roleName.MatchString(role) {
		return "", "", false
	}
	arg, isArg := strings.CutPrefix(what, "args.")
	return role, what, what == "replicas" || isArg && flagName.MatchString(arg)
}

var (
	flagName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	envName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	roleName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
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
	Pattern string // of a family's names: args.*, env.*, roles.*
	Field   fieldtag.Field
	// Ranges says whether {from, to, factor} may stand for a list; Text and
	// Whole what single values are: text, whole numbers, any scalar otherwise.
	Ranges, Text, Whole, Number bool
}

// Axes describes every axis that a matrix may have.
func Axes() []AxisDoc {
	var out []AxisDoc
	for _, name := range append(axisNames(), "args.x", "env.X", "roles.r.replicas", "roles.r.args.x") {
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
		case "roles.r.replicas":
			d.Name, d.Pattern = "", `^roles\.`+inner(roleName)+`\.replicas$`
		case "roles.r.args.x":
			d.Name, d.Pattern = "", `^roles\.`+inner(roleName)+`\.args\.`+flagName.String()[1:]
		}
		out = append(out, d)
	}
	return out
}

// inner is an anchored expression without its anchors.
func inner(r *regexp.Regexp) string { return strings.TrimSuffix(r.String()[1:], "$") }
