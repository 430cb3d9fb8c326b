package attempt

import (
	"strings"
	"testing"

	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// Records are never copied while they grow, however many there are.
func TestRecords_neverCopied(t *testing.T) {
	var s records
	s.add(result.Request{Phase: result.Warmup})
	first := &s.pages[0][0]
	const n = 10*recordPage + 7
	if got := testing.AllocsPerRun(1, func() {
		for range n / 2 {
			s.add(result.Request{})
		}
	}); got > 2*n/2/recordPage+4 {
		t.Errorf("%v allocations for %d requests", got, n/2)
	}
	if first != &s.pages[0][0] {
		t.Error("a page was copied")
	}
	if s.measured != n-1 {
		t.Errorf("%d measured of %d", s.measured, n-1)
	}
	for i := range s.pages {
		if cap(s.pages[i]) != recordPage {
			t.Errorf("page %d has room for %d", i, cap(s.pages[i]))
		}
	}
}

func TestRecords_take(t *testing.T) {
	var s records
	for i := range 3*recordPage + 1 {
		s.add(result.Request{N: i})
	}
	all := s.take()
	if len(all) != 3*recordPage+1 || cap(all) != len(all) {
		t.Fatalf("%d requests, room for %d", len(all), cap(all))
	}
	for i := range all {
		if all[i].N != i {
			t.Fatalf("request %d is %d", i, all[i].N)
		}
	}
	if rest := s.take(); rest != nil || s.bytes != 0 {
		t.Errorf("%d are left, %d bytes", len(rest), s.bytes)
	}
}

// Chunks count as what they take.
func TestRecords_full(t *testing.T) {
	s := records{limit: 1 << 20}
	for i := range 100 {
		full := s.add(result.Request{ChunkUS: make([]int32, 10_000), ChunkTokens: make([]int32, 10_000)})
		if full != "" {
			if i < 9 || i > 13 || !strings.Contains(full, "bound 1 MiB") {
				t.Errorf("full after %d requests of 80 KB: %s", i+1, full)
			}
			return
		}
	}
	t.Error("never full")
}

// Full records end the load: no request is handed out any more, and those in
// flight go on to their end.
func TestSupervisor_full(t *testing.T) {
	var s records
	s.limit = 1000 // bytes: two requests or three
	src, err := source.New(source.Config{Cell: "c", Trial: 1, Concurrency: 1, Requests: 100, MaxTokens: 1, Prompts: source.Prompts{InputTokens: 10}})
	if err != nil {
		t.Fatal(err)
	}
	v := &supervisor{
		Source: src, keep: s.add, rule: ruleOf(plan.Load{}, nil, nil),
		cancel: func(error) { t.Error("what is in flight is cancelled") },
	}
	n := 0
	var last *result.Request
	for {
		j, ok := v.Next(0, last)
		if !ok {
			break
		}
		n++
		last = &result.Request{N: j.N, Status: result.Completed}
		v.Record(*last)
	}
	d, over := v.over()
	if !over || d.By != stopping.Full || ended(d).Code != finding.RecordsFull || n > 5 {
		t.Errorf("%d requests, over %v: %+v", n, over, d)
	}
}
