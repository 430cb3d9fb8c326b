package timeline

import (
	"cmp"
	"math"
	"slices"
	"time"

	"sweep.dev/sweep/result"
)

const (
	// minSlices is how many slices a drift needs: with eight, a rank test can
	// still say something at its level when two of them are out of order.
	minSlices = 8
	// maxDriftSlices is where more slices would only be more alike.
	maxDriftSlices = 40
	// cycles is how many median requests a slice is long. Requests that begin
	// together go on in waves of their own length, and neighbouring slices that
	// share the same requests are not independent.
	cycles = 2
	// level is the chance that a steady load is taken for one that drifts. A run
	// has hundreds of cells, and three figures in each.
	level = 0.001
)

// A Drift is the trend of a figure over the plateau.
type Drift struct {
	// Change is the relative change from the beginning of the plateau to its
	// end: the median of the last quarter of the slices over that of the first,
	// less 1. A line through all of them would overlook a step near the end.
	Change float64
	// P is the chance to see such a trend where there is none, two-sided, by the
	// rank test of Mann (1945) and Kendall (1975) with ties and with the variance
	// corrected for slices that depend on each other (Hamed and Rao, Journal of
	// Hydrology 204, 1998). Whether they do is asked of what is left without the
	// trend: without Theil and Sen's line (Sen, JASA 63, 1968) or without the
	// best step, whichever leaves less, as either kind of trend left in would
	// look like dependence.
	P float64
	// Slices is what it rests on; 0 where there are too few to say anything, and
	// then Change is 0 and P is 1.
	Slices int
}

// Known says whether there was enough to tell.
func (d Drift) Known() bool { return d.Slices > 0 }

// Significant says whether the trend is more than chance.
func (d Drift) Significant() bool { return d.Known() && d.P < level }

// Drifts are the trends of a trial.
type Drifts struct{ TTFT, TPOT, Throughput Drift }

// DriftOf is how the figures changed over the plateau. It knows nothing of
// trials whose plateau is shorter than sixteen median requests.
func DriftOf(requests []result.Request, s Span, open bool) Drifts {
	unknown := Drift{P: 1}
	none := Drifts{unknown, unknown, unknown}
	var took []int64
	for i := range requests {
		if r := &requests[i]; sent(r) && r.Status == result.Completed {
			took = append(took, int64(Done(r)-r.Sent))
		}
	}
	typical := median(took)
	if !s.Steady || typical <= 0 {
		return none
	}
	n := int(min(int64(s.Length()/(cycles*typical)), maxDriftSlices))
	if n < minSlices {
		return none
	}
	all := cut(requests, s.From, s.Length()/time.Duration(n), n, open, false)
	series := func(value func(Slice) (float64, bool)) Drift {
		var at, v []float64
		for i, slice := range all {
			if x, ok := value(slice); ok {
				at, v = append(at, float64(i)), append(v, x)
			}
		}
		return Trend(at, v)
	}
	known := func(d time.Duration) (float64, bool) { return float64(d), d >= 0 }
	return Drifts{
		TTFT:       series(func(s Slice) (float64, bool) { return known(s.TTFT50) }),
		TPOT:       series(func(s Slice) (float64, bool) { return known(s.TPOT) }),
		Throughput: series(func(s Slice) (float64, bool) { return s.Tokens, true }),
	}
}

// Trend is the drift of values at ascending moments. It is unknown for fewer
// than eight of them, and where the first of them are 0, as that has no ratio.
func Trend(at, values []float64) Drift {
	n := len(values)
	if n < minSlices {
		return Drift{P: 1}
	}
	begin := middle(values[:n/4])
	if begin == 0 {
		return Drift{P: 1}
	}
	return Drift{Change: middle(values[n-n/4:])/begin - 1, P: mannKendall(values, min(dependence(withoutLine(at, values)), dependence(withoutStep(values)))), Slices: n}
}

// middle is the median of values.
func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return result.Quantile(sorted, 0.5)
}

// withoutLine is what is left of values without their line.
func withoutLine(at, values []float64) []float64 {
	slope := senSlope(at, values)
	rest := make([]float64, len(values))
	for i, v := range values {
		rest[i] = v - slope*at[i]
	}
	return rest
}

// withoutStep is what is left of values without the step that leaves the least
// absolute deviation from the medians on its two sides.
func withoutStep(values []float64) []float64 {
	var best []float64
	least := math.Inf(1)
	for k := minSlices / 4; k <= len(values)-minSlices/4; k++ {
		before, after := middle(values[:k]), middle(values[k:])
		rest, sum := make([]float64, len(values)), 0.0
		for i, v := range values {
			rest[i] = v - before
			if i >= k {
				rest[i] = v - after
			}
			sum += math.Abs(rest[i])
		}
		if sum < least {
			least, best = sum, rest
		}
	}
	return best
}

// senSlope is the median of the slopes of all pairs.
func senSlope(at, values []float64) float64 {
	var slopes []float64
	for i := range values {
		for j := i + 1; j < len(values); j++ {
			slopes = append(slopes, (values[j]-values[i])/(at[j]-at[i]))
		}
	}
	slices.Sort(slopes)
	return result.Quantile(slopes, 0.5)
}

// mannKendall is the two-sided p-value of a trend in values; rest is what is
// left of them without it.
func mannKendall(values []float64, dependence float64) float64 {
	n := float64(len(values))
	s := 0
	for i := range values {
		for j := i + 1; j < len(values); j++ {
			s += cmp.Compare(values[j], values[i])
		}
	}
	variance := n * (n - 1) * (2*n + 5)
	for _, t := range ties(values) {
		variance -= t * (t - 1) * (2*t + 5)
	}
	variance = variance / 18 * dependence
	if s == 0 || variance <= 0 {
		return 1
	}
	z := (math.Abs(float64(s)) - 1) / math.Sqrt(variance) // continuity
	return math.Erfc(z / math.Sqrt2)
}

// ties are the sizes of the groups of equal values.
func ties(values []float64) []float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	var sizes []float64
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		sizes = append(sizes, float64(j-i))
		i = j
	}
	return sizes
}

// dependence is by how much the variance of Kendall's S is larger because
// neighbours are alike: Hamed and Rao's 1 + 2/(n(n-1)(n-2)) times the sum over
// the lags k of (n-k)(n-k-1)(n-k-2) times the autocorrelation of the ranks at k,
// where that is more than chance. It is never taken to be below 1.
func dependence(rest []float64) float64 {
	ranks := rank(rest)
	n := float64(len(ranks))
	mean, sum := (n+1)/2, 0.0
	for _, r := range ranks {
		sum += (r - mean) * (r - mean)
	}
	if sum == 0 {
		return 1
	}
	factor := 0.0
	for k := 1; k < len(ranks)-2; k++ {
		rho := 0.0
		for i := range len(ranks) - k {
			rho += (ranks[i] - mean) * (ranks[i+k] - mean)
		}
		rho /= sum
		if math.Abs(rho) < 1.96/math.Sqrt(n) { // 95 % of those of white noise
			continue
		}
		l := n - float64(k)
		factor += l * (l - 1) * (l - 2) * rho
	}
	return max(1, 1+2*factor/(n*(n-1)*(n-2)))
}

// rank are the ranks of values from 1, equal values with their mean.
func rank(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	ranks := make([]float64, len(values))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for k := i; k < j; k++ {
			ranks[order[k]] = float64(i+j+1) / 2
		}
		i = j
	}
	return ranks
}
