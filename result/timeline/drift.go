package timeline

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/aclements/go-moremath/stats"

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
	// Level is the chance that a steady load is taken for one that drifts, of an
	// independent series. A run has hundreds of cells, and three figures in each;
	// queues near their capacity wander far more than the test can know, and come
	// to about 1 in 100 in all.
	Level = 1e-4
	// least is the fewest degrees of freedom that a trend is held against. Series
	// that depend on themselves as much as a random walk have fewer, and never
	// show a trend of 28 standard errors.
	least = 3
	// search is by how much less likely a shape other than a line must be: it is the
	// best of many, and a queue's wandering has one of them more often than
	// independent slices. A step or a settling that matters is far beyond it.
	search = 1e4
	// tooAlike is the correlation of neighbouring slices above which a shape is no
	// evidence: queues stay high for a while.
	tooAlike = 0.6
)

// A Drift is the trend of a figure over the plateau.
type Drift struct {
	// Change is the relative change from the beginning of the plateau to its
	// end: the median of the last quarter of the slices over that of the first,
	// less 1. A line through all of them would overlook a step near the end.
	Change float64
	// P is the chance to see such a trend if there is none, two-sided. The trend
	// is a line or, if that leaves less, a step, a settling or a growth. Its slope is
	// Theil and Sen's (Sen, JASA 63, 1968), held by Student's t against the median
	// absolute deviation of what is left without it, widened for neighbours that are
	// alike: by sqrt((1+r)/(1-r)) for their correlation r without its bias, with as
	// many degrees of freedom fewer (Santer et al., JGR 105, 2000).
	P float64
	// Slices is what it rests on; 0 if there are too few to say anything, and
	// then Change is 0 and P is 1.
	Slices int
}

// Known reports whether there was enough to tell.
func (d Drift) Known() bool { return d.Slices > 0 }

// Drifts are the trends of a trial.
type Drifts struct{ TTFT, TPOT, Throughput Drift }

// DriftOf returns how the figures changed over the plateau. It knows nothing of
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
	all := cut(requests, s.From, s.To, s.Length()/time.Duration(n), n, open, false)
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

// Trend returns the drift of values at ascending moments. It is unknown for fewer
// than eight of them, and where the first of them are 0, as that has no ratio.
func Trend(at, values []float64) Drift {
	n := len(values)
	if n < minSlices {
		return Drift{P: 1}
	}
	begin := result.Median(values[:n/4])
	if begin == 0 {
		return Drift{P: 1}
	}
	return Drift{Change: result.Median(values[n-n/4:])/begin - 1, P: trendP(at, values), Slices: n}
}

// trendP returns the two-sided p-value of the trend in values, of whatever shape.
func trendP(at, values []float64) float64 {
	line := fit(at, values, false)
	p := line.p(1)
	best := line
	for _, shape := range shapes(len(values)) {
		if f := fit(shape, values, true); f.left < best.left {
			best = f
		}
	}
	if best.alike <= tooAlike {
		p = min(p, search*best.p(2))
	}
	return min(1, p)
}

// shapes returns the ways in which a figure of n slices changes besides a line: it settles
// or grows at its ends, or steps with at least a fifth of the slices on either side.
func shapes(n int) [][]float64 {
	of := func(f func(i int) float64) []float64 {
		shape := make([]float64, n)
		for i := range shape {
			shape[i] = f(i)
		}
		return shape
	}
	var all [][]float64
	for _, part := range []float64{0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.4} {
		for _, from := range []int{0, n - 1} {
			all = append(all, of(func(i int) float64 { return math.Exp(-math.Abs(float64(i-from)) / (part * float64(n))) }))
		}
	}
	for k := max(2, n/5); k <= n-max(2, n/5); k++ {
		all = append(all, of(func(i int) float64 {
			if i < k {
				return 0
			}
			return 1
		}))
	}
	return all
}

// A trend is values as a shape times a slope.
type trend struct {
	slope float64
	se    float64 // of the slope, in as many independent values
	left  float64 // the sum of what is left without it, as absolute values
	alike float64 // the correlation of neighbours in that
	n     float64
}

// fit returns the trend of values along x. A wary one takes what is left to be as large as
// its mean says, where the median says less: where a queue is empty half of the time,
// the median knows nothing of the other half.
func fit(x, values []float64, wary bool) trend {
	t := trend{slope: senSlope(x, values), n: float64(len(values))}
	mean, sum := 0.0, 0.0
	rest := make([]float64, len(values))
	for i, v := range values {
		rest[i] = v - t.slope*x[i]
		mean += x[i] / t.n
	}
	center := result.Median(rest)
	from := make([]float64, len(values))
	for i, v := range rest {
		from[i] = math.Abs(v - center)
		t.left += from[i]
		sum += (x[i] - mean) * (x[i] - mean)
	}
	const (
		normal     = 1.4826 // standard deviations in a median absolute deviation
		meanNormal = 1.2533 // and in a mean one
		efficiency = 1.05   // of the least squares' slope against Theil and Sen's
	)
	scale := normal * result.Median(from)
	if mean := meanNormal * t.left / t.n; wary || scale == 0 {
		scale = max(scale, mean)
	}
	t.se = efficiency * scale / math.Sqrt(sum)
	t.alike = alike(rest)
	return t
}

// p returns the two-sided p-value of a trend that was found with so many parameters
// besides its mean.
func (t trend) p(parameters float64) float64 {
	switch {
	case t.slope == 0:
		return 1
	case t.se == 0:
		return 0
	}
	effective := t.n * (1 - t.alike) / (1 + t.alike)
	freedom := max(least, effective-1-parameters)
	score := t.slope / t.se / math.Sqrt((1+t.alike)/(1-t.alike)*effective/freedom)
	return 2 * stats.TDist{V: freedom}.CDF(-math.Abs(score))
}

// alike returns the correlation of the ranks of neighbours in what is left without a
// trend, 0 to 0.97. Taking away a mean and a slope lowers it by about (2 + 4 r) / n,
// which is given back.
func alike(rest []float64) float64 {
	ranks := rank(rest)
	n := float64(len(ranks))
	if r, ok := Neighbours(ranks); ok {
		return min(0.97, max(0, (r*n+2)/(n-4)))
	}
	return 0
}

// Neighbours returns the correlation of values with the ones before them (lag 1), without
// a correction: of n independent values it is about -1/n in the mean. ok is false if
// all are equal.
func Neighbours(values []float64) (r float64, ok bool) {
	mean := 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	sum, product := 0.0, 0.0
	for i, v := range values {
		sum += (v - mean) * (v - mean)
		if i > 0 {
			product += (v - mean) * (values[i-1] - mean)
		}
	}
	return product / sum, sum > 0
}

// senSlope returns the median of the slopes of all pairs.
func senSlope(at, values []float64) float64 {
	slopes := make([]float64, 0, len(values)*(len(values)-1)/2)
	for i := range values {
		for j := i + 1; j < len(values); j++ {
			if at[i] != at[j] {
				slopes = append(slopes, (values[j]-values[i])/(at[j]-at[i]))
			}
		}
	}
	return selectMedian(slopes)
}

// selectMedian returns the middle of values, whose order it changes. It sorts no more of them than it
// has to (Hoare's selection): there are thousands of pairs in a trial.
func selectMedian(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return result.Quantile(values, 0.5)
	}
	k := n / 2
	for low, high := 0, n-1; low < high; {
		ends := []float64{values[low], values[(low+high)/2], values[high]}
		slices.Sort(ends)
		pivot := ends[1]
		i, j := low, high
		for i <= j {
			for cmp.Less(values[i], pivot) {
				i++
			}
			for cmp.Less(pivot, values[j]) {
				j--
			}
			if i <= j {
				values[i], values[j] = values[j], values[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			high = j
		case k >= i:
			low = i
		default:
			low = high
		}
	}
	if n%2 == 1 {
		return values[k]
	}
	return result.Quantile([]float64{slices.Max(values[:k]), values[k]}, 0.5)
}

// rank returns the ranks of values from 1, equal values with their mean.
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
