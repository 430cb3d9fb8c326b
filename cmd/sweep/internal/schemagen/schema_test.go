package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"sweep.dev/sweep/cmd/sweep/internal/vocabulary"
	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/internal/schematest"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/plan/planfile"
	"sweep.dev/sweep/schemas"
)

// TestUpToDate holds the checked-in schema against the structs.
func TestUpToDate(t *testing.T) {
	want, err := generate(vocabulary.All())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, schemas.Plan) {
		t.Error("schemas/plan.schema.json is not what go generate ./schemas makes")
	}
}

// compiled returns the schema that the package schemas has, which [TestUpToDate] holds to be the
// one that is generated.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	return schematest.Compile(t, schemas.Plan)
}

// minimal is a good plan with few keys.
const minimal = "../../../../plan/planfile/testdata/ok/minimal.yaml"

// A goodPlan is a plan that the language takes, as JSON.
type goodPlan struct {
	file string
	size int // bytes of the file
	v    any
}

// good returns every good plan, the smallest first.
func good(t *testing.T) []goodPlan {
	t.Helper()
	var out []goodPlan
	for _, pattern := range []string{"../../../../plan/planfile/testdata/ok/*.yaml", "../../../../plans/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			out = append(out, readGood(t, file))
		}
	}
	slices.SortStableFunc(out, func(a, b goodPlan) int { return cmp.Compare(a.size, b.size) })
	return out
}

func readGood(t *testing.T, file string) goodPlan {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := yaml.Unmarshal(src, &v); err != nil {
		t.Fatal(err)
	}
	return goodPlan{file, len(src), clone(t, v)}
}

// clone returns v by way of JSON.
func clone(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAccepts(t *testing.T) {
	s := compiled(t)
	for _, p := range good(t) {
		if err := s.Validate(p.v); err != nil {
			t.Errorf("%s: %v", p.file, err)
		}
	}
}

// parses reports whether the plan language itself takes a plan: JSON is YAML.
func parses(t *testing.T, v any) error {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	_, err = planfile.Parse("plan.json", "../../../../plan/planfile/testdata/ok", text, planfile.Options{
		Vocabulary: vocabulary.All(), LookupEnv: func(string) (string, bool) { return "x", true },
	})
	return err
}

// A key is one key of the plan language: where it stands, and what its tags say.
// [] stands for an entry of a list.
type key struct {
	path  []string
	field fieldtag.Field
}

// keys lists every key that a plan can have. * stands for a name of the plan's
// own.
func keys(t reflect.Type, at []string) []key {
	var out []key
	for _, f := range fieldtag.Of(t) {
		path := append(append([]string{}, at...), f.Key)
		out = append(out, key{path: path, field: f})
		out = append(out, inside(f.Type, path)...)
	}
	return out
}

func inside(t reflect.Type, path []string) []key {
	switch t {
	case reflect.TypeFor[secret.String](), reflect.TypeFor[plan.Matrix](), reflect.TypeFor[plan.Plugin](), reflect.TypeFor[time.Duration]():
		return nil
	case reflect.TypeFor[[]plan.SLO]():
		return keys(reflect.TypeFor[plan.SLOKeys](), append(append([]string{}, path...), "*"))
	case reflect.TypeFor[[]plan.Plugin]():
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return inside(t.Elem(), path)
	case reflect.Struct:
		return keys(t, path)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return inside(t.Elem(), append(append([]string{}, path...), "[]"))
		}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Struct {
			return inside(t.Elem(), append(append([]string{}, path...), "*"))
		}
	}
	return nil
}

// everyKey returns all keys of the language: the plan's, the matrix', the plug-ins'.
func everyKey() []key {
	out := keys(reflect.TypeFor[plan.Plan](), nil)
	for _, a := range axes.Docs() {
		if a.Pattern == "" {
			f := a.Field
			f.Type = reflect.TypeFor[[]string]() // a list of what the bounds speak of
			if a.Whole || a.Number {
				f.Type = reflect.TypeFor[[]float64]()
			}
			out = append(out, key{path: []string{"matrix", a.Name}, field: f})
		}
	}
	for _, name := range []string{"zip", "include", "exclude"} {
		out = append(out, key{path: []string{"matrix", name}, field: fieldtag.Field{Type: reflect.TypeFor[[]string]()}})
	}
	return out
}

// find returns the objects of v that path leads to, and the last key of each.
func find(v any, path []string) (holders []map[string]any, names []string) {
	if list, ok := v.([]any); ok && path[0] == "[]" {
		for _, item := range list {
			h, n := find(item, path[1:])
			holders, names = append(holders, h...), append(names, n...)
		}
		return holders, names
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, nil
	}
	for name, value := range m {
		if path[0] != "*" && path[0] != name {
			continue
		}
		if len(path) == 1 {
			holders, names = append(holders, m), append(names, name)
			continue
		}
		h, n := find(value, path[1:])
		holders, names = append(holders, h...), append(names, n...)
	}
	return holders, names
}

// TestRejects mutates every key of the language in the smallest good plan that has it: a
// value of a wrong type, the key misspelt, a number out of range. Schema and
// parser must both refuse. A key that no good plan has fails the test too.
func TestRejects(t *testing.T) {
	s := compiled(t)
	plans := good(t)
	taken := map[string]bool{} // plans that the parser takes without a mutation
	mutations := 0
	refuse := func(v any, what string) {
		t.Helper()
		mutations++
		if s.Validate(clone(t, v)) == nil {
			t.Errorf("the schema takes %s", what)
		}
		if parses(t, v) == nil {
			t.Errorf("the parser takes %s", what)
		}
	}
	for _, k := range everyKey() {
		where := strings.Join(k.path, ".")
		seen := false
		for _, p := range plans {
			holders, _ := find(p.v, k.path)
			if len(holders) == 0 {
				continue
			}
			ok, known := taken[p.file]
			if !known {
				ok = parses(t, p.v) == nil
				taken[p.file] = ok
			}
			if !ok {
				continue
			}
			seen = true
			for _, wrong := range wrongValues(k.field) {
				mutant := clone(t, p.v)
				h, n := find(mutant, k.path)
				h[0][n[0]] = wrong
				refuse(mutant, fmt.Sprintf("%s: %v in %s", where, wrong, filepath.Base(p.file)))
			}
			mutant := clone(t, p.v)
			h, n := find(mutant, k.path)
			h[0][n[0]+"x"] = h[0][n[0]]
			delete(h[0], n[0])
			refuse(mutant, fmt.Sprintf("%sx in %s", where, filepath.Base(p.file)))
			break
		}
		if !seen {
			t.Errorf("no good plan has the key %s", where)
		}
	}
	if mutations < 200 {
		t.Errorf("only %d mutations", mutations)
	}
}

// wrongValues are values that a key must not have: of a wrong type, and beyond
// each of its bounds.
func wrongValues(f fieldtag.Field) []any {
	out := []any{[]any{[]any{nil}}, nil}
	t := f.Type
	list := t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Struct
	if list {
		t = t.Elem()
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	wrap := func(v any) any {
		if list {
			return []any{v}
		}
		return v
	}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return append(out, 60, "60", "0s", "-1s", "soon")
	case t == reflect.TypeFor[secret.String](), t == reflect.TypeFor[plan.Plugin]():
		return append(out, map[string]any{"no_such_key": 1})
	}
	switch t.Kind() {
	case reflect.String:
		out = append(out, wrap(""))
		if !f.Scalar {
			out = append(out, wrap(7), wrap(true))
		}
		if len(f.Enum) > 0 || f.Pattern != "" {
			out = append(out, "Not One Of Them")
		}
	case reflect.Bool:
		out = append(out, "yes", 1)
	case reflect.Int, reflect.Int64, reflect.Uint64:
		out = append(out, wrap("many"), wrap(1.5))
	case reflect.Float64:
		out = append(out, wrap("many"))
	case reflect.Struct, reflect.Map:
		out = append(out, "text")
		fields := []fieldtag.Field{}
		if t.Kind() == reflect.Struct {
			fields = fieldtag.Of(t)
		}
		short := slices.IndexFunc(fields, func(f fieldtag.Field) bool { return f.Key == fieldtag.Short(t) })
		if short < 0 {
			out = append(out, 7)
			break
		}
		out = append(out, wrongValues(fields[short])...)
	}
	if f.Min != nil {
		out = append(out, wrap(*f.Min-1))
	}
	if f.Max != nil {
		out = append(out, wrap(*f.Max+1))
	}
	if f.Above != nil {
		out = append(out, wrap(*f.Above), wrap(*f.Above-1))
	}
	return out
}

// TestRejects_plugins does the same for the keys of every plug-in.
func TestRejects_plugins(t *testing.T) {
	s := compiled(t)
	small := readGood(t, minimal)
	base := func() map[string]any { return clone(t, small.v).(map[string]any) }
	refuse := func(v any, what string) {
		t.Helper()
		if s.Validate(clone(t, v)) == nil {
			t.Errorf("the schema takes %s", what)
		}
		if parses(t, v) == nil {
			t.Errorf("the parser takes %s", what)
		}
	}
	try := func(d plan.PluginDoc, place func(map[string]any, map[string]any)) {
		t.Helper()
		bad := base()
		place(bad, map[string]any{"no_such_key": 1})
		refuse(bad, d.Kind+" with no_such_key")
		if d.Config == nil {
			return
		}
		ct := reflect.TypeOf(d.Config)
		for ct.Kind() == reflect.Pointer {
			ct = ct.Elem()
		}
		for _, f := range fieldtag.Of(ct) {
			for _, wrong := range []any{nil, []any{[]any{nil}}} {
				bad := base()
				place(bad, map[string]any{f.Key: wrong})
				refuse(bad, fmt.Sprintf("%s with %s: %v", d.Kind, f.Key, wrong))
			}
		}
	}
	v := vocabulary.All()
	for _, d := range v.Backends {
		try(d, func(p, config map[string]any) { config["kind"] = d.Kind; p["backend"] = config })
	}
	for _, d := range v.Collectors {
		try(d, func(p, config map[string]any) { p["collect"] = []any{map[string]any{d.Kind: config}} })
	}
	for _, d := range v.Sinks {
		try(d, func(p, config map[string]any) { p["sinks"] = []any{map[string]any{d.Kind: config}} })
	}
	for _, key := range []string{"backend", "sinks", "collect"} {
		bad := base()
		bad[key] = []any{"no-such-plugin"}
		if key == "backend" {
			bad[key] = "no-such-plugin"
		}
		refuse(bad, key+" that there is not")
	}
}

// TestExamples checks that every key of a plan has an example, and that its schema
// accepts it.
func TestExamples(t *testing.T) {
	text, err := generate(vocabulary.All())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := schematest.Compiler(t, text)
	n := 0
	// Engines, their arguments and the kinds of plug-ins are offered by name, and the range
	// of an axis has its example at the axis.
	offered := func(where string) bool {
		return strings.Contains(where, "/engines/properties/") || strings.Contains(where, "/matrix/properties/args.") ||
			strings.Contains(where, "/anyOf/2/properties/") || strings.HasSuffix(path.Dir(where), "/items/anyOf/1/properties") || path.Base(where) == "kind"
	}
	var walk func(v any, at string)
	walk = func(v any, at string) {
		switch v := v.(type) {
		case map[string]any:
			properties, _ := v["properties"].(map[string]any)
			for name, p := range properties {
				where := at + "/properties/" + name
				examples, _ := p.(map[string]any)["examples"].([]any)
				if p.(map[string]any)["description"] != nil && len(examples) == 0 && !offered(where) {
					t.Errorf("%s has no example", where)
				}
				if len(examples) == 0 {
					continue
				}
				n++
				s, err := c.Compile(schematest.Name + "#" + where)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range examples {
					if err := s.Validate(e); err != nil {
						t.Errorf("%s: the example %v: %v", where, e, err)
					}
				}
			}
			for name, inner := range v {
				walk(inner, at+"/"+name)
			}
		case []any:
			for i, inner := range v {
				walk(inner, fmt.Sprintf("%s/%d", at, i))
			}
		}
	}
	walk(doc, "")
	if n < 150 {
		t.Errorf("only %d keys have an example", n)
	}
}

// TestDescribed checks that every key has a description.
func TestDescribed(t *testing.T) {
	var root map[string]any
	text, err := generate(vocabulary.All())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	n := 0
	var walk func(v any, at string)
	walk = func(v any, at string) {
		switch v := v.(type) {
		case map[string]any:
			for _, kind := range []string{"properties", "patternProperties"} {
				properties, _ := v[kind].(map[string]any)
				for name, p := range properties {
					n++
					if doc, _ := p.(map[string]any)["description"].(string); len(doc) < 8 {
						t.Errorf("%s.%s has no description", at, name)
					}
				}
			}
			for name, inner := range v {
				walk(inner, at+"."+name)
			}
		case []any:
			for i, inner := range v {
				walk(inner, fmt.Sprintf("%s[%d]", at, i))
			}
		}
	}
	walk(root, "")
	if n < 90 {
		t.Errorf("only %d keys", n)
	}
}
