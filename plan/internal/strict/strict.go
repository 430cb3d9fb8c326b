// Package strict decodes a syntax tree into Go structs and reports everything
// that does not fit, not only the first: unknown keys with the nearest known
// one, wrong types, and scalars outside of the bounds that the struct's tags
// state. Nothing that a file says is ever silently ignored.
package strict

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/result/meant"
)

// A Decoder decodes trees of one plan.
type Decoder struct {
	Report *syntax.Report
	Env    *Env
	// Special decodes the types that are written in a way of their own.
	Special map[reflect.Type]func(n *syntax.Node, v reflect.Value, where string)
	// Elsewhere is the path of a key in another section, "" for none, and what
	// else there is to say of it.
	Elsewhere func(key string) (path, hint string)
	// Mistyped holds the keys that unknown ones were most likely meant to be. They
	// are not also reported as missing.
	Mistyped map[string]bool

	fields map[reflect.Type][]fieldtag.Field
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	secretType   = reflect.TypeFor[secret.String]()
)

// Decode decodes n over what v, a pointer, already holds: defaults that n does
// not mention stay. where is n's place in words: "load.prompts".
func (d *Decoder) Decode(n *syntax.Node, v any, where string) {
	d.value(n, reflect.ValueOf(v).Elem(), fieldtag.Field{}, where)
}

// Fields lists the keys that a struct type takes.
func (d *Decoder) Fields(t reflect.Type) []fieldtag.Field {
	if f, ok := d.fields[t]; ok {
		return f
	}
	if d.fields == nil {
		d.fields = make(map[reflect.Type][]fieldtag.Field)
	}
	f := fieldtag.Of(t)
	d.fields[t] = f
	return f
}

func (d *Decoder) value(n *syntax.Node, v reflect.Value, f fieldtag.Field, where string) {
	if special, ok := d.Special[v.Type()]; ok {
		special(n, v, where)
		return
	}
	switch v.Type() {
	case durationType:
		d.duration(n, v, f, where)
		return
	case secretType:
		d.secret(n, v, where)
		return
	}
	if v.CanAddr() && v.Kind() != reflect.Pointer {
		switch u := v.Addr().Interface().(type) {
		case interface{ UnmarshalYAML(func(any) error) error }:
			before := d.Report.Len()
			err := u.UnmarshalYAML(func(inner any) error {
				d.Decode(n, inner, where)
				if d.Report.Len() > before {
					return d.Report.Err()
				}
				return nil
			})
			if err != nil && d.Report.Len() == before {
				d.Report.Node(n, "value", "%s: %v", where, err)
			}
			return
		case encoding.TextUnmarshaler:
			if text, ok := d.text(n, f, where); ok {
				if err := u.UnmarshalText([]byte(text)); err != nil {
					d.Report.Node(n, "value", "%s: %v", where, err)
				}
			}
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
			d.begin(v.Elem())
		}
		d.value(n, v.Elem(), f, where)
	case reflect.Struct:
		d.structure(n, v, where)
	case reflect.Map:
		d.mapping(n, v, f, where)
	case reflect.Slice:
		d.list(n, v, f, where)
	case reflect.Interface:
		d.any(n, v, where)
	default:
		d.scalar(n, v, f, where)
	}
}

// begin fills a section of the file that has no defaults yet with the numbers that its
// tags name as defaults. A default that is no number ("the server's") is documentation,
// and the zero value stands for it.
func (d *Decoder) begin(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	for _, f := range d.Fields(v.Type()) {
		x, err := strconv.ParseFloat(f.Default, 64)
		switch field := v.Field(f.Index); {
		case err != nil:
		case field.Kind() == reflect.Int:
			field.SetInt(int64(x))
		case field.Kind() == reflect.Float64:
			field.SetFloat(x)
		}
	}
}

func (d *Decoder) structure(n *syntax.Node, v reflect.Value, where string) {
	fields := d.Fields(v.Type())
	if f, ok := find(fields, fieldtag.Short(v.Type())); ok && n.Kind != syntax.Map {
		d.value(n, v.Field(f.Index), f, where)
		return
	}
	if diag := d.is(n, syntax.Map, where); diag != nil {
		diag.Hint = cmp.Or(diag.Hint, d.nameKey(n, fields))
		return
	}
	for _, e := range n.Entries {
		f, ok := find(fields, e.Key.Text)
		if !ok {
			names := make([]string, 0, len(fields))
			for _, f := range fields {
				names = append(names, f.Key)
			}
			d.Unknown(e.Key, names, where)
			continue
		}
		d.value(e.Value, v.Field(f.Index), f, join(where, f.Key))
	}
}

func find(fields []fieldtag.Field, key string) (fieldtag.Field, bool) {
	for _, f := range fields {
		if f.Key == key {
			return f, true
		}
	}
	return fieldtag.Field{}, false
}

// Unknown reports a key that is none of names.
func (d *Decoder) Unknown(key *syntax.Node, names []string, where string) {
	diag := d.Report.Node(key, "unknown-key", "unknown key %q in %s", key.Text, place(where))
	diag.Nearest, diag.Hint = d.meant(key.Text, names, where)
	diag.Expected = OneOf(names)
	if len(names) == 0 {
		diag.Expected = "no keys at all"
	}
	if slices.Contains(names, diag.Nearest) {
		d.Mistake(join(where, diag.Nearest))
	} else {
		d.Mistake(diag.Nearest)
	}
}

// Mistake notes the path of a key for which another was written.
func (d *Decoder) Mistake(path string) {
	if d.Mistyped == nil {
		d.Mistyped = make(map[string]bool)
	}
	d.Mistyped[path] = true
}

// meant returns the key that an unknown one in where most likely stands for: one of
// names, or the path of one in another section. Words come first, then a single
// slip, then the same key elsewhere, then what is spelt alike.
func (d *Decoder) meant(key string, names []string, where string) (name, hint string) {
	if hint := meant.Gone(join(where, key)); hint != "" {
		return "", hint
	}
	path, near := meant.Setting(key), syntax.Nearest(key, names)
	section, last := cutLast(path)
	home := ""
	if d.Elsewhere != nil {
		home, hint = d.Elsewhere(cmp.Or(last, key))
	}
	switch {
	case path != "" && section == where && slices.Contains(names, last):
		return last, ""
	case path != "" && section == "":
		return "", path + " belongs in the plan itself"
	case path != "" && section != where:
		return path, hint
	case near != "" && syntax.Distance(key, near) <= 1, home == "":
		return near, ""
	}
	section, last = cutLast(home)
	if root, _, _ := strings.Cut(where, "."); where == "" || strings.HasPrefix(section, root) {
		return home, hint
	}
	return near, last + " belongs in " + cmp.Or(section, "the plan itself")
}

// cutLast returns a path's section and its last key.
func cutLast(path string) (section, last string) {
	i := strings.LastIndexByte(path, '.')
	return path[:max(i, 0)], path[i+1:]
}

func (d *Decoder) mapping(n *syntax.Node, v reflect.Value, f fieldtag.Field, where string) {
	if d.is(n, syntax.Map, where) != nil {
		return
	}
	if v.IsNil() {
		v.Set(reflect.MakeMapWithSize(v.Type(), len(n.Entries)))
	}
	for _, e := range n.Entries {
		item := reflect.New(v.Type().Elem()).Elem()
		if old := v.MapIndex(reflect.ValueOf(e.Key.Text)); old.IsValid() {
			item.Set(old)
		}
		if e.Key.Text == "" {
			d.Report.Node(e.Key, "value", "an empty key in %s", place(where))
			continue
		}
		d.value(e.Value, item, f, join(where, e.Key.Text))
		v.SetMapIndex(reflect.ValueOf(e.Key.Text), item)
	}
}

func (d *Decoder) list(n *syntax.Node, v reflect.Value, f fieldtag.Field, where string) {
	if words := fieldtag.Words(v.Type()); words != nil && n.Kind == syntax.String {
		if slices.Contains(words, n.Text) {
			v.Set(reflect.Append(reflect.Zero(v.Type()), reflect.ValueOf(n.Text)))
			return
		}
		diag := d.Report.Node(n, "value", "%s cannot be %q", place(where), n.Text)
		diag.Expected = OneOf(words) + ", or a list"
		diag.Nearest = syntax.Nearest(n.Text, words)
		return
	}
	if n.Kind != syntax.List {
		diag := d.Report.Node(n, "type", "%s takes a list, found %s", place(where), n.Kind.Name())
		if n.Kind != syntax.Null && n.Kind != syntax.Map && !n.Block {
			diag.Hint = "write [" + n.Text + "]"
		}
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items))
	for i, item := range n.Items {
		d.value(item, out.Index(i), f, fmt.Sprintf("%s[%d]", where, i))
	}
	v.Set(out)
}

// any decodes what has no type of its own: engine arguments, body fields.
func (d *Decoder) any(n *syntax.Node, v reflect.Value, where string) {
	if value := d.Natural(n, where); value != nil {
		v.Set(reflect.ValueOf(value))
	}
}

// Natural returns n as string, bool, int64, float64, []any or map[string]any; nil
// for null.
func (d *Decoder) Natural(n *syntax.Node, where string) any {
	switch n.Kind {
	case syntax.Map:
		out := make(map[string]any, len(n.Entries))
		for _, e := range n.Entries {
			out[e.Key.Text] = d.Natural(e.Value, join(where, e.Key.Text))
		}
		return out
	case syntax.List:
		out := make([]any, 0, len(n.Items))
		for i, item := range n.Items {
			out = append(out, d.Natural(item, fmt.Sprintf("%s[%d]", where, i)))
		}
		return out
	case syntax.Bool:
		return n.Text == "true" || n.Text == "True" || n.Text == "TRUE"
	case syntax.Int, syntax.Float:
		if i, err := ParseInt(n.Text); err == nil {
			return i
		}
		x, err := ParseFloat(n.Text)
		if err != nil {
			d.Report.Node(n, "number", "%s: %v", place(where), err)
		}
		return x
	case syntax.String:
		text, _ := d.text(n, fieldtag.Field{Blank: true}, where)
		return text
	}
	return nil
}

// nameKey returns the hint for a single value in the place of a mapping: the first
// key that takes it.
func (d *Decoder) nameKey(n *syntax.Node, fields []fieldtag.Field) string {
	for _, f := range fields {
		trial := &Decoder{Report: &syntax.Report{}}
		switch f.Type.Kind() {
		case reflect.String, reflect.Int, reflect.Int64, reflect.Float64:
			trial.value(n, reflect.New(f.Type).Elem(), f, "")
		default:
			continue
		}
		if trial.Report.Len() == 0 {
			return fmt.Sprintf("name the key, like {%s: %s}", f.Key, found(n))
		}
	}
	return ""
}

// is reports a node of another kind than the one that belongs at where; nil for
// one of that kind.
func (d *Decoder) is(n *syntax.Node, want syntax.Kind, where string) *syntax.Diagnostic {
	if n.Kind == want {
		return nil
	}
	diag := d.Report.Node(n, "type", "%s takes %s, found %s", place(where), want.Name(), n.Kind.Name())
	if n.Kind == syntax.Null {
		diag.Hint = "leave the key out to get the default"
	}
	return diag
}

func join(where, key string) string {
	if where == "" {
		return key
	}
	return where + "." + key
}

func place(where string) string {
	if where == "" {
		return "the plan"
	}
	return where
}

// OneOf lists names for a person: "one of a, b or c".
func OneOf(names []string) string {
	const most = 40
	switch n := len(names); {
	case n == 0:
		return ""
	case n == 1:
		return names[0]
	case n > most:
		return "one of " + strings.Join(names[:most], ", ") + ", ..."
	default:
		return "one of " + strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
}
