package stopping

import (
	"math"
	"time"

	"github.com/aclements/go-moremath/stats"

	"sweep.dev/sweep/internal/quantile"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/timeline"
)

// Precision is how well the mean of a metric, or a percentile, is to be known.
type Precision struct {
	// Metric is ttft_ms, tpot_ms, itl_ms, e2e_ms or throughput_tok_s for its mean, and
	// p95_ttft_ms or its like for a percentile.
	Metric      string
	Within      float64 // half width of the interval, as a share of the value
	Confidence  float64
	MinRequests int // completed
}

// The shape of the batch means, held against AR(1) series and queues in package
// statistics. Requests that share a server are not independent, so the spread of
// single ones says too little of that of their mean; the means of long parts nearly
// are.
const (
	// batches is into how many parts a series is cut.
	batches = 20
	// settling is the share of the series that is left out at its beginning.
	settling = 0.1
	// fewest is how many requests it takes at the least, and perFlight how many
	// for each that is in flight at once: those share their batch and its luck.
	fewest    = 200
	perFlight = 3
	// longer is by what a series is longer when it is looked at again. Each look
	// is one more chance to stop on a lucky moment.
	longer = 1.5
	// confirms is how many looks in a row must find the mean known. With one,
	// queues near their capacity stop at a lucky moment (79 % instead of 95 % at
	// 90 % of an M/M/8's capacity).
	confirms = 2
	// alike is the correlation of neighbouring parts above which they are too
	// short to say anything.
	alike = 0.3
	// moving is the standard score of a trend in the parts from which on the
	// series has no mean yet, whichever way it goes: 1 in 20 of steady ones show
	// it, and go on for a while.
	moving = 1.96
)

// A precision is the interval of confidence of a mean by the method of
// non-overlapping batch means with Student's t of the batches' spread (Law and
// Kelton, Simulation Modeling and Analysis, 9.5.3), amended: what is left of the
// correlation r of neighbouring batches widens it by sqrt((1+r)/(1-r)), so does their
// skewness, and it must hold twice in a row. A series that still rises or falls, or whose parts are
// all equal, has no mean to know.
type precision struct {
	Precision
	open    bool
	values  []float64       // of each completed request: the metric's numerator
	weights []float64       // and its denominator; nil for 1 each
	ends    []time.Duration // for a throughput
	next    int             // length at which to look
	held    int             // looks in a row that found the mean known
}

func newPrecision(p Precision, open bool) *precision {
	return &precision{Precision: p, open: open, next: max(p.MinRequests, fewest)}
}

func (p *precision) n() int { return len(p.values) }

func (p *precision) what() string { return "mean " + p.Metric }

// lose does nothing: the mean is of completed requests.
func (p *precision) lose() {}

// add takes a completed request, and says whether the mean is known.
func (p *precision) add(q *result.Request, most int) (mean float64, ok bool) {
	v, weight, has := p.value(q)
	if !has {
		return 0, false
	}
	p.values = append(p.values, v)
	switch {
	case p.throughput():
		p.ends = append(p.ends, q.End)
	case p.Metric == "itl_ms":
		p.weights = append(p.weights, weight)
	}
	if len(p.values) < max(p.next, perFlight*most) {
		return 0, false
	}
	p.next = int(math.Ceil(longer * float64(len(p.values))))
	means := p.batchMeans()
	mean, half := skewed(means, p.Confidence)
	r := neighbours(means)
	known := mean > 0 && half > 0 && r <= alike && math.Abs(mannKendall(means)) <= moving
	if half *= math.Sqrt((1 + max(0, r)) / (1 - max(0, r))); !known || half > p.Within*mean {
		p.held = 0
		return 0, false
	}
	p.held++
	return mean, p.held >= confirms
}

// neighbours returns the correlation of values with the ones before them, corrected for
// its bias of -(1+3r)/n (Kendall, Biometrika 41, 1954); 0 if all are equal.
func neighbours(values []float64) float64 {
	r, ok := timeline.Neighbours(values)
	if !ok {
		return 0
	}
	return min(r+(1+3*r)/float64(len(values)), 0.99)
}

func (p *precision) throughput() bool { return p.Metric == "throughput_tok_s" }

// value returns the metric of one request as a quotient: in milliseconds, or its output
// tokens. The gaps between all tokens of all requests have the mean of their sums.
func (p *precision) value(q *result.Request) (v, weight float64, ok bool) {
	start := q.Sent
	if p.open {
		start = q.Scheduled
	}
	n := q.CompletionTokens
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	switch p.Metric {
	case "ttft_ms":
		return ms(q.FirstToken - start), 1, q.FirstToken >= 0
	case "e2e_ms":
		return ms(max(q.LastToken, q.End) - start), 1, true
	case "tpot_ms", "itl_ms":
		if q.FirstToken < 0 || q.LastToken < 0 || n < 2 {
			return 0, 0, false
		}
		gaps, count := ms(q.LastToken-q.FirstToken), float64(n-1)
		if p.Metric == "itl_ms" {
			return gaps, count, true
		}
		return gaps / count, 1, true
	case "throughput_tok_s":
		return float64(n), 1, n >= 0
	}
	return 0, 0, false
}

// batchMeans returns the means of the parts: of as many requests each or, for a
// throughput, the tokens per second of equal times. The load's first moments are
// left out.
func (p *precision) batchMeans() []float64 {
	from := int(settling * float64(len(p.values)))
	means := make([]float64, batches)
	if p.throughput() {
		first, last := p.ends[from], p.ends[len(p.ends)-1]
		if last <= first {
			return nil
		}
		for i := from + 1; i < len(p.ends); i++ {
			part := int(batches * float64(p.ends[i]-first) / float64(last-first))
			means[min(max(0, part), batches-1)] += p.values[i]
		}
		for i := range means {
			means[i] /= (last - first).Seconds() / batches
		}
		return means
	}
	size := (len(p.values) - from) / batches
	from = len(p.values) - size*batches
	for i := range means {
		sum, weight := 0.0, 0.0
		for k := from + i*size; k < from+(i+1)*size; k++ {
			sum += p.values[k]
			if p.weights != nil {
				weight += p.weights[k]
			} else {
				weight++
			}
		}
		means[i] = sum / weight
	}
	return means
}

// interval returns the mean of independent values, and the half width of its
// interval of confidence.
func interval(values []float64, confidence float64) (mean, half float64) {
	n := float64(len(values))
	if n < 2 {
		return 0, math.Inf(1)
	}
	return stats.Mean(values), quantile.Student(0.5+confidence/2, n-1) * math.Sqrt(stats.Variance(values)/n)
}

// skewed is interval for values whose mean a few great ones may decide. If there are
// too few of those, the spread knows too little of them, and it is the skewness that
// tells: half is the farther end of Student's interval corrected for it (Willink,
// Communications in Statistics 34, 2005; used for batch means in SKART: Tafazzoli and
// Wilson, IIE Transactions 43, 2011). It is that of interval if the values are
// symmetric, and at most three times as much for 20 values at 95 %.
func skewed(values []float64, confidence float64) (mean, half float64) {
	mean, half = interval(values, confidence)
	n := float64(len(values))
	if n < 3 || half == 0 {
		return mean, half
	}
	squares, cubes := 0.0, 0.0
	for _, v := range values {
		d := v - mean
		squares, cubes = squares+d*d, cubes+d*d*d
	}
	sd := math.Sqrt(squares / (n - 1))
	lean := math.Abs(cubes) * n / ((n - 1) * (n - 2) * sd * sd * sd) / (6 * math.Sqrt(n))
	if lean < 1e-6 { // the correction is nothing, and a quotient of two of them
		return mean, half
	}
	unit := sd / math.Sqrt(n)
	return mean, (1 - math.Cbrt(1-6*lean*(half/unit+lean))) / (2 * lean) * unit
}
