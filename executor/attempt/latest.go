package attempt

import (
	"slices"
	"time"

	"sweep.dev/sweep/result"
)

// maxLatest bounds the requests that the progress of a trial rests on.
const maxLatest = 1000

// latest are the times to first token of the last measured requests that completed, in
// milliseconds: for people who watch. The rows are made of the records.
type latest struct {
	open bool // an open loop: the time counts from when a request was due
	ttft []float64
	next int // the oldest, once there are maxLatest
}

func (l *latest) add(r *result.Request) {
	from := r.Sent
	if l.open {
		from = r.Scheduled
	}
	if !r.Measured() || r.Status != result.Completed || r.FirstToken < 0 || from < 0 {
		return
	}
	ms := float64(r.FirstToken-from) / float64(time.Millisecond)
	if len(l.ttft) < maxLatest {
		l.ttft = append(l.ttft, ms)
		return
	}
	l.ttft[l.next] = ms
	l.next = (l.next + 1) % maxLatest
}

// p95 returns their 95th percentile; nil if there is none.
func (l *latest) p95() *float64 {
	if len(l.ttft) == 0 {
		return nil
	}
	v := result.Quantile(slices.Sorted(slices.Values(l.ttft)), 0.95)
	return &v
}
