package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result/col"
)

// A Difference is something beside the cells' axes in which two runs differ. A side of
// which it is not known has "".
type Difference struct {
	What string `json:"what"` // a column of the cells table, or the path of a key of the plan
	Base string `json:"base"`
	Head string `json:"head"`
}

// facts are the columns that say who measured what with what, in the order in which
// they are told, with what to call those that are equal.
var facts = []struct{ column, name string }{
	{col.EngineVersion, "engine version"},
	{col.ImageDigest, "image"},
	{col.GPUUUID, "GPU"},
	{col.DriverVersion, "driver"},
	{col.Model, "model"},
	{col.ModelRevision, ""},
	{col.AnsweredModel, ""},
	{col.ClientHost, "client host"},
	{col.Client, ""},
	{col.NetworkPath, ""},
	{col.StampKind, ""},
	{col.Backend, ""},
	{col.Plan, "plan"},
	{col.USDPerHour, ""},
}

// parts are keys of a plan of which people ask whether they are the same.
var parts = []struct{ prefix, name string }{{"engines.", "arguments"}, {"load.", "load"}, {"seed", "seed"}}

// beside are the keys of a plan that say which cells there are and what becomes of
// them, and not how they are measured.
var beside = []string{"version", "name", "matrix", "cells", "repeats", "slo", "sinks", "budget", "prices", "order", "confidence", "retries", "on_start_failure", "predicted", "compare", "set"}

// identify returns in what two sides differ beyond the axes, and what is known to be equal.
func identify(base, head Side, pairs []pair) (differs []Difference, same []string) {
	differs, same = []Difference{}, []string{}
	for _, f := range facts {
		b, h := map[string]bool{}, map[string]bool{}
		equal := true
		for _, p := range pairs {
			x, y := seen(p.base, f.column), seen(p.head, f.column)
			equal = equal && slices.Equal(x, y)
			for _, v := range x {
				b[v] = true
			}
			for _, v := range y {
				h[v] = true
			}
		}
		switch {
		case !equal:
			differs = append(differs, Difference{f.column, list(b), list(h)})
		case len(b) > 0 && f.name != "":
			same = append(same, f.name)
		}
	}
	b, h := flat(base.Plan, beside), flat(head.Plan, beside)
	if len(b) == 0 || len(h) == 0 {
		return differs, same
	}
	var keys []string
	for k := range b {
		keys = append(keys, k)
	}
	for k := range h {
		if _, ok := b[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	different := map[string]bool{}
	for _, k := range keys {
		if b[k] == h[k] {
			continue
		}
		differs = append(differs, Difference{k, b[k], h[k]})
		for _, p := range parts {
			if strings.HasPrefix(k, p.prefix) {
				different[p.prefix] = true
			}
		}
	}
	for _, p := range parts {
		if !different[p.prefix] {
			same = append(same, p.name)
		}
	}
	// Differences that no key of the plan shows: the contents of files, an engine file.
	for _, d := range []struct {
		column    string
		explained []string
	}{{col.ConditionsDigest, []string{col.Client}}, {col.SubjectDigest, []string{col.EngineVersion, col.ImageDigest, col.ModelRevision}}} {
		if slices.ContainsFunc(differs, func(x Difference) bool { return b[x.What] != h[x.What] || slices.Contains(d.explained, x.What) }) {
			continue
		}
		for _, p := range pairs {
			if x, y := seen(p.base, d.column), seen(p.head, d.column); !slices.Equal(x, y) {
				differs = append(differs, Difference{d.column, strings.Join(x, ", "), strings.Join(y, ", ")})
				break
			}
		}
	}
	return differs, same
}

// seen returns the values that the trials of a point that count have in a column.
func seen(p *conclude.Point, column string) []string {
	all := map[string]bool{}
	for _, t := range p.Counting() {
		if v := t.Outcome.Row[column]; v != nil {
			all[humanize.Figure(v)] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// list returns a set of values for people.
func list(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ", ") }

// Keys returns a resolved plan as paths of keys with their values, as JSON but for texts; nil
// if it is none.
func Keys(plan json.RawMessage) map[string]string { return flat(plan, nil) }

// flat is [Keys] without some keys of the plan.
func flat(plan json.RawMessage, without []string) map[string]string {
	var tree map[string]any
	if json.Unmarshal(plan, &tree) != nil {
		return nil // a plan of another version: the digests of the rows tell
	}
	for _, key := range without {
		delete(tree, key)
	}
	out := map[string]string{}
	flatten("", tree, out)
	return out
}

func flatten(path string, v any, out map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			flatten(strings.TrimPrefix(path+"."+key, "."), value, out)
		}
	case string:
		out[path] = v
	default:
		text, err := json.Marshal(v)
		if err != nil { // it came from JSON
			text = fmt.Append(nil, v)
		}
		out[path] = string(text)
	}
}
