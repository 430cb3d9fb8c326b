package outbound_test

import (
	"encoding"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"sweep.dev/sweep/cmd/sweep/internal/outbound"
	"sweep.dev/sweep/cmd/sweep/internal/vocabulary"
	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
)

// TestPlaces walks through everything that a plan can say. Each place that can hold
// ${VAR} is in the table of places, and none of the table is nowhere in a plan.
func TestPlaces(t *testing.T) {
	found := map[string]string{}
	walk(found, reflect.TypeFor[plan.Plan](), "", false)
	walk(found, reflect.TypeFor[plan.Load](), "load", false)
	v := vocabulary.All()
	for kind, docs := range map[string][]plan.PluginDoc{"backend": v.Backends, "collect": v.Collectors, "sinks": v.Sinks} {
		for _, doc := range docs {
			where := kind + "." + doc.Kind
			if kind == "backend" {
				where = kind
			}
			if doc.Config != nil {
				walk(found, reflect.TypeOf(doc.Config), where, false)
			}
			found[kind+"[]"] = doc.Kind // the name alone, and as a key
		}
	}
	delete(found, "backend[]")
	found["backend"] = "the kind"
	for _, a := range axes.Names() {
		found["matrix."+a+"[]"] = "axis"
	}
	for _, place := range []string{"matrix.args.x[]", "matrix.env.X[]", "matrix.manifest.a.b[]", "matrix.include[].engine", "matrix.zip[][]", "matrix.exclude[]", "slo.x", "slo.x.expr"} {
		found[place] = "by hand"
	}
	used := map[string]bool{}
	for _, where := range slices.Sorted(maps.Keys(found)) {
		p, ok := outbound.PlaceOf(where)
		if !ok {
			t.Errorf("%s (%s) is not in the table of places", where, found[where])
		}
		used[p.Path] = true
	}
	for _, p := range outbound.Places() {
		if !used[p.Path] {
			t.Errorf("%s is in the table of places, and no plan has it", p.Path)
		}
	}
}

// walk finds the places in a type that can hold text. Of a closed list of words nothing
// can be told, and numbers and times take no variables.
func walk(found map[string]string, t reflect.Type, where string, enum bool) {
	text := reflect.TypeFor[encoding.TextUnmarshaler]()
	switch t {
	case reflect.TypeFor[time.Duration](), reflect.TypeFor[plan.Matrix](), reflect.TypeFor[plan.Plugin](), reflect.TypeFor[[]plan.Plugin](), reflect.TypeFor[[]plan.SLO](), reflect.TypeFor[[]plan.NamedLoad]():
		return
	case reflect.TypeFor[secret.String](), reflect.TypeFor[manifest.File]():
		found[where] = t.String()
		return
	}
	if reflect.PointerTo(t).Implements(text) {
		found[where] = t.String()
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		walk(found, t.Elem(), where, enum)
	case reflect.Struct:
		for _, f := range fieldtag.Of(t) {
			name := where + "." + f.Key
			if where == "" {
				name = f.Key
			}
			walk(found, f.Type, name, len(f.Enum) > 0)
		}
	case reflect.Map:
		walk(found, t.Elem(), where+".x", enum)
	case reflect.Slice:
		walk(found, t.Elem(), where+"[]", enum)
	case reflect.String, reflect.Interface:
		if !enum {
			found[where] = t.String()
		}
	}
}
