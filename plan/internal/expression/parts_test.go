package expression

import (
	"fmt"
	"testing"

	"sweep.dev/sweep/internal/syntax"
)

func TestParts(t *testing.T) {
	units := env()
	units.Units = map[string]string{"a": "ms"}
	for text, want := range map[string][]string{
		"a < 0.2s":                            {"a < 0.2s|a < 200"},
		"a < 200 and b >= 2":                  {"a < 200|a < 200", "b >= 2|b >= 2"},
		"(a < 1 && b > 2) and 3 < b":          {"a < 1|a < 1", "b > 2|b > 2", "3 < b|b > 3"},
		"a < 0.2s and b < -(2 * 3)":           {"a < 200|a < 200", "b < -(2 * 3)|b < -6"},
		"1 < a < 3":                           {"1 < a|a > 1", "a < 3|a < 3"},
		"a < 1 or b < 2":                      {"a < 1 or b < 2|  0 (a < 1|a < 1) (b < 2|b < 2)"},
		"(a < 1 or 2 > b or false) and b > 1": {"a < 1 or 2 > b or false|  0 (a < 1|a < 1) (2 > b|b < 2)", "b > 1|b > 1"},
		"a < 1 or b == 2":                     {"a < 1 or b == 2|  0"}, // a side that is no comparison
		"a < 1 or b < 2 and b > 1":            {"a < 1 or b < 2 and b > 1|  0"},
		"a < 1 and 1 < 2":                     {"a < 1|a < 1"},
		"a < 1 or 2 < 1":                      {"a < 1 or 2 < 1|a < 1"},
		"a < 1 and 2 < 1":                     {"a < 1|a < 1", "2 < 1|  0"},
		"not (a < 1 and b < 2)":               {"not (a < 1 and b < 2)|  0"},
		"a < b and ok":                        {"a < b|  0", "ok|  0"},
		"a == 3 and gpu == 'l4' and a < 1k":   {"a == 3|  0", `gpu == "l4"|  0`, "a < 1k|"},
	} {
		r := &syntax.Report{}
		e := Compile(r, syntax.Literal("x", text), units)
		if e == nil {
			if text != "a == 3 and gpu == 'l4' and a < 1k" { // thousands of ms are no unit
				t.Errorf("%s: %v", text, r.Err())
			}
			continue
		}
		var got []string
		for _, p := range e.Parts() {
			text := fmt.Sprintf("%s|%s %s %v", p.Text, p.Column, p.Op, p.Limit)
			for _, side := range p.Any {
				text += fmt.Sprintf(" (%s|%s %s %v)", side.Text, side.Column, side.Op, side.Limit)
			}
			got = append(got, text)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestParts_run holds that an expression holds if its parts do, and not otherwise.
func TestParts_run(t *testing.T) {
	for _, text := range []string{
		"a < 4 and b > 3", "(a < 1 or ok) and b == 4 and gpu in ['l4', 'h100']", "a ** 2 < 10 and (ok ? a < b : a > b)",
		"not ok and a > 1", "-a < -2 and not (a > b and ok)", "a < 2 and b < 2", "2 < a < 4",
	} {
		r := &syntax.Report{}
		e := Compile(r, syntax.Literal("x", text), env())
		if e == nil {
			t.Fatalf("%s: %v", text, r.Err())
		}
		for _, a := range []float64{0, 1, 3, 5} {
			for _, ok := range []bool{true, false} {
				values := map[string]any{"a": a, "b": 4.0, "gpu": "l4", "ok": ok}
				want, err := e.Run(values)
				if err != nil {
					t.Fatal(err)
				}
				got := true
				for _, p := range e.Parts() {
					holds, err := p.Run(values)
					if err != nil {
						t.Fatal(err)
					}
					got = got && holds
				}
				if got != want {
					t.Errorf("%s of %v: parts %v, whole %v", text, values, got, want)
				}
			}
		}
	}
}
