package expression

import (
	"strings"
	"testing"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/result"
)

func env() Env {
	return Env{
		Noun:  "column",
		Zero:  map[string]any{"a": 0.0, "b": 0.0, "gpu": "", "ok": false},
		Names: []string{"a", "b", "gpu", "ok"},
		Meant: func(string) string { return "" },
	}
}

func TestRun(t *testing.T) {
	values := map[string]any{"a": 3.0, "b": 4.0, "gpu": "l4", "ok": true}
	for text, want := range map[string]bool{
		"a < b":                         true,
		"a == 3 && b == 4.0":            true,
		"a in [1, 3]":                   true,
		"a in [1, 2]":                   false,
		`gpu in ["l4"]`:                 true,
		`gpu matches "^l[0-9]$"`:        true,
		`gpu startsWith "h"`:            false,
		"max(a, b) == 4 and ok":         true,
		"min(a, 1) + abs(-b) == 5":      true,
		"round(a / 2) == 2":             true,
		"floor(a / 2) < ceil(a / 2)":    true,
		"a ** 2 + b ** 2 == 25":         true,
		"ok ? a > b : a < b":            false,
		"not (a > b) || false":          true,
		"2 < a and a < 4 and b / 0 > a": true, // infinity is a number like others
	} {
		r := &syntax.Report{}
		e := Compile(r, syntax.Literal("x", text), env())
		if e == nil {
			t.Errorf("%s: %v", text, r.Err())
			continue
		}
		if got, err := e.Run(values); err != nil || got != want {
			t.Errorf("%s = %v, %v; want %v", text, got, err, want)
		}
	}
}

// TestSandbox holds that nothing that loops, allocates at will, or reads what
// it is not given gets past compiling. What passes is bounded by its nodes.
func TestSandbox(t *testing.T) {
	for _, text := range []string{
		"let x = 1..1000; all(x, all(x, all(x, all(x, true))))",
		"all(1..1000000, # > 0) && a > 0",
		"len(1..10000000) > a",
		"sum([a, b]) > 1",
		"map([a], # + 1)[0] > 1",
		"filter([a], # > 1) == []",
		"any([a], {# > 1})",
		"reduce([a], #acc + #, 0) > 1",
		"count([a], # > 1) == 1",
		"sortBy([a], #) == [a]",
		`repeat("x", 1000000000) == gpu`,
		`join(split(gpu, "")) == ""`,
		"toJSON(a) == gpu",
		"now().Unix() > a",
		`get({"a": a}, "a") > 1`,
		"{a: 1}.a > a",
		"[a, b][0] > 1",
		"gpu[0:1] == gpu",
		"a?.b > 1",
		"a ?? 1 > 1",
		"nil == a",
		"$env.a > 1",
		`$env["a"] > 1`,
		"a | abs > 1",
		"a in 1..3",
		"if a > 1 { let x = 2; x > 1 } else { ok }",
		"a > 1; ok",
		"ok(a)",
		"gpu()",
		"a.b.c > 1",
		"a % 2 == 0",
		"a",
		`gpu + "x"`,
		"a > gpu",
		"ok > 1",
		"true",
		"",
		strings.Repeat("(", 1900) + "a",
		strings.Repeat("a+", 990) + "a > 0",
		strings.Repeat("!", 1999),
		"\x00",
		"a > 1 //",
	} {
		r := &syntax.Report{}
		if e := Compile(r, syntax.Literal("x", text), env()); e != nil && text != "a > 1 //" {
			t.Errorf("%.60q was taken", text)
		} else if e == nil && r.Len() == 0 {
			t.Errorf("%.60q: refused without a word", text)
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{"a < b", "ok and gpu == \"l4\"", "max(a, b) in [1, 2]", "a ? b : ok", "all(1..3, # > a)", "é > a"} {
		f.Add(s)
	}
	values := map[string]any{"a": 3.0, "b": 4.0, "gpu": "l4", "ok": true}
	f.Fuzz(func(t *testing.T, text string) {
		r := &syntax.Report{}
		e := Compile(r, syntax.Literal("x", text), env())
		if (e == nil) == (r.Len() == 0) {
			t.Fatalf("expression %v and %d diagnostics", e, r.Len())
		}
		if e == nil {
			for _, d := range r.Diagnostics().List {
				if d.Line < 1 || d.Col < 1 || d.EndCol <= d.Col {
					t.Fatalf("no place: %+v", d)
				}
			}
			return
		}
		_, _ = e.Run(values) // may fail (a bad pattern), may not panic
	})
}

// TestForms holds that every example of the language compiles over the columns.
func TestForms(t *testing.T) {
	t.Parallel()
	env := Env{Noun: "column", Zero: map[string]any{}}
	for _, c := range result.Columns(result.Extra{}) {
		switch c.Type {
		case result.Int, result.Float:
			env.Zero[c.Name] = 0.0
		case result.Bool:
			env.Zero[c.Name] = false
		default:
			env.Zero[c.Name] = ""
		}
	}
	for _, f := range Forms() {
		r := &syntax.Report{}
		if e := Compile(r, syntax.Literal("example", f.Example), env); e == nil {
			t.Errorf("%s: %v", f.Example, r.Err())
		}
	}
}
