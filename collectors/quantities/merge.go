package quantities

import (
	"math"
	"slices"

	"sweep.dev/sweep/engine"
)

// A Source is all that was seen of one target.
type Source struct {
	Role, Tier string
	// Windows are what was seen of it, the one to believe first: its metrics,
	// then its iteration statistics.
	Windows []*Window
	// Bracketed says that both the first and the last look succeeded, Apart
	// seconds after each other: without them the gain is unknown.
	Bracketed bool
	Apart     float64
	// Answered are the rounds under load that it answered, in order.
	Answered []int
}

// Window returns the one that has a quantity, or nil.
func (s *Source) Window(quantity string) *Window {
	for _, w := range s.Windows {
		if w.Has(quantity) {
			return w
		}
	}
	return nil
}

// may reports whether the source was never seen and could have the quantity.
func (s *Source) may(quantity string) bool {
	named := false
	for _, w := range s.Windows {
		if w.Bodies > 0 {
			return false
		}
		_, ok := w.Metrics.Series[quantity]
		named = named || ok
	}
	return named
}

// A Group is the targets that tell a quantity together.
type Group struct {
	sources []*Source // those that have it
	unknown bool      // one that could have it was never seen
}

func newGroup(sources []*Source, quantity string) Group {
	var g Group
	for _, s := range sources {
		if s.Window(quantity) != nil {
			g.sources = append(g.sources, s)
		}
		g.unknown = g.unknown || s.may(quantity)
	}
	return g
}

// A View is whom to ask for a quantity.
type View func(quantity string) Group

// Totals returns the view of the whole deployment: a quantity is that of the roles
// that the profile names, else of the engines, else of the frontend, else of
// the router. Never of two tiers: they see the same requests.
func Totals(p *engine.Profile, sources []*Source) View {
	of := func(quantity string, want func(*Source) bool) Group {
		return newGroup(slices.DeleteFunc(slices.Clone(sources), func(s *Source) bool { return !want(s) }), quantity)
	}
	return func(quantity string) Group {
		if roles, ok := p.Totals[quantity]; ok {
			return of(quantity, func(s *Source) bool { return slices.Contains(roles, s.Role) })
		}
		for _, tier := range []string{engine.TierEngine, engine.TierFrontend, engine.TierRouter} {
			if g := of(quantity, func(s *Source) bool { return s.Tier == tier }); g.unknown || len(g.sources) > 0 {
				return g
			}
		}
		return Group{}
	}
}

// Only returns the view of one role.
func Only(role string, sources []*Source) View {
	mine := slices.DeleteFunc(slices.Clone(sources), func(s *Source) bool { return s.Role != role })
	return func(quantity string) Group { return newGroup(mine, quantity) }
}

func (g Group) known() bool { return !g.unknown && len(g.sources) > 0 }

// Gained returns what a counter grew by, over all.
func (g Group) Gained(quantity string) (float64, bool) {
	total := 0.0
	for _, s := range g.sources {
		w := s.Window(quantity)
		if w == nil {
			return 0, false
		}
		n, ok := w.gained(quantity)
		if !ok || !s.Bracketed {
			return 0, false
		}
		total += n
	}
	return total, g.known()
}

// Rate returns what a counter grew by in a second, each over its own time.
func (g Group) Rate(quantity string) (float64, bool) {
	total := 0.0
	for _, s := range g.sources {
		n, ok := s.Window(quantity).gained(quantity)
		if !ok || !s.Bracketed || s.Apart <= 0 {
			return 0, false
		}
		total += n / s.Apart
	}
	return total, g.known()
}

// ratios are the quantities that follow from what two counters gained: part / all
// + plus. They are of sums, never a mean of ratios.
var ratios = map[string]struct {
	part, all string
	plus      float64
}{
	engine.PrefixHitRate:  {engine.PrefixHits, engine.PrefixQueries, 0},
	engine.SpecAcceptRate: {engine.SpecAccepted, engine.SpecDrafted, 0},
	engine.SpecAcceptLen:  {engine.SpecAccepted, engine.SpecDrafts, 1}, // the token that the model itself makes
}

// ratio returns a quantity of ratios; what is no measurement of it is unknown.
func ratio(quantity string, counter func(string) (float64, bool)) (float64, bool) {
	r, ok := ratios[quantity]
	part, ok1 := counter(r.part)
	all, ok2 := counter(r.all)
	q, _ := engine.LookupQuantity(quantity)
	v := part/all + r.plus
	return v, ok && ok1 && ok2 && all > 0 && q.Measured(v)
}

// Ratio returns a quantity that follows from two counters. Both are asked of the servers
// that have the divisor.
func (v View) Ratio(quantity string) (float64, bool) {
	g := v(ratios[quantity].all)
	return ratio(quantity, g.Gained)
}

// Ratio returns what the last body says of a quantity that follows from two counters,
// since the server started.
func (w *Window) Ratio(quantity string) (float64, bool) {
	return ratio(quantity, func(counter string) (float64, bool) {
		n, ok := w.Last[counter]
		return n, ok
	})
}

// PartOf returns the counter that a ratio counts, "" for a quantity that is none.
func PartOf(quantity string) string { return ratios[quantity].part }

// Histogram returns what a histogram gained, over all.
func (g Group) Histogram(quantity string) (Snap, bool) {
	var list []Snap
	for _, s := range g.sources {
		h, ok := s.Window(quantity).hists[quantity].gained()
		if !ok || !s.Bracketed {
			return Snap{}, false
		}
		list = append(list, h)
	}
	out := merge(list)
	return out, g.known() && out.Count > 0
}

// A Moment is one round's value of a gauge, over all.
type Moment struct {
	Round       int
	Value, Most float64
}

// Moments returns the rounds under load in which all answered, and none left out
// what it had told before. One of which a server is missing would be a smaller
// sum than there was.
func (g Group) Moments(quantity string) []Moment {
	if !g.known() {
		return nil
	}
	answered := make(map[int]int)
	parts := make(map[int][]part)
	for _, s := range g.sources {
		for _, r := range s.Answered {
			answered[r]++
		}
		weight := g.capacity(s)
		seen := s.Window(quantity).gauges[quantity].seen
		told := make(map[int]bool, len(seen))
		for _, v := range seen {
			told[v.round] = true
			if v.loaded {
				parts[v.round] = append(parts[v.round], part{v.sum / float64(v.n), v.most, weight})
			}
		}
		// Of iteration statistics a server at rest has none.
		if s.Window(quantity) != s.Windows[0] {
			continue
		}
		for _, r := range s.Answered {
			if r > seen[0].round && !told[r] {
				delete(answered, r)
			}
		}
	}
	var out []Moment
	for _, r := range g.sources[0].Answered {
		if answered[r] == len(g.sources) && len(parts[r]) > 0 {
			v, most := ruleOf(quantity).of(parts[r])
			out = append(out, Moment{r, v, most})
		}
	}
	return out
}

// capacity returns the size of a server's KV cache in a unit that all servers tell,
// or 0.
func (g Group) capacity(of *Source) float64 {
	for _, quantity := range []string{engine.KVCacheTokens, engine.KVCacheBlocks} {
		if !slices.ContainsFunc(g.sources, func(s *Source) bool { return s.Window(quantity) == nil }) {
			return of.Window(quantity).gauges[quantity].last
		}
	}
	return 0
}

// Gauge returns the mean and the most of a gauge under load.
func (g Group) Gauge(quantity string) (average, most float64, ok bool) {
	return Average(g.Moments(quantity))
}

// Average returns the mean and the most of some moments; not ok if there are none.
func Average(list []Moment) (average, most float64, ok bool) {
	most = math.Inf(-1)
	for _, m := range list {
		average += m.Value
		most = max(most, m.Most)
	}
	return average / float64(len(list)), most, len(list) > 0
}

// Last returns what a gauge said last, under load or not.
func (g Group) Last(quantity string) (float64, bool) {
	if !g.known() {
		return 0, false
	}
	var parts []part
	for _, s := range g.sources {
		v := s.Window(quantity).gauges[quantity].last
		parts = append(parts, part{value: v, most: v})
	}
	v, _ := ruleOf(quantity).of(parts)
	return v, true
}

// Least returns the lowest that a gauge ever said.
func (g Group) Least(quantity string) (float64, bool) {
	least := math.Inf(1)
	for _, s := range g.sources {
		for _, v := range s.Window(quantity).gauges[quantity].seen {
			least = min(least, v.sum/float64(v.n))
		}
	}
	return least, g.known()
}
