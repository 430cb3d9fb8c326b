// Package quantities turns what servers expose into the canonical quantities
// of package engine: it finds their series under every name that an engine has
// for them, follows them over a trial, and adds up what several servers say.
//
// It has no clock and does no I/O.
package quantities

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
)

// A Found series is one of the ways of an engine to expose a quantity, under
// the names that a body really has. Their prefix is settled once, so that what
// is added up or multiplied comes from one namespace: a gateway may expose
// everything under an old and a new one.
type Found struct {
	engine.Series
	Quantity engine.Quantity // what it is; the zero value is anything
	Names    []string        // Name and Plus, as in the body
	Second   string          // the name of Times, as in the body
	Needed   string          // the name of Needs, as in the body
	// Zero says that the body does not have the series, which means 0. Names is then
	// that of the series that says so.
	Zero bool
}

// Unit returns that of the values.
func (f Found) Unit() string { return cmp.Or(f.Series.Unit, f.Quantity.Unit) }

// Find looks for a series in a body under each of the engine's prefixes, and
// for a counter with and without _total. A series without a known value is not
// there.
func Find(e *exposition.Exposition, s engine.Series, prefixes []string, q engine.Quantity) (Found, bool) {
	kind := q.Kind
	for _, rename := range Renames(s.Name, prefixes) {
		f := Found{Series: s, Quantity: q}
		ok := true
		for i, name := range append([]string{s.Name}, s.Plus...) {
			name = Spelling(e, rename(name), kind)
			f.Names = append(f.Names, name)
			ok = ok && (i > 0 || exists(e, name))
		}
		if s.Times != nil && s.Times.Name != "" {
			f.Second = Spelling(e, rename(s.Times.Name), engine.Gauge)
		}
		if s.Needs != nil {
			f.Needed = Spelling(e, rename(s.Needs.Name), engine.Counter)
		}
		if !ok {
			continue
		}
		if kind == engine.Histogram {
			if len(f.Histograms(e)) > 0 {
				return f, true
			}
			continue
		}
		if len(f.Points(e)) > 0 {
			return f, true
		}
	}
	return Found{}, false
}

// findZero looks for the series beside which a counter is 0 that the body does not
// have. The body must be complete: the counter may stand in what is missing.
func findZero(e *exposition.Exposition, s engine.Series, prefixes []string, q engine.Quantity) (Found, bool) {
	if s.Zero == nil || e.Dropped > 0 {
		return Found{}, false
	}
	for _, rename := range Renames(s.Name, prefixes) {
		name := Spelling(e, rename(s.Zero.Name), engine.Counter)
		if len(second(e, s.Zero, name)) > 0 {
			return Found{Series: s, Quantity: q, Names: []string{name}, Zero: true}, true
		}
	}
	return Found{}, false
}

// Renames returns the ways to write a name: as it stands, and with the further
// prefixes where it has the first.
func Renames(name string, prefixes []string) []func(string) string {
	out := []func(string) string{func(s string) string { return s }}
	if len(prefixes) == 0 || !strings.HasPrefix(name, prefixes[0]) {
		return out
	}
	for _, p := range prefixes[1:] {
		out = append(out, func(s string) string {
			if rest, ok := strings.CutPrefix(s, prefixes[0]); ok {
				return p + rest
			}
			return s
		})
	}
	return out
}

// Spelling returns the name of a counter as the body has it: some clients leave out
// _total, and OpenMetrics demands it.
func Spelling(e *exposition.Exposition, name, kind string) string {
	if kind != engine.Counter || exists(e, name) {
		return name
	}
	other, has := strings.CutSuffix(name, "_total")
	if !has {
		other = name + "_total"
	}
	if exists(e, other) {
		return other
	}
	return name
}

func exists(e *exposition.Exposition, name string) bool {
	return len(e.Named(name)) > 0 || len(e.HistogramsNamed(name)) > 0 || len(partOfHistogram(e, name)) > 0 || len(summaries(e, name)) > 0
}

// partOfHistogram finds x_sum and x_count of a histogram x: what one engine
// counts stands in the other's histogram.
func partOfHistogram(e *exposition.Exposition, name string) []exposition.Point {
	var out []exposition.Point
	for _, suffix := range []string{"_sum", "_count"} {
		base, ok := strings.CutSuffix(name, suffix)
		if !ok {
			continue
		}
		for _, h := range e.HistogramsNamed(base) {
			v := h.Sum
			if suffix == "_count" {
				v = h.Count
			}
			if !math.IsNaN(v) {
				out = append(out, exposition.Point{Name: name, Kind: "counter", Labels: h.Labels, Value: v})
			}
		}
	}
	return out
}

// summaries returns histograms without buckets.
func summaries(e *exposition.Exposition, name string) []exposition.Histogram {
	var out []exposition.Histogram
	for _, sum := range e.Named(name + "_sum") {
		for _, count := range e.Named(name + "_count") {
			if sum.Kind == "summary" && slices.Equal(sum.Labels, count.Labels) {
				out = append(out, exposition.Histogram{Name: name, Labels: sum.Labels, Sum: sum.Value, Count: count.Value})
			}
		}
	}
	return out
}

// Points returns what a body says of the series, each thing once, in the
// canonical unit. What stands for an unknown value is left out.
func (f Found) Points(e *exposition.Exposition) []exposition.Point {
	var out []exposition.Point
	factors, needed := second(e, f.Times, f.Second), second(e, f.Needs, f.Needed)
	for _, name := range f.Names {
		named := e.Named(name)
		if len(named) == 0 {
			named = partOfHistogram(e, name)
		}
		named = slices.DeleteFunc(slices.Clone(named), func(p exposition.Point) bool { return !f.matches(p.Labels) })
		for _, p := range dedup(named) {
			if f.Label != "" {
				v, ok := exposition.ParseValue(value(p.Labels, f.Label))
				if !ok {
					continue // "None" is no value
				}
				p.Value = v
			}
			if slices.Contains(f.Unknown, p.Value) || f.Needs != nil && len(beside(p, needed)) == 0 {
				continue
			}
			if f.Times != nil {
				v, ok := f.factor(p, factors)
				if !ok {
					continue
				}
				p.Value *= v
			}
			if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
				continue // the engine says that there is no value
			}
			p.Value *= scale(f.Series)
			if f.Quantity.Name != "" && !f.Quantity.Measured(p.Value) {
				continue
			}
			out = append(out, p)
		}
	}
	return out
}

// Texts returns the values of a label.
func (f Found) Texts(e *exposition.Exposition) []string {
	var out []string
	for _, p := range e.Named(f.Names[0]) {
		if f.matches(p.Labels) && has(p.Labels, f.Label) {
			out = append(out, value(p.Labels, f.Label))
		}
	}
	return out
}

// second returns the points of the series that Times, Needs or Zero names.
func second(e *exposition.Exposition, s *engine.Series, name string) []exposition.Point {
	if s == nil {
		return nil
	}
	return Found{Series: *s, Names: []string{name}}.Points(e)
}

// factor returns what Times multiplies a point by: a label of the same point, or the
// one of the second series that stands beside it.
func (f Found) factor(p exposition.Point, all []exposition.Point) (float64, bool) {
	t := *f.Times
	if t.Label != "" && (t.Name == "" || t.Name == f.Name) {
		v, ok := exposition.ParseValue(value(p.Labels, t.Label))
		return v * scale(t), ok
	}
	if len(all) != 1 {
		all = beside(p, all)
	}
	if len(all) != 1 {
		return 0, false
	}
	return all[0].Value, true
}

// beside returns those of the points that agree with p in all labels that both have.
func beside(p exposition.Point, points []exposition.Point) []exposition.Point {
	var out []exposition.Point
	for _, q := range points {
		if agree(p.Labels, q.Labels) {
			out = append(out, q)
		}
	}
	return out
}

func agree(a, b []exposition.Label) bool {
	for _, l := range a {
		if l.Name != "pid" && has(b, l.Name) && value(b, l.Name) != l.Value {
			return false
		}
	}
	return true
}

// Histograms returns the series of a histogram, each once.
func (f Found) Histograms(e *exposition.Exposition) []exposition.Histogram {
	named := e.HistogramsNamed(f.Names[0])
	if len(named) == 0 {
		named = summaries(e, f.Names[0])
	}
	named = slices.DeleteFunc(slices.Clone(named), func(h exposition.Histogram) bool { return !f.matches(h.Labels) })
	sets := make([][]exposition.Label, len(named))
	for i, h := range named {
		sets[i] = h.Labels
	}
	counts := keep(sets)
	return slices.DeleteFunc(named, func(h exposition.Histogram) bool { return !counts(h.Labels) })
}

func (f Found) matches(labels []exposition.Label) bool {
	for name, v := range f.Match {
		if value(labels, name) != v {
			return false
		}
	}
	for name, list := range f.Not {
		if slices.Contains(list, value(labels, name)) {
			return false
		}
	}
	return true
}

func value(labels []exposition.Label, name string) string {
	for _, l := range labels {
		if l.Name == name {
			return l.Value
		}
	}
	return ""
}

func has(labels []exposition.Label, name string) bool {
	return slices.ContainsFunc(labels, func(l exposition.Label) bool { return l.Name == name })
}

func without(labels []exposition.Label, names ...string) []exposition.Label {
	return slices.DeleteFunc(slices.Clone(labels), func(l exposition.Label) bool { return slices.Contains(names, l.Name) })
}

// ranks are labels of the parts of one replica, most significant first.
var ranks = []string{"pp_rank", "tp_rank", "moe_ep_rank"}

// generate is the endpoint of a Dynamo worker that serves requests; others
// answer questions of the router.
const generate = "generate"

// keep finds, for series that several parts of one engine export, which of
// them count: the parts of one replica say the same thing again.
//
//   - tensor, pipeline and expert ranks: of series that differ only in those,
//     the one of the lowest ranks; data-parallel ranks are replicas and stay
//   - priorities: the one for all of them, whose label is empty
//   - endpoints of a Dynamo worker: generate
func keep(sets [][]exposition.Label) func([]exposition.Label) bool {
	anyTotal, anyGenerate := false, false
	lowest := make(map[string][]exposition.Label)
	for _, l := range sets {
		anyTotal = anyTotal || has(l, "priority") && value(l, "priority") == ""
		anyGenerate = anyGenerate || value(l, "dynamo_endpoint") == generate
		key := replicaKey(l)
		if was, ok := lowest[key]; !ok || below(l, was) {
			lowest[key] = l
		}
	}
	return func(l []exposition.Label) bool {
		switch {
		case anyTotal && value(l, "priority") != "":
			return false
		case anyGenerate && has(l, "dynamo_endpoint") && value(l, "dynamo_endpoint") != generate:
			return false
		}
		first := lowest[replicaKey(l)]
		return !below(first, l) && !below(l, first)
	}
}

func replicaKey(labels []exposition.Label) string {
	return exposition.LabelString(without(labels, append([]string{"pid"}, ranks...)...))
}

// below reports whether the ranks of a come before those of b.
func below(a, b []exposition.Label) bool {
	for _, name := range ranks {
		x, okx := exposition.ParseValue(value(a, name))
		y, oky := exposition.ParseValue(value(b, name))
		if okx && oky && x != y {
			return x < y
		}
	}
	return false
}

func dedup(in []exposition.Point) []exposition.Point {
	sets := make([][]exposition.Label, len(in))
	for i, p := range in {
		sets[i] = p.Labels
	}
	counts := keep(sets)
	var out []exposition.Point
	byPID := make(map[string]int)
	for _, p := range in {
		if !counts(p.Labels) {
			continue
		}
		if !has(p.Labels, "pid") {
			out = append(out, p)
			continue
		}
		// Python's multiprocess mode exports a gauge once for each process,
		// most of which never set it.
		p.Labels = without(p.Labels, "pid")
		key := p.Name + "{" + exposition.LabelString(p.Labels)
		i, seen := byPID[key]
		switch {
		case !seen:
			byPID[key] = len(out)
			out = append(out, p)
		case p.Value > out[i].Value || math.IsNaN(out[i].Value):
			out[i].Value = p.Value
		}
	}
	return out
}

func scale(s engine.Series) float64 {
	if s.Scale == 0 {
		return 1
	}
	return s.Scale
}
