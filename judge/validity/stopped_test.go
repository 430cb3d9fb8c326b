package validity

import (
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

const ms = time.Millisecond

// looksOf returns a process that was looked at once a second and used so many hundredths
// of a second of CPU time since the last look.
func looksOf(name string, used ...int) Process {
	p := Process{Name: name, Work: []Work{{At: 0}}}
	for i, n := range used {
		last := p.Work[len(p.Work)-1].CPU
		p.Work = append(p.Work, Work{At: time.Duration(i+1) * time.Second, CPU: last + time.Duration(n)*10*ms})
	}
	return p
}

func TestServerStopped(t *testing.T) {
	// Two streams of gaps of 20 ms: both wait from 3.2 s to 6.2 s, as behind a
	// server that was stopped for 3 s.
	stream := func(sent time.Duration, gaps ...time.Duration) result.Request {
		r := result.Request{Phase: result.Plateau, Sent: sent, End: sent, Status: result.Completed}
		for _, g := range gaps {
			r.ChunkUS = append(r.ChunkUS, int32(g.Microseconds()))
			r.End += g
		}
		return r
	}
	long := []result.Request{
		stream(3*time.Second, 100*ms, 20*ms, 20*ms, 60*ms, 3*time.Second, 20*ms),
		stream(3*time.Second+50*ms, 100*ms, 20*ms, 20*ms, 3010*ms, 20*ms),
	}
	// One of two streams goes on meanwhile.
	half := []result.Request{long[0], stream(3*time.Second, 100*ms, 20*ms)}
	for range 150 {
		half[1].ChunkUS = append(half[1].ChunkUS, 20_000)
		half[1].End += 20 * ms
	}
	// Nothing ever came, until the deadline.
	hung := []result.Request{{
		Phase: result.Plateau, Sent: 3 * time.Second, End: 9 * time.Second, Status: result.Failed, ErrorClass: result.ErrTimeout,
	}}
	short := []result.Request{stream(3*time.Second, 100*ms, 20*ms, 80*ms, 20*ms)}
	at := func(t ...time.Duration) []Process { return []Process{{Name: "server 0", Stopped: t}} }

	for _, c := range []struct {
		name     string
		requests []result.Request
		server   []Process
		thefts   []Theft
		gap      time.Duration // of the client
		says     string
	}{
		{name: "state T while both wait", requests: long, server: at(4 * time.Second), says: "at 4.0 s the server's process (server 0) was stopped (state T), and a request waited for 3.01s"},
		{name: "state T of one of two replicas", requests: half, server: at(4 * time.Second), says: "state T"},
		{name: "state T while a request waits for its first token", requests: hung, server: at(8 * time.Second), says: "waited for 6s"},
		{name: "state T before the load", requests: long, server: at(1 * time.Second)},
		{name: "state T between requests", requests: long, server: at(9 * time.Second)},
		{name: "state T in an ordinary gap", requests: short, server: at(3*time.Second + 150*ms)},
		{name: "no look at all", requests: long},
		{name: "a stall of its own: it computes", requests: long, server: []Process{looksOf("server 0", 30, 30, 30, 30, 100, 100, 30, 30)}},
		{name: "a stall of its own: a step without much CPU", requests: long, server: []Process{looksOf("server 0", 30, 30, 30, 30, 1, 1, 30, 30)}},
		{
			name: "no CPU time", requests: long, server: []Process{looksOf("server 0", 30, 30, 30, 30, 0, 0, 30, 30)},
			says: "from 4.0 s on the server's processes had no CPU time for 2s",
		},
		{name: "no CPU time, and the client did not run either", requests: long, server: []Process{looksOf("server 0", 30, 30, 30, 30, 0, 0, 30, 30)}, gap: 2 * time.Second},
		{name: "no CPU time, and a stream was served", requests: half, server: []Process{looksOf("server 0", 30, 30, 30, 30, 0, 0, 30, 30)}},
		{name: "no CPU time of an idle server", requests: long, server: []Process{looksOf("server 0", 0, 0, 30, 30, 30, 30, 30, 0, 0)}},
		{name: "a server that hardly uses any", requests: long, server: []Process{looksOf("server 0", 1, 0, 1, 0, 0, 0, 1, 0)}},
		{
			name: "one of two roles works", requests: long,
			server: []Process{looksOf("prefill 0", 30, 30, 30, 30, 0, 0, 30, 30), looksOf("decode 0", 30, 30, 30, 30, 30, 30, 30, 30)},
		},
		{
			name: "neither of two roles", requests: long,
			server: []Process{looksOf("prefill 0", 30, 30, 30, 30, 0, 0, 30, 30), looksOf("decode 0", 30, 30, 30, 30, 0, 0, 30, 30)},
			says:   "no CPU time for 2s",
		},
		{name: "a machine of others", requests: long, thefts: []Theft{{From: 4 * time.Second, To: 5 * time.Second, Share: 0.8}}, says: "80 % of the server's machine to others for 1s"},
		{name: "a machine of others for a part", requests: long, thefts: []Theft{{From: 4 * time.Second, To: 5 * time.Second, Share: 0.3}}},
		{name: "a machine of others before", requests: long, thefts: []Theft{{From: 1 * time.Second, To: 2 * time.Second, Share: 0.9}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &Evidence{Row: result.Row{"p50_icl_ms": 20.0}, Requests: c.requests, Server: c.server, Thefts: c.thefts}
			e.Health.MaxGap = c.gap
			f, stopped := serverStopped(e, strict())
			if stopped != (c.says != "") || !strings.Contains(f.Text, c.says) || stopped && f.Code != finding.ServerStopped {
				t.Errorf("%v: %s: %s", stopped, f.Code, f.Text)
			}
			// A reason is not reported as a remark too.
			if _, stalled := serverStalled(e, strict()); stopped && stalled {
				t.Error("it is reported as a stall too")
			}
		})
	}
}
