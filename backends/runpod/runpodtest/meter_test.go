package runpodtest

import (
	"math"
	"net/http"
	"sync"
	"testing"
	"time"
)

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t
}

// A clock stands still until it is moved.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestMeter_cost(t *testing.T) {
	t0 := at("2026-11-21T10:00:00Z")
	var m meter
	m.set(t0, 3.6, 0.36)
	m.set(t0.Add(1500*time.Millisecond), 0, 0.72) // two seconds are billed
	m.set(t0.Add(11500*time.Millisecond), 0, 0)
	m.set(t0.Add(20*time.Second), 7.2, 0) // it goes on
	now := t0.Add(30 * time.Second)
	for _, c := range []struct {
		name      string
		from, to  time.Time
		rate      float64
		gpu, disk float64
	}{
		{"all", t0, now.AddDate(1, 0, 0), 1, 0.002 + 0.02, 0.0002 + 0.002},
		{"a window", t0.Add(25 * time.Second), t0.Add(26 * time.Second), 1, 0.002, 0},
		{"before", t0.Add(-time.Hour), t0, 1, 0, 0},
		{"the gap", t0.Add(12 * time.Second), t0.Add(20 * time.Second), 1, 0, 0},
		{"faster", t0.Add(20 * time.Second), now, 3600, 72, 0},
	} {
		gpu, disk := m.cost(c.from, c.to, now, c.rate)
		if !near(gpu, c.gpu) || !near(disk, c.disk) {
			t.Errorf("%s: got %v and %v, want %v and %v", c.name, gpu, disk, c.gpu, c.disk)
		}
	}
}

// TestBilling follows one pod from its create to its end with a clock that only
// the test moves.
func TestBilling(t *testing.T) {
	c := &clock{t: at("2026-11-21T10:30:00Z")}
	e := start(t, Options{Now: c.now})
	req := request("a", forever)
	req["gpu"] = map[string]any{"id": "NVIDIA H100 80GB HBM3", "count": 2}
	req["disk"] = 730
	req["mounts"] = map[string]any{"persistent": map[string]any{"size": 73, "path": "/workspace"}}
	id := ask(t, e, http.StatusCreated, "POST", "/v2/pods", req).body["id"].(string)
	usd := func() float64 { return e.Audit().USD }
	running(t, e, id)

	c.move(time.Hour) // two GPUs at 2.99; 0.10 for the container's disk, 0.01 for the volume
	if want := 2*2.99 + 0.11; !near(usd(), want) {
		t.Errorf("after an hour: $%v, want $%v", usd(), want)
	}
	stopped := ask(t, e, 200, "POST", "/v2/pods/"+id+"/action", `{"action":"stop"}`).body
	if stopped["status"] != "EXITED" || stopped["runtime"] != nil || stopped["cost"] != 5.98 {
		t.Errorf("a stopped pod: %v", stopped)
	}
	c.move(time.Hour) // the volume at double rate
	if want := 2*2.99 + 0.11 + 0.02; !near(usd(), want) {
		t.Errorf("stopped for an hour: $%v, want $%v", usd(), want)
	}
	ask(t, e, 200, "POST", "/v2/pods/"+id+"/action", `{"action":"start"}`)
	running(t, e, id)
	c.move(30 * time.Minute)
	ask(t, e, 204, "DELETE", "/v2/pods/"+id, nil)
	total := 1.5*(2*2.99+0.11) + 0.02
	c.move(100 * time.Hour)
	if !near(usd(), total) {
		t.Errorf("at its end: $%v, want $%v", usd(), total)
	}

	pods := ask(t, e, 200, "GET", "/v2/billing/pods?bucketSize=hour&podId="+id, nil).body
	records := pods["records"].([]any)
	// 10:30 to 13:00 are three buckets.
	if len(records) != 3 {
		t.Errorf("%d records: %v", len(records), records)
	}
	totals := pods["metadata"].(map[string]any)["totals"].(map[string]any)
	if !near(totals["totalAmount"].(float64), total) || !near(totals["gpuAmount"].(float64), 1.5*2*2.99) {
		t.Errorf("totals %v, want %v", totals, total)
	}
	e.Foreign(1)
	c.move(time.Hour)
	all := ask(t, e, 200, "GET", "/v2/billing?lastN=30", nil).body["metadata"].(map[string]any)["totals"].(map[string]any)
	if got := all["totalAmount"].(float64); got <= total {
		t.Errorf("the account's bill of $%v is without the pods of others, ours is $%v", got, total)
	}
	if !near(usd(), total) {
		t.Errorf("the audit's bill of $%v has pods of others in it", usd())
	}
	if none := ask(t, e, 200, "GET", "/v2/billing/pods?podId=none", nil).body["records"].([]any); len(none) != 0 {
		t.Errorf("records of no pod: %v", none)
	}
	ask(t, e, 422, "GET", "/v2/billing?bucketSize=minute", nil)
	ask(t, e, 400, "GET", "/v2/billing?lastN=2&startTime=2026-11-21T10:30:00Z", nil)
}

func TestFloor(t *testing.T) {
	when := at("2026-11-22T10:30:00Z") // a Sunday
	for size, want := range map[string]string{
		"hour": "2026-11-22T10:00:00Z", "day": "2026-11-22T00:00:00Z", "week": "2026-11-16T00:00:00Z",
		"month": "2026-11-01T00:00:00Z", "year": "2026-01-01T00:00:00Z",
	} {
		if got := floor(when, size); !got.Equal(at(want)) {
			t.Errorf("%s: %v, want %v", size, got, want)
		}
	}
}
