package validity

import (
	"encoding/json"
	"testing"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
)

// Each client is said to be nearest to the bound that it came nearest to, and the one that
// was worst limits the load.
func TestClients_nearest(t *testing.T) {
	for name, c := range map[string]struct {
		spoil    func(*Evidence)
		limiting int
		nearest  string
		beyond   bool
	}{
		"nothing wrong": {func(e *Evidence) { e.Health.Shards[1].CPU = 0.425 }, 1, "client_cpu", false},
		"lost": {func(e *Evidence) {
			e.Health.Shards[3].Late = time.Minute
			e.Health.Shards[2] = load.ShardHealth{Shard: 2, Lost: "killed"}
		}, 2, "client_lost", true},
		"throttled": {func(e *Evidence) { e.Health.Shards[2].Throttled = new(1); e.Health.Shards[3].Late = time.Minute }, 2, "client_throttled", true},
		"late":      {func(e *Evidence) { e.Health.Shards[3].Late = time.Second; e.Health.Shards[1].CPU = 0.5 }, 3, "client_skew", true},
		"stalled":   {func(e *Evidence) { e.Health.Shards[0].MaxGap = 2 * time.Second }, 0, "client_stalled", true},
		"clock":     {func(e *Evidence) { e.Health.Shards[2].OffsetError = 30 * time.Millisecond }, 2, "client_clock", true},
		"drift":     {func(e *Evidence) { e.Health.Shards[2].Drift = -time.Second }, 2, "client_clock", true},
		"sends late": {func(e *Evidence) {
			for i := range e.Requests {
				if e.Requests[i].Shard == 1 {
					e.Requests[i].Sent += 20 * time.Millisecond
				}
			}
		}, 1, "schedule_lag", true},
		"its answers take longer": {func(e *Evidence) {
			for i := range e.Requests {
				if e.Requests[i].Shard == 2 {
					e.Requests[i].FirstToken += 300 * time.Millisecond
				}
			}
		}, 2, "clients_differ", true},
	} {
		t.Run(name, func(t *testing.T) {
			e := shards()
			c.spoil(&e)
			all := Clients(e)
			limiting, ok := Limiting(all)
			if !ok || limiting != c.limiting || len(all) != 4 {
				t.Fatalf("client %d of %d limits, want %d: %+v", limiting, len(all), c.limiting, all)
			}
			got := all[limiting]
			if got.Nearest != c.nearest || (severity(got) > 1) != c.beyond {
				t.Errorf("nearest to %s by %v, want %s, beyond it %t", got.Nearest, severity(got), c.nearest, c.beyond)
			}
			if _, err := json.Marshal(all); err != nil {
				t.Error(err)
			}
		})
	}
}

// Of what is wrong with all clients together, one client at least has passed its bound, and
// none has if nothing is.
func TestClients_together(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Evidence)
		want  string // the reason; "" for none
	}{
		"nothing wrong": {func(*Evidence) {}, ""},
		"clients that share their CPUs": {func(e *Evidence) {
			for i := range e.Health.Shards {
				e.Health.Shards[i].CPU = 0.23
			}
			e.Health.CPU = 0.92
		}, "client_cpu"},
		"clients with CPUs of their own": {func(e *Evidence) {
			for i := range e.Health.Shards {
				e.Health.Shards[i].CPU = 0.23
			}
			e.Health.Shards[1].CPU, e.Health.CPU = 0.92, 0.92
		}, "client_cpu"},
		"one that stalls": {func(e *Evidence) {
			e.Health.Shards[3].MaxGap, e.Health.MaxGap = 2*time.Second, 2*time.Second
		}, "client_stalled"},
		"one that sends late": {func(e *Evidence) {
			for i := range e.Requests {
				if e.Requests[i].Shard == 1 {
					e.Requests[i].Sent += 20 * time.Millisecond
				}
			}
		}, "schedule_lag"},
		"slots that begin late": {func(e *Evidence) {
			e.Open = false
			for i := range e.Requests {
				r := &e.Requests[i]
				if r.Slot %= 100; r.N < 400 { // the first of each slot
					r.Sent += 200 * time.Millisecond
				}
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := shards()
			c.spoil(&e)
			passed := ""
			for _, client := range Clients(e) {
				if severity(client) > 1 {
					passed = client.Nearest
				}
			}
			if passed != c.want {
				t.Errorf("a client passed %q, want %q", passed, c.want)
			}
		})
	}
}

// What a client that was lost knew of itself is not known, and a bound of 0 makes no figure
// that JSON cannot hold.
func TestClients_unknown(t *testing.T) {
	e := shards()
	e.Health.Shards[1] = load.ShardHealth{Shard: 1, Lost: "killed", Requests: 7}
	e.Health.Shards[2].MaxGap = 100 * time.Millisecond
	all := Clients(e)
	if c := all[1]; c.LateMS != nil || c.CPU != nil || c.MaxStallMS != nil || c.DriftMS != nil || c.Share != nil || c.Requests != 7 || c.P99ScheduleLagMS == nil {
		t.Errorf("%+v", c)
	}
	if all[0].Share == nil || all[2].Nearest != "client_stalled" {
		t.Errorf("%+v", all)
	}
	if _, err := json.Marshal(all); err != nil {
		t.Error(err)
	}
}

// One process has no clients to speak of, and one client alone limits nothing.
func TestClients_one(t *testing.T) {
	if all := Clients(Evidence{Row: result.Row{}}); all != nil {
		t.Errorf("%+v", all)
	}
	e := shards()
	e.Health.Shards = e.Health.Shards[:1]
	if _, ok := Limiting(Clients(e)); ok {
		t.Error("a single client limits")
	}
	if _, ok := Skew(&e.Health); ok {
		t.Error("a single client has a skew")
	}
	e = shards()
	e.Health.Shards[2].Late = 70 * time.Millisecond
	e.Health.Shards[0] = load.ShardHealth{Lost: "killed"}
	if skew, ok := Skew(&e.Health); !ok || skew != 70*time.Millisecond {
		t.Errorf("skew %v, %t", skew, ok)
	}
}
