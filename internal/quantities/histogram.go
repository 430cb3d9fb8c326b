package quantities

import (
	"math"
	"slices"

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

// Observed is the sum and the count of all that the histogram of a body holds,
// in the canonical unit.
func (f Found) Observed(e *exposition.Exposition) (sum, count float64) {
	for _, h := range f.Histograms(e) {
		if s, ok := snapshot(h); ok {
			sum += s.Sum * scale(f.Series)
			count += s.Count
		}
	}
	return sum, count
}

// snapshot brings a histogram into the form of a snap: the +Inf bucket and the
// count stand for each other where one is missing. It is not ok without both.
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

// advance adds what was gained since the last snap. It is false where the
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

// gained is what all series of a histogram gained together, in the canonical
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
	out := merge(list)
	out.Sum *= h.scale
	out.les = slices.Clone(out.les)
	for i := range out.les {
		out.les[i] *= h.scale
	}
	return out, true
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

// Quantile interpolates linearly inside the bucket in which the q-quantile
// lies, as Prometheus' histogram_quantile does; the first bucket begins at 0.
// There is no answer in the +Inf bucket: its bound says only "more than".
func (s Snap) Quantile(q float64) (float64, bool) {
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
