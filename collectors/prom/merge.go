package prom

import (
	"math"
	"slices"

	"sweep.dev/sweep/engine"
)

// A source is all that was seen of one target.
type source struct {
	role, tier string
	metrics    *engine.Metrics
	// windows are what was seen of it, the one to believe first: its metrics,
	// then its iteration statistics.
	windows []*window
	// bracketed says that both the first and the last look succeeded, apart
	// seconds after each other: without them nobody knows what was gained.
	bracketed bool
	apart     float64
	// answered are the rounds under load that it answered, in order.
	answered []int
	// lines and names are of the last body, nil where that is missing.
	lines *lines
}

// lines are the samples of a body, without _created.
type lines struct {
	count int
	names map[string]bool
}

// window is the one that has a quantity, or nil.
func (s *source) window(quantity string) *window {
	for _, w := range s.windows {
		if w.has(quantity) {
			return w
		}
	}
	return nil
}

// may says that the source was never seen and could have the quantity.
func (s *source) may(quantity string) bool {
	for _, w := range s.windows {
		if w.bodies > 0 {
			return false
		}
	}
	_, named := s.metrics.Series[quantity]
	_, iterated := iterations.Series[quantity]
	return named || iterated && s.metrics.Iterations != ""
}

// A group is the targets that tell a quantity together.
type group struct {
	sources []*source // those that have it
	unknown bool      // one that could have it was never seen
}

func newGroup(sources []*source, quantity string) group {
	var g group
	for _, s := range sources {
		if s.window(quantity) != nil {
			g.sources = append(g.sources, s)
		}
		g.unknown = g.unknown || s.may(quantity)
	}
	return g
}

// A view is whom to ask for a quantity.
type view func(quantity string) group

// totals is the view of the whole deployment: a quantity is that of the roles
// that the profile names, else of the engines, else of the frontend, else of
// the router. Never of two tiers: they see the same requests.
func totals(p *engine.Profile, sources []*source) view {
	of := func(quantity string, want func(*source) bool) group {
		return newGroup(slices.DeleteFunc(slices.Clone(sources), func(s *source) bool { return !want(s) }), quantity)
	}
	return func(quantity string) group {
		if roles, ok := p.Totals[quantity]; ok {
			return of(quantity, func(s *source) bool { return slices.Contains(roles, s.role) })
		}
		for _, tier := range []string{engine.TierEngine, engine.TierFrontend, engine.TierRouter} {
			if g := of(quantity, func(s *source) bool { return s.tier == tier }); g.unknown || len(g.sources) > 0 {
				return g
			}
		}
		return group{}
	}
}

// only is the view of one role.
func only(role string, sources []*source) view {
	mine := slices.DeleteFunc(slices.Clone(sources), func(s *source) bool { return s.role != role })
	return func(quantity string) group { return newGroup(mine, quantity) }
}

func (g group) known() bool { return !g.unknown && len(g.sources) > 0 }

// gained is what a counter grew by, over all.
func (g group) gained(quantity string) (float64, bool) {
	total := 0.0
	for _, s := range g.sources {
		w := s.window(quantity)
		if w == nil {
			return 0, false
		}
		n, ok := w.gained(quantity)
		if !ok || !s.bracketed {
			return 0, false
		}
		total += n
	}
	return total, g.known()
}

// rate is what a counter grew by in a second, each over its own time.
func (g group) rate(quantity string) (float64, bool) {
	total := 0.0
	for _, s := range g.sources {
		n, ok := s.window(quantity).gained(quantity)
		if !ok || !s.bracketed || s.apart <= 0 {
			return 0, false
		}
		total += n / s.apart
	}
	return total, g.known()
}

// histogram is what a histogram gained, over all.
func (g group) histogram(quantity string) (snap, bool) {
	var list []snap
	for _, s := range g.sources {
		h, ok := s.window(quantity).hists[quantity].gained()
		if !ok || !s.bracketed {
			return snap{}, false
		}
		list = append(list, h)
	}
	out := merge(list)
	return out, g.known() && out.count > 0
}

// A moment is one round's value of a gauge, over all.
type moment struct {
	round       int
	value, most float64
}

// moments are the rounds under load in which all answered. One of which a
// server is missing would be a smaller sum than there was.
func (g group) moments(quantity string) []moment {
	if !g.known() {
		return nil
	}
	answered := make(map[int]int)
	parts := make(map[int][]part)
	for _, s := range g.sources {
		for _, r := range s.answered {
			answered[r]++
		}
		weight := g.capacity(s)
		for _, v := range s.window(quantity).gauges[quantity].seen {
			if v.loaded {
				parts[v.round] = append(parts[v.round], part{v.sum / float64(v.n), v.most, weight})
			}
		}
	}
	var out []moment
	for _, r := range g.sources[0].answered {
		if answered[r] == len(g.sources) && len(parts[r]) > 0 {
			v, most := ruleOf(quantity).of(parts[r])
			out = append(out, moment{r, v, most})
		}
	}
	return out
}

// capacity is the size of a server's KV cache in a unit that all servers tell,
// or 0.
func (g group) capacity(of *source) float64 {
	for _, quantity := range []string{engine.KVCacheTokens, engine.KVCacheBlocks} {
		if !slices.ContainsFunc(g.sources, func(s *source) bool { return s.window(quantity) == nil }) {
			return of.window(quantity).gauges[quantity].last
		}
	}
	return 0
}

// gauge is the mean and the most of a gauge under load.
func (g group) gauge(quantity string) (average, most float64, ok bool) {
	return averageOf(g.moments(quantity))
}

func averageOf(list []moment) (average, most float64, ok bool) {
	most = math.Inf(-1)
	for _, m := range list {
		average += m.value / float64(len(list))
		most = max(most, m.most)
	}
	return average, most, len(list) > 0
}

// last is what a gauge said last, under load or not.
func (g group) last(quantity string) (float64, bool) {
	if !g.known() {
		return 0, false
	}
	var parts []part
	for _, s := range g.sources {
		v := s.window(quantity).gauges[quantity].last
		parts = append(parts, part{value: v, most: v})
	}
	v, _ := ruleOf(quantity).of(parts)
	return v, true
}

// least is the lowest that a gauge ever said.
func (g group) least(quantity string) (float64, bool) {
	least := math.Inf(1)
	for _, s := range g.sources {
		for _, v := range s.window(quantity).gauges[quantity].seen {
			least = min(least, v.sum/float64(v.n))
		}
	}
	return least, g.known()
}
