package validity

import (
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// A silence of all streams is the server's, where the client ran.
func TestRemarks_serverStalled(t *testing.T) {
	// Two streams with gaps of 20 ms; both wait for so long at 300 ms.
	stalled := func(first, second int32, client time.Duration) []result.Finding {
		e := clean()
		e.Health.MaxGap = client
		for i, gap := range []int32{first, second} {
			r := &e.measured()[i]
			r.Sent, r.ChunkUS = 0, []int32{300_000, 20_000, gap * 1000, 20_000}
		}
		e.Requests = e.Requests[:4]
		return Remarks(*e, strict())
	}
	for _, c := range []struct {
		name          string
		first, second int32
		client        time.Duration
		says          string
	}{
		{"both", 700, 700, 0, "at 0.3 s no stream got a chunk for 700ms, with 2 in flight (bound 400ms)"},
		{"not for long", 400, 400, 0, ""},
		{"one of two", 20, 700, 0, "for 660ms, with 1 in flight"}, // the other had ended
		{"the client stood still", 700, 700, 600 * time.Millisecond, ""},
	} {
		said := stalled(c.first, c.second, c.client)
		if c.says == "" {
			if len(said) != 0 {
				t.Errorf("%s: %+v", c.name, said)
			}
			continue
		}
		if len(said) != 1 || said[0].Code != finding.ServerStalled || !strings.Contains(said[0].Text, c.says) {
			t.Errorf("%s: %+v", c.name, said)
		}
	}
}

// A silence has the name of a compilation with a line of the log that says so, and neither has
// it alone.
func TestJudge_compiling(t *testing.T) {
	const line = "WARNING Triton kernel JIT compilation during inference: _fwd_kernel"
	for _, c := range []struct {
		name    string
		gap     int32
		line    string
		client  time.Duration
		reason  bool
		stalled bool
	}{
		{"a silence and a line", 1150, line, 0, true, false},
		{"a silence alone", 1150, "", 0, false, true},
		{"a line alone", 20, line, 0, false, false},
		{"the client stood still", 1150, line, time.Second, false, false},
	} {
		e := clean()
		e.Health.MaxGap, e.Compiled = c.client, c.line
		for i := range e.Requests[2:4] {
			r := &e.measured()[i]
			r.Sent, r.ChunkUS = 0, []int32{300_000, 20_000, c.gap * 1000, 20_000}
		}
		e.Requests = e.Requests[:4]
		why, said := reasons(*e, strict()), Remarks(*e, strict())
		if got := len(why) == 1 && why[0].Code == finding.Compiling && strings.Contains(why[0].Text, "warm up at the loads of the plan"); got != c.reason || len(why) > 1 {
			t.Errorf("%s: %+v", c.name, why)
		}
		if got := len(said) == 1 && said[0].Code == finding.ServerStalled && strings.Contains(said[0].Text, "may have compiled"); got != c.stalled || len(said) > 1 {
			t.Errorf("%s: remarks %+v", c.name, said)
		}
	}
}

// As long as one stream is served, a server does not stand still.
func TestSilence_overlap(t *testing.T) {
	stream := func(sent time.Duration, ms ...int32) result.Request {
		r := result.Request{Phase: result.Plateau, Sent: sent}
		for _, d := range ms {
			r.ChunkUS = append(r.ChunkUS, d*1000)
		}
		return r
	}
	at, d, n := silence([]result.Request{
		stream(0, 100, 1000, 10),              // silent from 100 to 1100
		stream(0, 50, 50, 50, 50, 50, 800),    // silent from 250 to 1050
		stream(2*time.Second, 5000, 10),       // waits for its first
		stream(10*time.Second, 0, 5000, 5000), // alone
	}, 200*time.Millisecond)
	if at != 10*time.Second || d != 5*time.Second || n != 1 {
		t.Errorf("%v %v %d", at, d, n)
	}
	at, d, n = silence([]result.Request{stream(0, 100, 1000, 10), stream(0, 50, 50, 50, 50, 50, 800)}, 200*time.Millisecond)
	if at != 250*time.Millisecond || d != 800*time.Millisecond || n != 2 {
		t.Errorf("%v %v %d", at, d, n)
	}
}

func TestRemarks_coldConnections(t *testing.T) {
	e := clean()
	for i := range 10 {
		e.measured()[i].Fresh = true
	}
	if said := Remarks(*e, strict()); len(said) != 0 {
		t.Errorf("%+v", said)
	}
	e.measured()[10].Fresh = true
	if said := Remarks(*e, strict()); len(said) != 1 || said[0].Code != finding.ColdConnections || !strings.Contains(said[0].Text, "11 of 200") {
		t.Errorf("%+v", said)
	}
}
