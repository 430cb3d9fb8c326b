package objective

import (
	"slices"

	"sweep.dev/sweep/result"
)

// Implies reports whether an objective that is kept means that another is kept too, each given
// by its parts with their sides: every part of the other has a bound that is no tighter than
// one of the first. It is false if that cannot be told, as of parts that are no comparison.
func Implies(strict, loose [][]Comparison) bool {
	for _, part := range loose {
		if !slices.ContainsFunc(strict, func(s []Comparison) bool { return covers(s, part) }) {
			return false
		}
	}
	return len(loose) > 0
}

// covers reports whether a part, any side of which may be what is kept, means that a side of
// another is kept.
func covers(strict, loose []Comparison) bool {
	for _, s := range strict {
		if !slices.ContainsFunc(loose, s.implies) {
			return false
		}
	}
	return len(strict) > 0
}

// implies reports whether a comparison means another: of the same figure, or of a lower
// percentile of the same latency.
func (c Comparison) implies(o Comparison) bool {
	of, other := c.way(), o.way()
	if of.rule == result.RuleShare && other.rule == result.RuleShare && of.latency != "" {
		return of.latency == other.latency && of.window == other.window && of.quantile >= other.quantile &&
			(of.limit < other.limit || of.limit == other.limit && tighter(c.Op, o.Op))
	}
	switch {
	case c.Column == "" || c.Column != o.Column || c.upper() != o.upper():
		return false
	case c.Limit == o.Limit:
		return tighter(c.Op, o.Op)
	}
	return c.upper() == (c.Limit < o.Limit)
}

// tighter reports whether one operator at a bound means the other there.
func tighter(op, other string) bool { return op == "<" || op == ">" || other == "<=" || other == ">=" }
