package summary

import (
	"math"
	"math/bits"
	"slices"
)

const (
	// radixBits is how many bits of a value one look counts by: its table stays
	// in a core's own cache.
	radixBits = 14
	// fewValues are sorted instead.
	fewValues = 4096
)

// moments are what there is to say of values without their order.
type moments struct {
	mean, std float64 // the population's
	min, max  int64
}

func momentsOf(values []int64) moments {
	m := moments{min: values[0], max: values[0]}
	sum := 0.0
	for _, v := range values {
		sum += float64(v)
		m.min, m.max = min(m.min, v), max(m.max, v)
	}
	m.mean = sum / float64(len(values))
	squares := 0.0
	for _, v := range values {
		d := float64(v) - m.mean
		squares += d * d
	}
	m.std = math.Sqrt(squares / float64(len(values)))
	return m
}

// quantiles returns the p-quantiles of values and of so many more that are
// infinite, for ascending p; linear between order statistics, as
// result.Quantile has them. They are exact. Values are left as they are.
func quantiles(values []int64, m moments, lost int, ps ...float64) []float64 {
	last := float64(len(values) + lost - 1)
	ranks := make([]int, 0, 2*len(ps))
	for _, p := range ps {
		ranks = append(ranks, int(p*last), int(p*last)+1)
	}
	at := ordered(values, m, ranks...)
	out := make([]float64, len(ps))
	for i, p := range ps {
		h := p * last
		rank, t := int(h), h-math.Floor(h)
		a := at(rank)
		switch {
		case t == 0 || math.IsInf(a, 1):
			out[i] = a
		default:
			b := at(rank + 1)
			out[i] = a + (b-a)*t
			if t >= 0.5 && !math.IsInf(b, 1) { // from the nearer end, as result.Quantile
				out[i] = b - (b-a)*(1-t)
			}
		}
	}
	return out
}

// ordered finds the order statistics of values at ranks, from 0, and returns how to
// look one of them up: beyond the values it is infinite. It needs no sort: they are
// found by counting.
func ordered(values []int64, m moments, ranks ...int) func(rank int) float64 {
	n := len(values)
	within := slices.DeleteFunc(slices.Clone(ranks), func(r int) bool { return r < 0 || r >= n })
	slices.Sort(within)
	within = slices.Compact(within)
	found := make([]int64, len(within))
	pick(values, m.min, m.max, within, found)
	return func(rank int) float64 {
		if rank >= n {
			return math.Inf(1)
		}
		i, _ := slices.BinarySearch(within, rank)
		return float64(found[i])
	}
}

// pick finds the order statistics of values at ascending ranks. No value is
// below low or above high.
func pick(values []int64, low, high int64, ranks []int, found []int64) {
	if len(ranks) == 0 {
		return
	}
	if len(values) <= fewValues {
		sorted := slices.Sorted(slices.Values(values))
		for i, r := range ranks {
			found[i] = sorted[r]
		}
		return
	}
	// Digits of the distance from the least: negative values need no care.
	shift := max(0, bits.Len64(uint64(high)-uint64(low))-radixBits)
	counts := make([]uint32, 1<<radixBits)
	for _, v := range values {
		counts[(uint64(v)-uint64(low))>>shift&(1<<radixBits-1)]++
	}
	type part struct {
		digit     int
		below     int // values before it
		from, end int // its ranks
		values    []int64
	}
	var parts []part
	wanted := make([]uint16, 1<<radixBits) // 1 + the part of a digit
	for digit, below, i := 0, 0, 0; i < len(ranks); digit++ {
		count := int(counts[digit])
		from := i
		for i < len(ranks) && ranks[i] < below+count {
			i++
		}
		switch {
		case from == i:
		case shift == 0:
			for j := from; j < i; j++ {
				found[j] = low + int64(digit)
			}
		default:
			parts = append(parts, part{digit, below, from, i, make([]int64, 0, count)})
			wanted[digit] = uint16(len(parts))
		}
		below += count
	}
	if len(parts) == 0 {
		return
	}
	for _, v := range values {
		if k := wanted[(uint64(v)-uint64(low))>>shift&(1<<radixBits-1)]; k > 0 {
			parts[k-1].values = append(parts[k-1].values, v)
		}
	}
	for _, p := range parts {
		within := make([]int, 0, p.end-p.from)
		for _, r := range ranks[p.from:p.end] {
			within = append(within, r-p.below)
		}
		least := int64(uint64(low) + uint64(p.digit)<<shift)
		most := int64(min(uint64(high)-uint64(low), uint64(p.digit+1)<<shift-1) + uint64(low))
		pick(p.values, least, most, within, found[p.from:p.end])
	}
}
