package planfile

import (
	"math"

	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
)

// axisRange decodes {from, to, factor} and {from, to, step}.
func (l *loader) axisRange(n *syntax.Node, kind axes.Kind, where string) []plan.Value {
	if kind.Values() == axes.Text || kind.Values() == axes.Spelt {
		l.Report.Node(n, "range", "%s is text and has no ranges", where)
		return nil
	}
	var from, to, factor, step float64
	whole, ok := true, true
	number := func(key string, into *float64, f fieldtag.Field) {
		v := n.Get(key)
		if v == nil {
			return
		}
		if v.Kind == syntax.Float || kind.Values() == axes.Number {
			whole = false
		}
		switch {
		case f.Unit == "tokens" && v.Kind != syntax.Float:
			i, good := l.Int(v, f, where+"."+key)
			*into, ok = float64(i), ok && good
		default:
			x, good := l.Float(v, f, where+"."+key)
			*into, ok = x, ok && good
		}
	}
	for _, e := range n.Entries {
		switch e.Key.Text {
		case "from", "to", "factor", "step":
		default:
			l.Unknown(e.Key, []string{"from", "to", "factor", "step"}, where)
			ok = false
		}
	}
	for _, key := range []string{"from", "to"} {
		if n.Get(key) == nil {
			l.Report.Node(n, "range", "the range of %s has no %s", where, key).Expected = "{from: 1, to: 64, factor: 2} or {from: 8, to: 64, step: 8}"
			ok = false
		}
	}
	zero, one := 0.0, 1.0
	bounds := kind.Field()
	number("from", &from, bounds)
	number("to", &to, bounds)
	number("factor", &factor, fieldtag.Field{Above: &one})
	number("step", &step, fieldtag.Field{Above: &zero, Unit: bounds.Unit})
	if (n.Get("factor") == nil) == (n.Get("step") == nil) {
		l.Report.Node(n, "range", "the range of %s needs exactly one of factor and step", where).Expected = "{from: 1, to: 64, factor: 2} or {from: 8, to: 64, step: 8}"
		ok = false
	}
	if !ok {
		return nil
	}
	switch {
	case to < from:
		l.Report.Node(n, "range", "the range of %s ends before it begins", where).Hint = "ranges go up; list the values for another order"
		return nil
	case factor > 0 && from <= 0:
		l.Report.Node(n, "range", "the range of %s multiplies %v and never gets anywhere", where, from)
		return nil
	case kind.Values() == axes.Count && !whole:
		l.Report.Node(n, "range", "%s takes whole numbers, and this range has others", where)
		return nil
	}
	// Each value is computed from its index, not from the one before: sums of
	// 0.1 drift.
	var out []plan.Value
	slack := 1e-9 * max(math.Abs(from), math.Abs(to)) // what rounding may add up to
	for i := 0; ; i++ {
		x := from + float64(i)*step
		if factor > 0 {
			x = from * math.Pow(factor, float64(i))
		}
		if math.Abs(x) < slack {
			x = 0
		}
		if x > to+slack {
			return out
		}
		if i > DefaultMaxCells {
			l.Report.Node(n, "too-many-cells", "the range of %s has more than %d values", where, DefaultMaxCells)
			return nil
		}
		if whole {
			out = append(out, int64(math.Round(x)))
		} else {
			out = append(out, clean(x))
		}
	}
}

// clean drops the noise of a computed decimal: 0.30000000000000004 is 0.3.
func clean(x float64) float64 {
	scale := math.Pow(10, 12-math.Ceil(math.Log10(max(math.Abs(x), 1e-12))))
	if r := math.Round(x*scale) / scale; !math.IsInf(scale, 0) && !math.IsNaN(r) {
		return r
	}
	return x
}
