package objective

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/result/timeline"
)

// crowding returns requests whose latencies say nothing of their order, while the number in
// flight rises and falls once: many come at a time, and a few.
func crowding(n int) []result.Request {
	r := rand.New(rand.NewPCG(1, 6))
	requests, at := make([]result.Request, n), time.Duration(0)
	for i := range requests {
		gap := 100 * time.Millisecond
		if i > n/3 && i < 2*n/3 {
			gap /= 10
		}
		at += gap
		took := time.Duration((1 + r.Float64()/10) * float64(time.Second))
		requests[i] = result.Request{
			N: i, Status: result.Completed, Phase: result.Plateau, FirstToken: result.Never, FirstOutput: result.Never,
			LastToken: result.Never, FirstTokenChunk: -1, Scheduled: at, Sent: at, End: at + took,
		}
	}
	return requests
}

// Values in which no order is seen are worth less where few stretches of the load were seen:
// in an open loop, and by how far the limit is away.
func TestDecide_crowd(t *testing.T) {
	t.Parallel()
	const n = 150
	requests := crowding(n)
	deff := func(open bool, column string, limit float64) float64 {
		var p result.SLOPart
		span := timeline.Span{From: 0, To: requests[n-1].Sent, Steady: true}
		Of(requests, summary.Options{Open: open, Span: span}).Decide(&p, nil, []Comparison{{Column: column, Op: "<", Limit: limit}}, Confidence)
		return p.Deff
	}
	closed, far, near := deff(false, "p50_e2e_ms", 2000), deff(true, "p50_e2e_ms", 2000), deff(true, "p50_e2e_ms", 1200)
	if closed > 4 || far < 2*closed || near < 2*far {
		t.Errorf("design effects: closed %.1f, far from the limit %.1f, near it %.1f", closed, far, near)
	}
	if rate := deff(true, "error_rate", 0.5); rate > 2 {
		t.Errorf("of an error rate: %.1f", rate)
	}
	// While the load goes on, the same rule says whether it may end.
	w := NewWatch([]Watched{{Parts: [][]Comparison{{{Column: "p50_e2e_ms", Op: "<", Limit: 1100}}}, Confidence: Confidence}}, summary.Options{Open: true})
	for i := range requests {
		w.Add(&requests[i])
	}
	if text, ok := w.Decided(1); ok {
		t.Errorf("%d requests of one stretch: %s", n, text)
	}
}

func TestCrowdOf(t *testing.T) {
	t.Parallel()
	var flights []flight
	for _, r := range crowding(150) {
		flights = append(flights, flight{r.Sent, r.End, true})
	}
	if got := crowdOf(flights); got < 20 {
		t.Errorf("one stretch of three: %.1f", got)
	}
	for i := range flights { // nothing overlaps
		flights[i] = flight{time.Duration(i) * time.Second, time.Duration(i)*time.Second + 1, true}
	}
	if got := crowdOf(flights); got != 1 {
		t.Errorf("one at a time: %.1f", got)
	}
	if got := crowdOf(flights[:minValues-1]); got != 1 {
		t.Errorf("few: %.1f", got)
	}
}

// Trials whose shares differ by more than chance are worth less than their values.
func TestBetween(t *testing.T) {
	t.Parallel()
	trials := func(over ...int) (all []result.SLOPart) {
		for _, n := range over {
			all = append(all, result.SLOPart{Rule: result.RuleShare, N: 1000, Requests: 1000, Over: n, Deff: 1, Allowed: 0.05, Confidence: Confidence})
		}
		return all
	}
	if got := between(trials(20, 22, 19)); !math.IsInf(got, 1) {
		t.Errorf("alike: %.0f", got)
	}
	if got := between(trials(0, 0)); !math.IsInf(got, 1) {
		t.Errorf("none over: %.0f", got)
	}
	if got := between(trials(5, 20, 60)); got > 100 || got < 10 {
		t.Errorf("of launches that differ: %.0f", got)
	}
	if p := pool(trials(5, 20, 60)); p.Verdict != result.SLOUndecided {
		t.Errorf("pooled: %+v", p)
	}
	if p := pool(trials(28, 29, 28)); p.Verdict != result.SLOPass {
		t.Errorf("pooled alike: %+v", p)
	}
}
