package prom

import (
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
)

// A window follows one target over one trial: what its counters and histograms
// gained between the first and the last body, and what its gauges showed in
// between. It has no clock and does no I/O.
type window struct {
	profile  *engine.Profile
	gauges   map[string]*gauge
	counters map[string]*counter
	hists    map[string]*histogram
	chosen   map[string]engine.Series // which name of a canonical quantity the engine has

	bodies int
	// sure says that the first body was complete. Only then does a series that
	// shows up later start at zero; else it may just have been missed, and its
	// total would be taken for a gain.
	sure bool

	start      float64            // the process's, seconds since the epoch; 0 where unknown
	created    map[string]float64 // of single series
	restarted  string             // how a restart was seen, "" where none was
	vanished   string             // a series that was there and is not any more
	lastValues map[string]float64 // canonical values of the last body
}

func newWindow(p *engine.Profile) *window {
	return &window{
		profile:  p,
		gauges:   make(map[string]*gauge),
		counters: make(map[string]*counter),
		hists:    make(map[string]*histogram),
		chosen:   make(map[string]engine.Series),
		created:  make(map[string]float64),
	}
}

// observe takes one body into account. loaded says that it was fetched while
// the load ran: gauges count only then, since the first and the last body show
// an idle server. whole says that the body was complete; processStart comes
// from outside the body and is 0 where unknown.
func (w *window) observe(e *exposition.Exposition, loaded, whole bool, processStart float64) {
	first := w.bodies == 0
	w.bodies++
	if first {
		w.sure = whole && e.Dropped == 0
	}
	w.lastValues = make(map[string]float64)
	for name, list := range w.profile.Metrics.Series {
		s, ok := w.choose(name, list, e)
		if !ok {
			continue
		}
		switch engine.Canonical(name) {
		case engine.Gauge:
			w.observeGauge(name, s, e, loaded)
		case engine.Counter:
			w.observeCounter(name, s, e, first)
		case engine.Histogram:
			w.observeHistogram(name, s, e, first)
		}
		w.observeCreated(s.Name, e)
	}
	w.observeStart(processStart)
}

// choose finds the name under which the engine has a quantity: the first of
// the list that a body contains, and from then on always that one.
func (w *window) choose(name string, list []engine.Series, e *exposition.Exposition) (engine.Series, bool) {
	if s, ok := w.chosen[name]; ok {
		return s, true
	}
	for _, s := range list {
		if len(e.Named(s.Name)) > 0 || len(e.HistogramsNamed(s.Name)) > 0 {
			w.chosen[name] = s
			return s, true
		}
	}
	return engine.Series{}, false
}

func (w *window) observeGauge(name string, s engine.Series, e *exposition.Exposition, loaded bool) {
	points := finite(points(e, s))
	if len(points) == 0 {
		return
	}
	value, highest := reduce(points, s), math.Inf(-1)
	if s.Reduce == "mean" {
		// Of a share, the fullest replica matters beside the mean.
		for _, p := range points {
			highest = max(highest, p.Value*scale(s))
		}
	} else {
		highest = value
	}
	w.lastValues[name] = value
	if name == engine.ProcessStart {
		w.observeStart(value)
		return
	}
	if !loaded {
		return
	}
	g := w.gauges[name]
	if g == nil {
		g = &gauge{max: math.Inf(-1)}
		w.gauges[name] = g
	}
	g.n++
	g.sum += value
	g.max = max(g.max, highest)
}

func (w *window) observeStart(start float64) {
	const slack = 1 // second: the header of llama.cpp is whole, others are not
	switch {
	case start <= 0:
	case w.start == 0:
		w.start = start
	case math.Abs(start-w.start) > slack:
		w.restarted = "its process started during the trial"
		w.start = start
	}
}

// observeCreated notices a series that was made anew, where the engine tells.
func (w *window) observeCreated(name string, e *exposition.Exposition) {
	for _, p := range e.Named(strings.TrimSuffix(name, "_total") + "_created") {
		key := p.Name + "{" + exposition.LabelString(p.Labels)
		if was, ok := w.created[key]; ok && math.Abs(was-p.Value) > 1 {
			w.restarted = p.Name + " moved during the trial"
		}
		w.created[key] = p.Value
	}
}

func (w *window) observeCounter(name string, s engine.Series, e *exposition.Exposition, first bool) {
	c := w.counters[name]
	if c == nil {
		c = &counter{last: make(map[string]float64)}
		w.counters[name] = c
	}
	points := finite(points(e, s))
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
				w.restarted = p.Name + " fell during the trial"
				was = 0
			}
			c.gain += p.Value - was
		case first:
		case w.sure:
			c.gain += p.Value // made when it was first counted: it began at 0
		default:
			c.unknown = true
		}
	}
	c.incomplete = missing > 0
	if c.incomplete {
		w.vanished = s.Name
	}
	if len(points) > 0 {
		w.lastValues[name] = total * scale(s)
	}
	c.scale = scale(s)
}

func (w *window) observeHistogram(name string, s engine.Series, e *exposition.Exposition, first bool) {
	h := w.hists[name]
	if h == nil {
		h = &histogram{series: make(map[string]*histSeries)}
		w.hists[name] = h
	}
	h.scale = scale(s)
	missing := len(h.series)
	for _, body := range dedupHistograms(matchHistograms(e.HistogramsNamed(s.Name), s.Match)) {
		key := exposition.LabelString(body.Labels)
		was := h.series[key]
		now, ok := snapshot(body)
		if !ok {
			h.unknown = true
			continue
		}
		if was == nil {
			if !first && !w.sure {
				h.unknown = true
			}
			was = &histSeries{last: snap{les: now.les, cum: make([]float64, len(now.cum))}}
			was.gain = snap{les: now.les, cum: make([]float64, len(now.cum))}
			if first {
				was.last = now
			}
			h.series[key] = was
		} else {
			missing--
		}
		if !was.advance(now) {
			w.restarted = s.Name + " fell during the trial"
		}
	}
	h.incomplete = missing > 0
	if h.incomplete {
		w.vanished = s.Name
	}
}

type gauge struct {
	n        int
	sum, max float64
}

type counter struct {
	last       map[string]float64
	gain       float64
	scale      float64
	unknown    bool // something showed up whose beginning nobody saw
	incomplete bool // something is missing from the last body
}

// A snap is one histogram at one moment: cumulative counts by bound. The last
// bound is +Inf.
type snap struct {
	les, cum   []float64
	sum, count float64
}

type histSeries struct {
	last, gain snap
	changed    bool // its bounds are not what they were
}

type histogram struct {
	series     map[string]*histSeries
	scale      float64
	unknown    bool
	incomplete bool
}

// snapshot brings a histogram into the form of a snap: the +Inf bucket and the
// count stand for each other where one is missing. It is not ok without both.
func snapshot(h exposition.Histogram) (snap, bool) {
	s := snap{sum: h.Sum, count: h.Count}
	for _, b := range h.Buckets {
		s.les = append(s.les, b.Le)
		s.cum = append(s.cum, b.Count)
	}
	if n := len(s.les); n == 0 || !math.IsInf(s.les[n-1], 1) {
		if math.IsNaN(s.count) {
			return s, false
		}
		s.les = append(s.les, math.Inf(1))
		s.cum = append(s.cum, s.count)
	}
	if math.IsNaN(s.count) {
		s.count = s.cum[len(s.cum)-1]
	}
	return s, true
}

// advance adds what was gained since the last snap. It is false where the
// series fell: then all of now was gained since it began again.
func (h *histSeries) advance(now snap) bool {
	if !slices.Equal(h.last.les, now.les) {
		h.changed = true
		h.last = now
		return true
	}
	grew := now.count >= h.last.count
	for i := range now.cum {
		grew = grew && now.cum[i] >= h.last.cum[i]
	}
	if !grew {
		h.last = snap{les: now.les, cum: make([]float64, len(now.cum))}
	}
	for i := range now.cum {
		h.gain.cum[i] += now.cum[i] - h.last.cum[i]
	}
	h.gain.sum += now.sum - h.last.sum
	h.gain.count += now.count - h.last.count
	h.last = now
	return grew
}

// merged is what all series of a histogram gained together. Where their bounds
// differ les is nil, and only the sum and the count mean something.
func (h *histogram) merged() (snap, bool) {
	if h == nil || h.unknown || h.incomplete || len(h.series) == 0 {
		return snap{}, false
	}
	var out snap
	begun, equal := false, true
	for _, s := range h.series {
		if s.changed {
			return snap{}, false
		}
		out.sum += s.gain.sum
		out.count += s.gain.count
		switch {
		case !begun:
			out.les, out.cum = s.gain.les, slices.Clone(s.gain.cum)
		case !slices.Equal(out.les, s.gain.les):
			equal = false
		case equal:
			for i := range out.cum {
				out.cum[i] += s.gain.cum[i]
			}
		}
		begun = true
	}
	if !equal {
		out.les, out.cum = nil, nil
	}
	return out, true
}

// quantile interpolates linearly inside the bucket in which the q-quantile
// lies, as Prometheus' histogram_quantile does; the first bucket begins at 0.
// There is no answer in the +Inf bucket: its bound says only "more than".
func (s snap) quantile(q float64) (float64, bool) {
	if len(s.cum) == 0 {
		return 0, false
	}
	total := s.cum[len(s.cum)-1]
	if total <= 0 || math.IsNaN(total) {
		return 0, false
	}
	rank := q * total
	lo, below := 0.0, 0.0
	for i, le := range s.les {
		cum := max(s.cum[i], below) // a gain of two bodies that were not taken at one moment may dip
		if cum >= rank && cum > below {
			switch {
			case math.IsInf(le, 1):
				return 0, false
			case le <= lo:
				return le, true
			}
			return lo + (le-lo)*(rank-below)/(cum-below), true
		}
		lo, below = max(lo, le), cum
	}
	return 0, false
}
