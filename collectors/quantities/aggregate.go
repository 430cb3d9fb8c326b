package quantities

import (
	"math"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
)

// A rule says how a gauge of several replicas becomes one: the ranks of one
// body first, then the servers of a role.
type rule string

const (
	sum      rule = "sum"
	mean     rule = "mean"
	weighted rule = "weighted" // mean by the size of the KV cache, equal where it is not known
	highest  rule = "max"
	lowest   rule = "min"
)

// rules are those of the gauges of which the sum is not what they mean.
var rules = map[string]rule{
	engine.KVCacheUsage:   weighted,
	engine.PrefixHitRate:  mean,
	engine.SpecAcceptRate: mean,
	engine.SpecAcceptLen:  mean,
	engine.TransportUp:    lowest,
	engine.ProcessStart:   highest, // one that started later restarted
	engine.Uptime:         lowest,
}

func ruleOf(quantity string) rule {
	if r, ok := rules[quantity]; ok {
		return r
	}
	return sum
}

// within returns one value of the points of one body, and the highest of what it
// was made from where that says more (the fullest of several caches).
func within(quantity string, s engine.Series, points []exposition.Point) (v, most float64) {
	r := ruleOf(quantity)
	if s.Reduce != "" {
		r = rule(s.Reduce)
	}
	values := make([]part, len(points))
	for i, p := range points {
		values[i] = part{value: p.Value, most: p.Value}
		if quantity == engine.TransportUp && p.Value != 1 {
			values[i].value = 0 // a state that is not "connected", whatever else
		}
	}
	return r.of(values)
}

// A part is one of the values that a rule makes one of.
type part struct{ value, most, weight float64 }

// of applies the rule to at least one part.
func (r rule) of(parts []part) (v, most float64) {
	var total, weights, scaled float64
	low, high, top := math.Inf(1), math.Inf(-1), math.Inf(-1)
	known := true
	for _, p := range parts {
		total += p.value
		weights += p.weight
		scaled += p.value * p.weight
		known = known && p.weight > 0
		low, high, top = min(low, p.value), max(high, p.value), max(top, p.most)
	}
	switch r {
	case mean:
		return total / float64(len(parts)), top
	case weighted:
		if known {
			return scaled / weights, top
		}
		return total / float64(len(parts)), top
	case highest:
		return high, high
	case lowest:
		return low, low
	}
	if len(parts) == 1 {
		return total, top
	}
	return total, total // the most of each was not at one moment
}
