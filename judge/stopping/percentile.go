package stopping

import (
	"math"
	"regexp"
	"slices"
	"strconv"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/objective"
)

// An estimate is a figure of a load that becomes known as its requests end.
type estimate interface {
	// add takes a completed request, in the order of their ends, and says whether the
	// figure is known. most is how many have been in flight at once.
	add(q *result.Request, most int) (value float64, ok bool)
	// lose takes a request that failed.
	lose()
	// n is how many requests it rests on, and what the name of the figure.
	n() int
	what() string
}

// percentileMetric is a percentile of a latency, in milliseconds.
var percentileMetric = regexp.MustCompile(`^p([0-9][0-9])_(ttft|tpot|e2e)_ms$`)

func newEstimate(p Precision, open bool) estimate {
	m := percentileMetric.FindStringSubmatch(p.Metric)
	if m == nil {
		return newPrecision(p, open)
	}
	name := p.Metric
	percent, err := strconv.Atoi(m[1])
	if err != nil {
		panic(err) // two digits
	}
	p.Metric = m[2] + "_ms"
	return &percentile{precision: precision{Precision: p, open: open}, name: name, q: float64(percent) / 100, next: max(p.MinRequests, fewestOrdered)}
}

// fewestOrdered is how many requests a percentile takes at the least.
const fewestOrdered = 100

// A percentile is known once both ends of its interval by order statistics
// (objective.Interval) are near enough, at two looks in a row. A failed request is
// infinite. A series that still rises or falls has no percentile yet.
type percentile struct {
	precision
	name string
	q    float64
	next int
}

func (p *percentile) what() string { return p.name }

func (p *percentile) lose() { p.values = append(p.values, math.Inf(1)) }

func (p *percentile) add(q *result.Request, most int) (value float64, ok bool) {
	v, _, has := p.value(q)
	if !has {
		return 0, false
	}
	p.values = append(p.values, v)
	if len(p.values) < max(p.next, perFlight*most) {
		return 0, false
	}
	p.next = int(math.Ceil(longer * float64(len(p.values))))
	values := p.values[int(settling*float64(len(p.values))):]
	low, high := objective.Interval(values, p.q, p.Confidence)
	value = result.Quantile(slices.Sorted(slices.Values(values)), p.q)
	moves := math.Abs(mannKendall(p.batchMeans())) // of failures, not a number
	if far := max(value-low, high-value); !(far <= p.Within*value) || moves > moving {
		p.held = 0
		return 0, false
	}
	p.held++
	return value, p.held >= confirms
}

// The looks at whether objectives are decided. Each is one more chance to be wrong, so
// that the errors of all of them are shared: a load has a look at 60 requests, and then
// whenever half as many again have ended, which makes 16 by 25,000.
const (
	fewestDecided = 60
	looksDecided  = 16
)

// decided says when to look at objectives, and whether that ends the load.
type decided struct{ next int }

func (d *decided) look(w *objective.Watch, least int) (text string, ok bool) {
	n := w.Requests()
	if n < max(d.next, fewestDecided, least) {
		return "", false
	}
	d.next = int(math.Ceil(longer * float64(n)))
	return w.Decided(looksDecided)
}
