// Package strict decodes a syntax tree into Go structs and reports everything
// that does not fit, not only the first: unknown keys with the nearest known
// one, wrong types, and scalars outside of the bounds that the struct's tags
// state. Nothing that a file says is ever silently ignored.
package strict

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"

	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/internal/syntax"
)

// A Decoder decodes trees of one plan.
type Decoder struct {
	Report *syntax.Report
	Env    *Env
	// Special decodes the types that are written in a way of their own.
	Special map[reflect.Type]func(n *syntax.Node, v reflect.Value, where string)
	// Elsewhere is the hint that tells where a key that is unknown here
	// belongs; "" where nowhere.
	Elsewhere func(key string) string
	// Mistyped holds the keys that unknown ones were most likely meant to be,
	// so that nobody is told that they are missing too.
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

func (d *Decoder) structure(n *syntax.Node, v reflect.Value, where string) {
	if !d.is(n, syntax.Map, where) {
		return
	}
	fields := d.Fields(v.Type())
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
	diag.Nearest = syntax.Nearest(key.Text, names)
	diag.Expected = OneOf(names)
	if len(names) == 0 {
		diag.Expected = "no keys at all"
	}
	if diag.Nearest != "" {
		if d.Mistyped == nil {
			d.Mistyped = make(map[string]bool)
		}
		d.Mistyped[join(where, diag.Nearest)] = true
	}
	if diag.Nearest == "" && d.Elsewhere != nil {
		diag.Hint = d.Elsewhere(key.Text)
	}
}

func (d *Decoder) mapping(n *syntax.Node, v reflect.Value, f fieldtag.Field, where string) {
	if !d.is(n, syntax.Map, where) {
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

// Natural is n as string, bool, int64, float64, []any or map[string]any; nil
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

func (d *Decoder) is(n *syntax.Node, want syntax.Kind, where string) bool {
	if n.Kind == want {
		return true
	}
	diag := d.Report.Node(n, "type", "%s takes %s, found %s", place(where), want.Name(), n.Kind.Name())
	if n.Kind == syntax.Null {
		diag.Hint = "leave the key out to get the default"
	}
	return false
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
