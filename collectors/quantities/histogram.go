package quantities

import (
	"math"
	"slices"
	"strconv"

	"sweep.dev/sweep/internal/exposition"
)

// A Snap is one histogram at one moment: cumulative counts by bound. The last
// bound is +Inf. Where the bounds of what it was made from differ les is nil,
// and only the sum and the count mean something.
type Snap struct {
	les, cum   []float64
	Sum, Count float64
}

type histSeries struct {
	last, gain Snap
	changed    bool // its bounds are not what they were
}

type histogram struct {
	series     map[string]*histSeries
	scale      float64
	unknown    bool
	incomplete bool
}

// Snap returns all that the histogram of a body holds, in the canonical unit. It is not
// ok where the body has none.
func (f Found) Snap(e *exposition.Exposition) (Snap, bool) {
	var list []Snap
	for _, h := range f.Histograms(e) {
		if s, ok := snapshot(h); ok {
			list = append(list, s)
		}
	}
	return merge(list).scaled(scale(f.Series)), len(list) > 0
}

// snapshot brings a histogram into the form of a snap: the +Inf bucket and the
// count stand for each other if one is missing. It is not ok without both.
func snapshot(h exposition.Histogram) (Snap, bool) {
	s := Snap{Sum: h.Sum, Count: h.Count}
	for _, b := range h.Buckets {
		s.les = append(s.les, b.Le)
		s.cum = append(s.cum, b.Count)
	}
	if n := len(s.les); n == 0 || !math.IsInf(s.les[n-1], 1) {
		if math.IsNaN(s.Count) {
			return s, false
		}
		s.les = append(s.les, math.Inf(1))
		s.cum = append(s.cum, s.Count)
	}
	if math.IsNaN(s.Count) {
		s.Count = s.cum[len(s.cum)-1]
	}
	return s, true
}

// advance adds what was gained since the last snap. It is false if the
// series fell: then all of now was gained since it began again.
func (h *histSeries) advance(now Snap) bool {
	if !slices.Equal(h.last.les, now.les) {
		h.changed = true
		h.last = now
		return true
	}
	grew := now.Count >= h.last.Count
	for i := range now.cum {
		grew = grew && now.cum[i] >= h.last.cum[i]
	}
	if !grew {
		h.last = Snap{les: now.les, cum: make([]float64, len(now.cum))}
	}
	for i := range now.cum {
		h.gain.cum[i] += now.cum[i] - h.last.cum[i]
	}
	h.gain.Sum += now.Sum - h.last.Sum
	h.gain.Count += now.Count - h.last.Count
	h.last = now
	return grew
}

// gained returns what all series of a histogram gained together, in the canonical
// unit.
func (h *histogram) gained() (Snap, bool) {
	if h == nil || h.unknown || h.incomplete {
		return Snap{}, false
	}
	var list []Snap
	for _, s := range h.series {
		if s.changed {
			return Snap{}, false
		}
		list = append(list, s.gain)
	}
	return merge(list).scaled(h.scale), true
}

// scaled returns s in another unit.
func (s Snap) scaled(by float64) Snap {
	s.Sum *= by
	s.les = slices.Clone(s.les)
	for i := range s.les {
		s.les[i] *= by
	}
	return s
}

// merge adds snaps up, bucket by bucket where all have the same bounds.
func merge(list []Snap) Snap {
	var out Snap
	equal := true
	for i, s := range list {
		out.Sum += s.Sum
		out.Count += s.Count
		if i == 0 {
			out.les, out.cum = s.les, slices.Clone(s.cum)
			continue
		}
		if equal = equal && slices.Equal(out.les, s.les); !equal {
			continue
		}
		for j := range out.cum {
			out.cum[j] += s.cum[j]
		}
	}
	if !equal {
		out.les, out.cum = nil, nil
	}
	return out
}

// An Estimate is what the buckets of a histogram say of a quantile.
type Estimate struct {
	// The quantile lies above Low and is at most High: the bounds of its bucket. Low
	// is 0 in the first, High is +Inf in the last.
	Low, High float64
	// Value is linear inside the bucket, as Prometheus' histogram_quantile has it.
	Value float64
	// Known says that Value means something.
	Known bool
}

// Quantile finds the bucket in which the q-quantile lies; it is not ok if there is
// none. Its place inside the bucket is unknown
//
//   - in a bucket that begins at 0 or has no end: of it only one bound is known,
//     and the quantile may lie orders of magnitude away from that
//   - in a bucket that reaches further than the mean allows: the q-quantile of values
//     that are not negative is at most mean/(1-q) (Markov's inequality), so a line
//     through the whole bucket leads to values that cannot be
func (s Snap) Quantile(q float64) (Estimate, bool) {
	if len(s.cum) == 0 {
		return Estimate{}, false
	}
	total := s.cum[len(s.cum)-1]
	if total <= 0 || math.IsNaN(total) {
		return Estimate{}, false
	}
	rank := q * total
	lo, below := 0.0, 0.0
	for i, le := range s.les {
		cum := max(s.cum[i], below) // a gain of two bodies that were not taken at one moment may dip
		if cum < rank || cum <= below {
			lo, below = max(lo, le), cum
			continue
		}
		if le <= lo {
			return Estimate{Low: le, High: le, Value: le, Known: true}, true // exactly 0
		}
		e := Estimate{Low: lo, High: le}
		if lo > 0 && !math.IsInf(le, 1) && !(le*(1-q) > s.Sum/s.Count) {
			e.Value, e.Known = lo+(le-lo)*(rank-below)/(cum-below), true
		}
		return e, lo > 0 || !math.IsInf(le, 1)
	}
	return Estimate{}, false
}

// Bounds returns those of the bucket in another unit: "< 300", "> 10000", "300 to 500".
func (e Estimate) Bounds(scale float64) string {
	low, high := short(e.Low*scale), short(e.High*scale)
	switch {
	case math.IsInf(e.High, 1):
		return "> " + low
	case e.Low <= 0:
		return "< " + high
	}
	return low + " to " + high
}

// short has six significant digits and no exponent.
func short(v float64) string {
	if digits, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64); err == nil {
		v = digits
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
