package loadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
)

// Contract holds a driver against what [load.Driver] promises. open makes a
// driver that streams from the chat endpoint at url, with usage, and releases
// it at the end of the test.
func Contract(t *testing.T, open func(t *testing.T, url string) load.Driver) {
	tests := []struct {
		name  string
		waits bool // more than it sends: it runs beside others
		run   func(t *testing.T, open func(t *testing.T, url string) load.Driver)
	}{
		{"closed loop", false, contractClosed},
		{"open loop", false, contractOpen},
		{"shards", false, contractShards},
		{"failures", true, contractFailures},
		{"end of the context", true, contractEnd},
		{"refusals", true, contractRefusals},
		{"end of a pause", true, contractPause},
		{"nothing to do", false, contractNothing},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			if c.waits {
				t.Parallel()
			}
			c.run(t, open)
		})
	}
}

// A log records requests, and finds fault with being called by two at once.
type log struct {
	busy chan struct{}
	rows []result.Request
}

func newLog() *log { return &log{busy: make(chan struct{}, 1)} }

func (l *log) Record(r result.Request) {
	select {
	case l.busy <- struct{}{}:
	default:
		panic("Record is called by two goroutines at once")
	}
	l.rows = append(l.rows, r)
	<-l.busy
}

// A serial source finds the same fault with Next, and counts what was taken.
type serial struct {
	load.Source
	busy  chan struct{}
	taken []int
}

func (s *serial) Next(slot int, prev *result.Request) (load.Job, bool) {
	select {
	case s.busy <- struct{}{}:
	default:
		panic("Next is called by two goroutines at once")
	}
	j, ok := s.Source.Next(slot, prev)
	if ok {
		s.taken = append(s.taken, j.N)
	}
	<-s.busy
	return j, ok
}

// contractRun runs one load and checks that every job that was taken is
// recorded exactly once.
func contractRun(t *testing.T, ctx context.Context, d load.Driver, c source.Config, opts load.Options) []result.Request {
	t.Helper()
	c.Cell, c.MaxTokens, c.Prompts = "contract", 6, source.Prompts{InputTokens: 16}
	inner, err := source.New(c)
	if err != nil {
		t.Fatal(err)
	}
	src := &serial{Source: inner, busy: make(chan struct{}, 1)}
	rec := newLog()
	opts.Anchor = result.NewAnchor()
	h, err := d.Run(ctx, src, rec, opts)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	stamped := false
	var got []int
	for _, r := range rec.rows {
		got = append(got, r.N)
		stamped = stamped || r.Stamp != ""
		switch r.Status {
		case result.Completed, result.Cancelled:
			if r.ErrorClass != "" {
				t.Errorf("request %d: %s with the class %s", r.N, r.Status, r.ErrorClass)
			}
		case result.Failed:
			if r.ErrorClass == "" || r.Error == "" {
				t.Errorf("request %d: failed for no reason", r.N)
			}
		default:
			t.Errorf("request %d: status %q", r.N, r.Status)
		}
		if r.End == result.Never || r.Sent != result.Never && r.Sent < r.Scheduled {
			t.Errorf("request %d: scheduled %v, sent %v, ended %v", r.N, r.Scheduled, r.Sent, r.End)
		}
	}
	if stamped != (h.StampKind != "") {
		t.Errorf("answers were stamped: %v; Health says %q", stamped, h.StampKind)
	}
	slices.Sort(got)
	slices.Sort(src.taken)
	if !slices.Equal(got, src.taken) {
		t.Fatalf("taken %v\nrecorded %v", src.taken, got)
	}
	return rec.rows
}

func contractClosed(t *testing.T, open func(*testing.T, string) load.Driver) {
	e := New(func(*Request) Answer { return Answer{TTFT: 20 * time.Millisecond, ITL: 2 * time.Millisecond} })
	defer e.Close()
	rows := contractRun(t, t.Context(), open(t, e.URL), source.Config{Concurrency: 3, Requests: 12}, load.Options{RequestID: "x"})
	stats := e.Stats()
	if len(rows) != 12 || stats.Requests != 12 || stats.Peak != 3 {
		t.Errorf("%d rows; the server saw %d requests, %d at once", len(rows), stats.Requests, stats.Peak)
	}
	for _, r := range rows {
		id := fmt.Sprintf("x-s0-n%d", r.N)
		if r.Status != result.Completed || r.CompletionTokens != 6 || stats.Tokens[id] != 6 {
			t.Errorf("%s: %s %s, %d tokens of %d", id, r.Status, r.Error, r.CompletionTokens, stats.Tokens[id])
		}
		if r.FirstToken-r.Sent < 20*time.Millisecond || r.LastToken-r.Sent < 30*time.Millisecond {
			t.Errorf("%s: first token after %v, last after %v", id, r.FirstToken-r.Sent, r.LastToken-r.Sent)
		}
	}
}

func contractOpen(t *testing.T, open func(*testing.T, string) load.Driver) {
	e := New(func(*Request) Answer { return Answer{TTFT: 100 * time.Millisecond} })
	defer e.Close()
	rows := contractRun(t, t.Context(), open(t, e.URL),
		source.Config{Pace: arrivals.Steady(100, arrivals.Process{Kind: arrivals.Constant}), Requests: 20}, load.Options{})
	if p := e.Stats().Peak; p < 3 {
		t.Errorf("%d at once: requests wait for each other", p)
	}
	slices.SortFunc(rows, func(a, b result.Request) int { return a.N - b.N })
	for i, r := range rows {
		if got, want := r.Scheduled-rows[0].Scheduled, time.Duration(i)*10*time.Millisecond; got != want {
			t.Errorf("request %d is due after %v, not %v", i, got, want)
		}
	}
}

func contractShards(t *testing.T, open func(*testing.T, string) load.Driver) {
	e := New(nil)
	defer e.Close()
	seen := map[int]bool{}
	for i := range 2 {
		rows := contractRun(t, t.Context(), open(t, e.URL),
			source.Config{Concurrency: 3, Requests: 7, Shard: source.Shard{Index: i, Of: 2}}, load.Options{RequestID: "x"})
		for _, r := range rows {
			if r.Shard != i || seen[r.N] || e.Stats().Tokens[fmt.Sprintf("x-s%d-n%d", i, r.N)] != 6 {
				t.Errorf("shard %d: %+v", i, r)
			}
			seen[r.N] = true
		}
	}
	if len(seen) != 7 {
		t.Errorf("%d requests of 7", len(seen))
	}
}

func contractFailures(t *testing.T, open func(*testing.T, string) load.Driver) {
	faults := []Fault{HangBeforeHeaders, None, HangMidStream, ResetMidStream, EndMidStream, ErrorObject, Garbage}
	e := New(func(r *Request) Answer { return Answer{Fault: faults[r.N%len(faults)], After: 2} })
	defer e.Close()
	rows := contractRun(t, t.Context(), open(t, e.URL),
		source.Config{Concurrency: 1, Requests: len(faults), Deadline: 300 * time.Millisecond}, load.Options{})
	if n := len(e.Requests()); n != len(faults) {
		t.Errorf("the server saw %d requests for %d: one was sent again", n, len(faults))
	}
	for _, r := range rows {
		want := result.Failed
		if faults[r.N] == None {
			want = result.Completed
		}
		if r.Status != want {
			t.Errorf("fault %d: %s %s", faults[r.N], r.Status, r.Error)
		}
	}
}

func contractEnd(t *testing.T, open func(*testing.T, string) load.Driver) {
	ctx, cancel := context.WithCancelCause(t.Context())
	e := New(func(r *Request) Answer {
		if r.N == 3 {
			cancel(errors.New("enough"))
		}
		if r.N%2 == 1 {
			return Answer{Fault: HangMidStream, After: 1}
		}
		return Answer{TTFT: 100 * time.Millisecond}
	})
	defer e.Close()
	start := time.Now()
	rows := contractRun(t, ctx, open(t, e.URL), source.Config{Concurrency: 4, Requests: 1000}, load.Options{Drain: 700 * time.Millisecond})
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v with a drain of 700ms", took)
	}
	status := map[result.Status]int{}
	for _, r := range rows {
		status[r.Status]++
	}
	if status[result.Completed] == 0 || status[result.Cancelled] == 0 || status[result.Failed] > 0 || len(rows) > 100 {
		t.Errorf("%v", status)
	}
}

// contractRefusals: slots pause after a refusal, and no pause counts as lateness.
func contractRefusals(t *testing.T, open func(*testing.T, string) load.Driver) {
	e := New(func(*Request) Answer { return Answer{Fault: Status, Code: 503} })
	defer e.Close()
	const slots = 4
	rows := contractRun(t, t.Context(), open(t, e.URL), source.Config{Concurrency: slots, Duration: 700 * time.Millisecond}, load.Options{})
	// 10, 20, 40 ... 320 ms lie between the requests of a slot: seven in 630 ms.
	if n := len(rows); n < slots || n > 7*slots {
		t.Errorf("%d requests in 700 ms, want at most %d", n, 7*slots)
	}
	ended := map[int]time.Duration{}
	for _, r := range rows { // a slot's are recorded in their order
		if last, ok := ended[r.Slot]; ok && (r.Paused == 0 || r.Scheduled != last+r.Paused) {
			t.Errorf("slot %d: the last ended at %v, paused %v, scheduled %v", r.Slot, last, r.Paused, r.Scheduled)
		}
		ended[r.Slot] = r.End
	}
}

// contractPause: the end of a run does not wait for slots that pause.
func contractPause(t *testing.T, open func(*testing.T, string) load.Driver) {
	ctx, cancel := context.WithCancelCause(t.Context())
	e := New(func(*Request) Answer { return Answer{Fault: Status, Code: 429, RetryAfter: "29"} })
	defer e.Close()
	defer cancel(nil)
	var once sync.Once
	start := time.Now()
	rows := contractRun(t, ctx, open(t, e.URL), source.Config{Concurrency: 2, Requests: 100}, load.Options{
		Progress: func(p load.Progress) {
			if p.Done >= 2 { // and a moment later both have their next request
				once.Do(func() { time.AfterFunc(time.Second, func() { cancel(errors.New("enough")) }) })
			}
		},
	})
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("the run ended after %v, with its slots in a pause of 29 s", took)
	}
	paused := 0
	for _, r := range rows {
		switch {
		case r.Paused == 0 && (r.Status != result.Failed || r.RetryAfter != 29*time.Second):
			t.Errorf("%+v", r)
		case r.Paused > 0 && (r.Status != result.Cancelled || r.Sent != result.Never || r.Paused != 29*time.Second):
			t.Errorf("%+v", r)
		case r.Paused > 0:
			paused++
		}
	}
	if paused == 0 {
		t.Error("no slot was in a pause")
	}
}

func contractNothing(t *testing.T, open func(*testing.T, string) load.Driver) {
	e := New(nil)
	defer e.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if rows := contractRun(t, ctx, open(t, e.URL), source.Config{Concurrency: 1, Requests: 5}, load.Options{}); len(rows) != 0 {
		t.Errorf("%d rows of a context that was done", len(rows))
	}
}
