package gpu

import "time"

// A mean is that of the values that were added.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum += v; m.n++ }

// A highest is the largest value that was added.
type highest struct {
	v    float64
	seen bool
}

func (h *highest) add(v float64) {
	if !h.seen || v > h.v {
		h.v, h.seen = v, true
	}
}

func (h highest) value() any {
	if !h.seen {
		return nil
	}
	return h.v
}

// A lowest is the least value that was added, negated.
type lowest struct{ highest }

func (l *lowest) add(v float64) { l.highest.add(-v) }

// An integral is power over time, by trapezoids.
type integral struct {
	sum     float64
	at      time.Duration
	v       float64
	known   bool // v was measured
	looks   int
	gaps    int
	between int // stretches that count
}

func (e *integral) add(at time.Duration, v float64, known bool, maxGap time.Duration) {
	if e.looks > 0 {
		if gap := at - e.at; known && e.known && gap <= maxGap {
			e.sum += (v + e.v) / 2 * gap.Seconds()
			e.between++
		} else {
			e.gaps++
		}
	}
	e.at, e.v, e.known = at, v, known
	e.looks++
}

// begin lets it count from here, at first with the value of the look before.
func (e *integral) begin(at time.Duration) {
	if e.looks > 0 {
		*e = integral{at: at, v: e.v, known: e.known, looks: 1}
	}
}

// A counter is the increase of a value that only grows.
type counter struct {
	sum      float64
	at       time.Duration
	v        float64
	known    bool
	skip     time.Duration // of the next stretch, that is before the load
	rest     float64       // of the next increase, from before the load
	between  int           // stretches
	changes  int           // of those in which it moved
	restarts int
}

func (c *counter) add(at time.Duration, v float64) {
	if c.known {
		delta := v - c.v
		switch {
		case delta < 0:
			c.restarts++
		case delta > 0:
			if stretch := at - c.at; c.skip > 0 && stretch > 0 {
				delta *= max(0, 1-c.skip.Seconds()/stretch.Seconds())
			}
			before := min(c.rest, delta)
			c.rest -= before
			c.sum += delta - before
			c.changes++
		}
		c.between++
	}
	c.at, c.v, c.known, c.skip = at, v, true, 0
}

// begin lets it count from here. rate is how fast it grew before the load, per
// second; negative where that is not known.
func (c *counter) begin(at time.Duration, rate float64) {
	*c = counter{at: c.at, v: c.v, known: c.known}
	if !c.known {
		return
	}
	if rate < 0 {
		c.skip = max(0, at-c.at)
		return
	}
	// Not added to v: an exporter may say the same value once more, which is no
	// counter that fell.
	c.rest = rate * max(0, at-c.at).Seconds()
	c.at = at
}

// trusted reports whether differences of the counter are the trial's. One that
// moves at fewer than half of the looks is not: an exporter's values may be half
// a minute old, and some GPUs have a counter that stands still.
func (c *counter) trusted() bool {
	return c.between > 0 && c.restarts == 0 && c.changes > 0 && 2*c.changes >= c.between
}
