package stopping

import (
	"math"
	"time"

	"sweep.dev/sweep/result"
)

// Precision is how well the mean of a metric is to be known.
type Precision struct {
	Metric      string  // ttft_ms, tpot_ms, itl_ms, e2e_ms or throughput_tok_s
	Within      float64 // half width of the interval, as a share of the mean
	Confidence  float64
	MinRequests int // completed
}

// batches is into how many parts a series is cut. Requests that share a server
// are not independent, so the spread of single ones says too little of that of
// their mean; the means of long parts nearly are. Ten parts are what Schmeiser
// recommends at least (Batch size effects in the analysis of simulation output,
// Operations Research 30, 1982): fewer and longer ones are safer.
const batches = 10

// moving is the standard score of a trend in the parts from which on the series
// has no mean yet, whichever way it goes: 1 in 20 of steady ones show it, and go
// on for a while.
const moving = 1.96

// A precision is the interval of confidence of a mean by the method of
// non-overlapping batch means, with Student's t of the batches' spread (Law and
// Kelton, Simulation Modeling and Analysis). It is looked at when the series has
// grown by a fifth. A series that still rises or falls has no mean to know: a
// wide bound would be met in the middle of its way.
type precision struct {
	Precision
	open   bool
	values []float64       // of each completed request: the metric, or its tokens
	ends   []time.Duration // for a throughput
	next   int             // length at which to look
}

func newPrecision(p Precision, open bool) *precision {
	return &precision{Precision: p, open: open, next: max(p.MinRequests, 2*batches)}
}

func (p *precision) n() int { return len(p.values) }

// add takes a completed request, and says whether the mean is known: then with
// its half width.
func (p *precision) add(q *result.Request) (half, mean float64, ok bool) {
	v, has := p.value(q)
	if !has {
		return 0, 0, false
	}
	p.values = append(p.values, v)
	if p.throughput() {
		p.ends = append(p.ends, q.End)
	}
	if len(p.values) < p.next {
		return 0, 0, false
	}
	p.next = int(math.Ceil(growth * float64(p.next)))
	means := p.batchMeans()
	mean, half = interval(means, p.Confidence)
	return half, mean, mean > 0 && half <= p.Within*mean && math.Abs(mannKendall(means)) <= moving
}

func (p *precision) throughput() bool { return p.Metric == "throughput_tok_s" }

// value is the metric of one request, in milliseconds, or its output tokens.
func (p *precision) value(q *result.Request) (float64, bool) {
	start := q.Sent
	if p.open {
		start = q.Scheduled
	}
	n := q.CompletionTokens
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	switch p.Metric {
	case "ttft_ms":
		return ms(q.FirstToken - start), q.FirstToken >= 0
	case "e2e_ms":
		return ms(max(q.LastToken, q.End) - start), true
	case "tpot_ms", "itl_ms": // of a request's tokens, the mean of the gaps is the TPOT
		if q.FirstToken < 0 || q.LastToken < 0 || n < 2 {
			return 0, false
		}
		return ms(q.LastToken-q.FirstToken) / float64(n-1), true
	case "throughput_tok_s":
		return float64(n), n >= 0
	}
	return 0, false
}

// batchMeans are the means of the parts: of as many requests each or, for a
// throughput, the tokens per second of equal times, which begin with the first
// end.
func (p *precision) batchMeans() []float64 {
	means := make([]float64, batches)
	if p.throughput() {
		from, to := p.ends[0], p.ends[len(p.ends)-1]
		if to <= from {
			return nil
		}
		for i, end := range p.ends[1:] {
			part := int(batches * float64(end-from) / float64(to-from))
			means[min(max(0, part), batches-1)] += p.values[i+1]
		}
		for i := range means {
			means[i] /= (to - from).Seconds() / batches
		}
		return means
	}
	// What does not fill the parts is left out at the beginning, where a load
	// still settles.
	size := len(p.values) / batches
	values := p.values[len(p.values)-size*batches:]
	for i := range means {
		for _, v := range values[i*size : (i+1)*size] {
			means[i] += v / float64(size)
		}
	}
	return means
}

// interval is the mean of independent values, and the half width of its
// interval of confidence.
func interval(values []float64, confidence float64) (mean, half float64) {
	n := float64(len(values))
	if n < 2 {
		return 0, math.Inf(1)
	}
	for _, v := range values {
		mean += v / n
	}
	sum := 0.0
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return mean, student(0.5+confidence/2, n-1) * math.Sqrt(sum/(n-1)/n)
}

// student is the quantile of Student's t distribution, by the expansion of
// Cornish and Fisher (Abramowitz and Stegun, 26.7.5): from 9 degrees of freedom
// on right to 0.1 % up to a confidence of 99 %.
func student(p, df float64) float64 {
	z := normal(p)
	z2 := z * z
	g1 := z * (z2 + 1) / 4
	g2 := z * (5*z2*z2 + 16*z2 + 3) / 96
	g3 := z * (3*z2*z2*z2 + 19*z2*z2 + 17*z2 - 15) / 384
	g4 := z * (79*z2*z2*z2*z2 + 776*z2*z2*z2 + 1482*z2*z2 - 1920*z2 - 945) / 92160
	return z + g1/df + g2/(df*df) + g3/(df*df*df) + g4/(df*df*df*df)
}
