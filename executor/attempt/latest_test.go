package attempt

import (
	"testing"
	"time"

	"sweep.dev/sweep/result"
)

// TestLatest: the progress of a trial is of its last measured requests that completed,
// from the send in a closed loop, and from when they were due in an open one.
func TestLatest(t *testing.T) {
	t.Parallel()
	request := func(ttft time.Duration) *result.Request {
		return &result.Request{Phase: result.Plateau, Status: result.Completed, Scheduled: 0, Sent: time.Second, FirstToken: time.Second + ttft}
	}
	closed, open := latest{}, latest{open: true}
	if got := closed.p95(); got != nil {
		t.Errorf("of no request: %v", *got)
	}
	warm, failed, empty := request(time.Hour), request(time.Hour), request(0)
	warm.Phase, failed.Status, empty.FirstToken = result.Warmup, result.Failed, result.Never
	for _, r := range []*result.Request{warm, failed, empty} {
		closed.add(r)
	}
	if got := closed.p95(); got != nil {
		t.Errorf("of requests that do not count: %v", *got)
	}
	for range maxLatest {
		closed.add(request(time.Minute)) // all of them are replaced
	}
	for i := range maxLatest {
		closed.add(request(time.Duration(i) * time.Millisecond))
	}
	if got, want := *closed.p95(), 0.95*(maxLatest-1); got < want-0.01 || got > want+0.01 {
		t.Errorf("p95 %v, want %v", got, want)
	}
	if open.add(request(50 * time.Millisecond)); *open.p95() != 1050 {
		t.Errorf("an open loop: %v, want 1050", *open.p95())
	}
}
