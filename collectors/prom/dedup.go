package prom

import (
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
)

// points returns what a body says of a series, each thing once.
func points(e *exposition.Exposition, s engine.Series) []exposition.Point {
	var out []exposition.Point
	for _, name := range append([]string{s.Name}, s.Plus...) {
		named := e.Named(name)
		if s.Label != "" {
			named = fromLabel(named, s.Label)
		}
		out = append(out, dedup(match(named, s.Match))...)
	}
	return out
}

// fromLabel takes the values out of a label, for series of which the value is
// always 1. A label that is no number ("None") is no value.
func fromLabel(in []exposition.Point, label string) []exposition.Point {
	var out []exposition.Point
	for _, p := range in {
		if v, ok := exposition.ParseValue(value(p.Labels, label)); ok {
			p.Value = v
			out = append(out, p)
		}
	}
	return out
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

func without(labels []exposition.Label, name string) []exposition.Label {
	return slices.DeleteFunc(slices.Clone(labels), func(l exposition.Label) bool { return l.Name == name })
}

func matches(labels []exposition.Label, want map[string]string) bool {
	for name, v := range want {
		if value(labels, name) != v {
			return false
		}
	}
	return true
}

func match(in []exposition.Point, want map[string]string) []exposition.Point {
	if len(want) == 0 {
		return in
	}
	return slices.DeleteFunc(slices.Clone(in), func(p exposition.Point) bool { return !matches(p.Labels, want) })
}

func matchHistograms(in []exposition.Histogram, want map[string]string) []exposition.Histogram {
	return slices.DeleteFunc(slices.Clone(in), func(h exposition.Histogram) bool { return !matches(h.Labels, want) })
}

// keep finds, for series that several parts of one engine export, which of
// them count: the parts of one replica say the same thing again.
//
//   - tensor-parallel ranks: rank 0, unless every rank is a data-parallel
//     replica of its own (then tp_rank and dp_rank agree)
//   - pipeline-parallel ranks: rank 0
//   - priorities: the one for all of them, whose label is empty
func keep(sets [][]exposition.Label) func([]exposition.Label) bool {
	replicas, anyTotal := len(sets) > 0, false
	ranks := make(map[string]bool)
	for _, l := range sets {
		replicas = replicas && has(l, "dp_rank") && value(l, "dp_rank") == value(l, "tp_rank")
		ranks[value(l, "dp_rank")] = true
		anyTotal = anyTotal || has(l, "priority") && value(l, "priority") == ""
	}
	replicas = replicas && len(ranks) > 1
	return func(l []exposition.Label) bool {
		switch {
		case has(l, "tp_rank") && value(l, "tp_rank") != "0" && !replicas:
			return false
		case has(l, "pp_rank") && value(l, "pp_rank") != "0":
			return false
		case anyTotal && value(l, "priority") != "":
			return false
		}
		return true
	}
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
		key := exposition.LabelString(p.Labels)
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

func dedupHistograms(in []exposition.Histogram) []exposition.Histogram {
	sets := make([][]exposition.Label, len(in))
	for i, h := range in {
		sets[i] = h.Labels
	}
	counts := keep(sets)
	return slices.DeleteFunc(slices.Clone(in), func(h exposition.Histogram) bool { return !counts(h.Labels) })
}

func finite(in []exposition.Point) []exposition.Point {
	return slices.DeleteFunc(slices.Clone(in), func(p exposition.Point) bool {
		return math.IsNaN(p.Value) || math.IsInf(p.Value, 0)
	})
}

func scale(s engine.Series) float64 {
	if s.Scale == 0 {
		return 1
	}
	return s.Scale
}

// reduce is one value out of at least one.
func reduce(points []exposition.Point, s engine.Series) float64 {
	sum, highest := 0.0, math.Inf(-1)
	for _, p := range points {
		sum += p.Value
		highest = max(highest, p.Value)
	}
	switch s.Reduce {
	case "max":
		return highest * scale(s)
	case "mean":
		return sum / float64(len(points)) * scale(s)
	default:
		return sum * scale(s)
	}
}

// prefixes are the namespaces of an engine's own series ("vllm:").
func prefixes(p *engine.Profile) []string {
	var out []string
	for _, list := range p.Metrics.Series {
		for _, s := range list {
			if i := strings.IndexByte(s.Name, ':'); i > 0 && !slices.Contains(out, s.Name[:i+1]) {
				out = append(out, s.Name[:i+1])
			}
		}
	}
	return out
}
