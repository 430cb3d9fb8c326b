package quantities

import (
	"math"
	"strings"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
)

// A Window follows one target over one trial: what its counters and histograms
// gained between the first and the last body, and what its gauges showed in
// between. It has no clock and does no I/O.
type Window struct {
	Metrics  *engine.Metrics
	gauges   map[string]*gauge
	counters map[string]*counter
	hists    map[string]*histogram
	chosen   map[string]Found // which name of a canonical quantity the engine has

	Bodies int // that it saw
	// sure says that the first body was complete. Only then does a series that
	// shows up later start at zero; else it may just have been missed, and its
	// total would be taken for a gain.
	sure bool

	start     float64            // the process's, seconds since the epoch; 0 if unknown
	created   map[string]float64 // of single series
	Restarted string             // how a restart was seen, "" if none was
	Vanished  string             // a series that was there and is not any more
	Last      map[string]float64 // canonical values of the last body
}

// A Body is what a window sees at one look.
type Body struct {
	*exposition.Exposition
	// Round numbers the looks that all targets are looked at side by side.
	Round int
	// Loaded says that it was fetched while the load ran: gauges count only
	// then, since the first and the last body show an idle server.
	Loaded bool
	Whole  bool // the body was complete
	// ProcessStart comes from outside the body, 0 if unknown; Now is when it
	// was fetched. Both in seconds since the epoch.
	ProcessStart, Now float64
}

// NewWindow returns a window of a target whose series mean m.
func NewWindow(m *engine.Metrics) *Window {
	return &Window{
		Metrics:  m,
		gauges:   make(map[string]*gauge),
		counters: make(map[string]*counter),
		hists:    make(map[string]*histogram),
		chosen:   make(map[string]Found),
		created:  make(map[string]float64),
	}
}

// Observe takes one body into account.
func (w *Window) Observe(b Body) {
	first := w.Bodies == 0
	w.Bodies++
	if first {
		w.sure = b.Whole && b.Dropped == 0
	}
	w.Last = make(map[string]float64)
	for name, list := range w.Metrics.Series {
		f, ok := w.choose(name, list, b)
		if !ok {
			continue
		}
		switch engine.Canonical(name) {
		case engine.Gauge:
			w.observeGauge(name, f, b)
		case engine.Counter:
			w.observeCounter(name, f, b.Exposition, first)
		case engine.Histogram:
			w.observeHistogram(name, f, b.Exposition, first)
		}
		w.observeCreated(f.Names[0], b.Exposition)
	}
	w.observeStart(b.ProcessStart)
	if _, ok := w.Last[engine.Uptime]; !ok && w.start > 0 && b.Now > w.start {
		w.Last[engine.Uptime] = b.Now - w.start
		w.note(engine.Uptime, b, b.Now-w.start, b.Now-w.start)
	}
}

// choose finds the name under which the engine has a quantity: the first of
// the list that a body contains, and from then on always that one. A counter that
// the body does not have may be 0 until then.
func (w *Window) choose(name string, list []engine.Series, b Body) (Found, bool) {
	if f, ok := w.chosen[name]; ok && !f.Zero {
		return f, true
	}
	q, _ := engine.LookupQuantity(name)
	for _, s := range list {
		if f, ok := Find(b.Exposition, s, w.Metrics.Prefixes, q); ok {
			w.chosen[name] = f
			return f, true
		}
	}
	for _, s := range list {
		if f, ok := findZero(b.Exposition, s, w.Metrics.Prefixes, q); ok && b.Whole {
			w.chosen[name] = f
			return f, true
		}
	}
	return Found{}, false
}

func (w *Window) observeGauge(name string, f Found, b Body) {
	points := f.Points(b.Exposition)
	if len(points) == 0 {
		return
	}
	value, most := within(name, f.Series, points)
	w.Last[name] = value
	if name == engine.ProcessStart {
		w.observeStart(value)
	}
	w.note(name, b, value, most)
}

// note keeps a gauge's value of one round. A body that holds several moments
// (iteration statistics) is observed once for each, in one round.
func (w *Window) note(name string, b Body, value, most float64) {
	g := w.gauges[name]
	if g == nil {
		g = new(gauge)
		w.gauges[name] = g
	}
	g.last = value
	if n := len(g.seen); n > 0 && g.seen[n-1].round == b.Round && g.seen[n-1].loaded == b.Loaded {
		s := &g.seen[n-1]
		s.n++
		s.sum += value
		s.most = max(s.most, most)
		return
	}
	g.seen = append(g.seen, sight{round: b.Round, loaded: b.Loaded, n: 1, sum: value, most: most})
}

func (w *Window) observeStart(start float64) {
	const slack = 1 // second: the header of llama.cpp is whole, others are not
	switch {
	case start <= 0:
	case w.start == 0:
		w.start = start
	case math.Abs(start-w.start) > slack:
		w.Restarted = "its process started during the trial"
		w.start = start
	}
}

// observeCreated notices a series that was made anew, where the engine tells.
func (w *Window) observeCreated(name string, e *exposition.Exposition) {
	for _, p := range e.Named(strings.TrimSuffix(name, "_total") + "_created") {
		key := p.Name + "{" + exposition.LabelString(p.Labels)
		if was, ok := w.created[key]; ok && math.Abs(was-p.Value) > 1 {
			w.Restarted = p.Name + " moved during the trial"
		}
		w.created[key] = p.Value
	}
}

func (w *Window) observeCounter(name string, f Found, e *exposition.Exposition, first bool) {
	c := w.counters[name]
	if c == nil {
		c = &counter{last: make(map[string]float64)}
		w.counters[name] = c
	}
	if f.Zero {
		c.zero = true
		w.Last[name] = 0
		return
	}
	points := f.Points(e)
	total := 0.0
	missing := len(c.last)
	for _, p := range points {
		key := p.Name + "{" + exposition.LabelString(p.Labels)
		total += p.Value
		was, known := c.last[key]
		c.last[key] = p.Value
		switch {
		case known:
			missing--
			if p.Value < was {
				w.Restarted = p.Name + " fell during the trial"
				was = 0
			}
			c.gain += p.Value - was
		case first:
		case w.sure || c.zero:
			c.gain += p.Value // made when it was first counted: it began at 0
		default:
			c.unknown = true
		}
	}
	c.incomplete = missing > 0
	if c.incomplete {
		w.Vanished = f.Names[0]
	}
	if len(points) > 0 {
		w.Last[name] = total
	}
}

func (w *Window) observeHistogram(name string, f Found, e *exposition.Exposition, first bool) {
	h := w.hists[name]
	if h == nil {
		h = &histogram{series: make(map[string]*histSeries), scale: scale(f.Series)}
		w.hists[name] = h
	}
	missing := len(h.series)
	for _, b := range f.Histograms(e) {
		key := exposition.LabelString(b.Labels)
		was := h.series[key]
		now, ok := snapshot(b)
		if !ok {
			h.unknown = true
			continue
		}
		if was == nil {
			if !first && !w.sure {
				h.unknown = true
			}
			was = &histSeries{last: Snap{les: now.les, cum: make([]float64, len(now.cum))}}
			was.gain = Snap{les: now.les, cum: make([]float64, len(now.cum))}
			if first {
				was.last = now
			}
			h.series[key] = was
		} else {
			missing--
		}
		if !was.advance(now) {
			w.Restarted = f.Names[0] + " fell during the trial"
		}
	}
	h.incomplete = missing > 0
	if h.incomplete {
		w.Vanished = f.Names[0]
	}
}

// Chosen returns where the engine has a quantity, once a body had it.
func (w *Window) Chosen(quantity string) (Found, bool) {
	f, ok := w.chosen[quantity]
	return f, ok
}

// Has reports whether a body had the quantity.
func (w *Window) Has(name string) bool {
	return w.gauges[name] != nil || w.counters[name] != nil || w.hists[name] != nil
}

// gained returns what a counter grew by over the window.
func (w *Window) gained(name string) (float64, bool) {
	c := w.counters[name]
	if c == nil || c.unknown || c.incomplete || len(c.last) == 0 && !c.zero {
		return 0, false
	}
	return c.gain, true
}

// A gauge is what was seen of one, look by look.
type gauge struct {
	seen []sight
	last float64
}

// A sight is what one round showed: usually one value.
type sight struct {
	round     int
	loaded    bool
	n         int
	sum, most float64
}

type counter struct {
	last       map[string]float64
	gain       float64
	unknown    bool // a series showed up whose beginning was not seen
	incomplete bool // something is missing from the last body
	zero       bool // it was 0 before its first series was made
}
