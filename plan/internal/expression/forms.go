package expression

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// A Form is a part of the language of expressions, for people.
type Form struct{ Form, Doc, Example string }

// Forms returns what an expression may be made of, each with an example over columns of the
// cells table that compiles.
func Forms() []Form {
	return []Form{
		{"== != < <= > >=", "comparison", "p95_ttft_ms < 200"},
		{"+ - * / **", "arithmetic of floating-point numbers", "p99_ttft_ms < 2 * p50_ttft_ms"},
		{"and or not (&& || !)", "both, either, the opposite", "error_rate == 0 and not simulated"},
		{"in [..]", "one of several values", `gpu in ["l4", "h100"]`},
		{"contains startsWith endsWith matches", "parts of a text; matches takes a regular expression", `gpu startsWith "rtx"`},
		{"A ? B : C", "B if A is true, else C", "concurrency > 8 ? p95_ttft_ms < 500 : p95_ttft_ms < 200"},
		{strings.Join(functions(), " "), "functions of numbers", "max(p95_ttft_ms, p95_tpot_ms) < 200"},
	}
}

// Units returns the units that a number may carry, by kind, the smallest first.
func Units() [][]string {
	byKind := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(measures)) {
		m := measures[name]
		byKind[m.kind] = append(byKind[m.kind], name)
	}
	var all [][]string
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		names := byKind[kind]
		slices.SortStableFunc(names, func(x, y string) int { return cmp.Compare(measures[x].size, measures[y].size) })
		if kind == "" {
			kind = "of a count"
		}
		all = append(all, append([]string{kind + ": " + names[0]}, names[1:]...))
	}
	return all
}
