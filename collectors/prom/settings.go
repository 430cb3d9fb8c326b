package prom

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/collectors/quantities"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
)

// differing lists the arguments of a plan that the engine reports of itself
// with another value, each in words with both. A setting that the engine does
// not report, or leaves open, is no difference.
func differing(m *engine.Metrics, args map[string]any, e *exposition.Exposition) []string {
	var out []string
	for name, list := range m.Settings {
		want, ok := argument(args, name)
		if !ok {
			continue
		}
		got, ok := setting(m, list, e)
		if !ok || !claim(got) || !claim(want) || same(got, want) {
			continue
		}
		out = append(out, fmt.Sprintf("%s is %s, the plan says %s", name, got, want))
	}
	slices.Sort(out)
	return out
}

// argument returns a plan's argument, whichever way its name is written. A list or
// a mapping has no one value.
func argument(args map[string]any, name string) (string, bool) {
	plain := func(s string) string { return strings.ReplaceAll(strings.TrimLeft(s, "-"), "_", "-") }
	for k, v := range args {
		if plain(k) != plain(name) {
			continue
		}
		switch v := v.(type) {
		case string:
			return v, true
		case bool, int, int64, uint64:
			return fmt.Sprint(v), true
		case float64:
			return strconv.FormatFloat(v, 'g', -1, 64), true
		}
	}
	return "", false
}

// setting returns what the engine says, where all of its parts say the same.
func setting(m *engine.Metrics, list []engine.Series, e *exposition.Exposition) (string, bool) {
	for _, s := range list {
		for _, rename := range quantities.Renames(s.Name, m.Prefixes) {
			f := quantities.Found{Series: s, Names: []string{rename(s.Name)}}
			if s.Times != nil && s.Times.Name != "" {
				f.Second = rename(s.Times.Name)
			}
			var texts []string
			if s.Label != "" && s.Times == nil && s.Scale == 0 {
				texts = f.Texts(e)
			} else {
				for _, p := range f.Points(e) {
					texts = append(texts, strconv.FormatFloat(p.Value, 'g', -1, 64))
				}
			}
			slices.Sort(texts)
			if texts = slices.Compact(texts); len(texts) == 1 {
				return texts[0], true
			}
		}
	}
	return "", false
}

// claim reports whether a text is a value. A text that means "none" or "the engine
// chooses" is not.
func claim(s string) bool {
	switch strings.ToLower(s) {
	case "", "none", "null", "auto", "nan", "undefined":
		return false
	}
	return true
}

// same compares numbers as numbers, and booleans as booleans: an engine says
// True, 1.0 or 1 if the plan says true. What is a number on one side only
// ("8G" and 8589934592) cannot be compared, and counts as the same.
func same(a, b string) bool {
	x, number1 := exposition.ParseValue(a)
	y, number2 := exposition.ParseValue(b)
	if number1 && number2 {
		return math.Abs(x-y) <= 1e-6*max(math.Abs(x), math.Abs(y))
	}
	if x, ok := truth(a); ok {
		if y, ok := truth(b); ok {
			return x == y
		}
	}
	return number1 != number2 || strings.EqualFold(a, b)
}

func truth(s string) (v, ok bool) {
	switch strings.ToLower(s) {
	case "true", "1", "1.0":
		return true, true
	case "false", "0", "0.0":
		return false, true
	}
	return false, false
}
