package openai

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/loadtest"
	"sweep.dev/sweep/load/stamp"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// jobs is a closed loop of slots that send what make says, n in all.
type jobs struct {
	slots, n int
	make     func(n int, prev *result.Request) load.Job
	next     int
}

func (s *jobs) Loop() load.Loop { return load.Loop{Slots: s.slots} }

func (s *jobs) Next(slot int, prev *result.Request) (load.Job, bool) {
	if s.next == s.n {
		return load.Job{}, false
	}
	j := load.Job{MaxTokens: 8, Prompt: load.Prompt{Turns: []string{"hello"}}}
	if s.make != nil {
		j = s.make(s.next, prev)
	}
	j.N, j.Slot = s.next, slot
	s.next++
	return j, true
}

// kept asks for the text of the answer, of so many tokens.
func kept(tokens int) func(int, *result.Request) load.Job {
	return func(int, *result.Request) load.Job {
		return load.Job{MaxTokens: tokens, KeepAnswer: true, Prompt: load.Prompt{Turns: []string{"hello"}}}
	}
}

func driveJobs(t *testing.T, c wire.Config, src load.Source, a result.Anchor) ([]result.Request, load.Health) {
	t.Helper()
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var rec recorder
	h, err := d.Run(t.Context(), src, &rec, load.Options{Anchor: a})
	if err != nil {
		t.Fatal(err)
	}
	return rec.by(t), h
}

// A stamped chunk is one token: when it was made, and when it was received.
type stampedChunk struct{ sent, at time.Duration }

// stampedChunks takes the engine's times out of an answer.
func stampedChunks(t *testing.T, r *result.Request) []stampedChunk {
	t.Helper()
	if r.Status != result.Completed {
		t.Fatalf("request %d: %s %s", r.N, r.Status, r.Error)
	}
	var out []stampedChunk
	at := r.Sent.Microseconds()
	for i, us := range r.ChunkUS {
		at += int64(us)
		if i < r.FirstTokenChunk {
			continue
		}
		text := r.Answer[20*len(out) : 20*len(out)+20]
		sent, err := strconv.ParseInt(strings.TrimPrefix(text, "T"), 10, 64)
		if err != nil {
			t.Fatalf("request %d: %q of %q", r.N, text, r.Answer)
		}
		// Times are kept in whole microseconds, rounded down.
		out = append(out, stampedChunk{time.Duration(sent), time.Duration(at)*time.Microsecond + time.Microsecond})
	}
	if len(out)*20 != len(r.Answer) {
		t.Fatalf("request %d: %d chunks, %q", r.N, len(out), r.Answer)
	}
	return out
}

// bestKind returns where this system's receive times come from at best. The kernel
// gives them from then on.
func bestKind(t *testing.T) string {
	t.Helper()
	t.Cleanup(stamp.Keep(t.Context()))
	if runtime.GOOS == "linux" {
		return result.StampKernel
	}
	return result.StampUser
}

// Every chunk's time is later than its send, and what the client knows of its
// own part in it is there.
func TestDriver_stamps(t *testing.T) {
	best := bestKind(t)
	e := engine(t, same(loadtest.Answer{TTFT: 20 * time.Millisecond, ITL: 3 * time.Millisecond, Times: true}))
	rows, h := driveJobs(t, chat(e.URL), &jobs{slots: 8, n: 16, make: kept(40)}, e.Anchor())
	for _, r := range rows {
		for _, c := range stampedChunks(t, &r) {
			if c.at < c.sent || c.at > r.End+time.Microsecond {
				t.Errorf("request %d: sent %v, stamped %v, ended %v", r.N, c.sent, c.at, r.End)
			}
		}
		if r.Stamp != best || r.Fresh {
			t.Errorf("request %d: %s stamps, fresh %v", r.N, r.Stamp, r.Fresh)
		}
		checkTimes(t, &r)
	}
	if h.StampKind != best || h.Reads == 0 || h.Reads > h.Chunks || h.Chunks != 16*41 {
		t.Errorf("%s stamps, %d reads, %d chunks", h.StampKind, h.Reads, h.Chunks)
	}
	if runtime.GOOS != "linux" {
		return
	}
	if h.Lag.N() != int64(h.Reads) || h.Lag.Quantile(0.5) <= 0 {
		t.Errorf("%d lags of %d reads, p50 %v", h.Lag.N(), h.Reads, h.Lag.Quantile(0.5))
	}
	// At the start, and at the end of each connection.
	if h.RTT.N() < 16 || h.RTT.Quantile(0.5) <= 0 || h.RTT.Max() > time.Second {
		t.Errorf("%d round trips, p50 %v, max %v", h.RTT.N(), h.RTT.Quantile(0.5), h.RTT.Max())
	}
	if len(h.ClockSteps) > 0 || h.Reopened > 0 || h.ColdDials > 0 {
		t.Errorf("steps %v, %d cold dials, %d reopened", h.ClockSteps, h.ColdDials, h.Reopened)
	}
}

// An event is there when its last byte is.
func TestDriver_stampOfTheLastByte(t *testing.T) {
	const pause = 5 * time.Millisecond
	e := engine(t, same(loadtest.Answer{ITL: 12 * time.Millisecond, Times: true, Split: 160, Pause: pause}))
	rows, h := driveJobs(t, chat(e.URL), &jobs{slots: 1, n: 1, make: kept(20)}, e.Anchor())
	for _, c := range stampedChunks(t, &rows[0]) {
		if c.at < c.sent+pause {
			t.Errorf("sent from %v on, stamped %v", c.sent, c.at)
		}
	}
	if rows[0].Coalesced > 0 || h.Reads > h.Chunks {
		t.Errorf("%d coalesced, %d reads of %d chunks", rows[0].Coalesced, h.Reads, h.Chunks)
	}
}

// Chunks that share a segment share its time: they are counted, but neither the
// first of each read nor a chunk without a token is.
func TestDriver_coalesced(t *testing.T) {
	const batch, tokens = 3, 60
	e := engine(t, same(loadtest.Answer{TTFT: 30 * time.Millisecond, ITL: 5 * time.Millisecond, Times: true, Batch: batch}))
	rows, h := driveJobs(t, chat(e.URL), &jobs{slots: 1, n: 2, make: kept(tokens)}, e.Anchor())
	total, outside := 0, 0
	for _, r := range rows {
		total += r.Coalesced
		for _, c := range stampedChunks(t, &r) {
			if c.at < c.sent {
				t.Errorf("sent %v, stamped %v", c.sent, c.at)
			}
			if c.at-c.sent > r.StampError+2*time.Microsecond {
				outside++
			}
		}
		if r.StampError <= 0 {
			t.Errorf("request %d: error %v", r.N, r.StampError)
		}
	}
	// Where we came late, there is more than a batch in a read.
	if want := 2 * (tokens - tokens/batch); total < want || h.Coalesced != total || h.StampError <= 0 {
		t.Errorf("%d coalesced, want %d or more; health %d, %v", total, want, h.Coalesced, h.StampError)
	}
	// A chunk's text is made before it is sent, perhaps before the last read
	// returned; so the bound need not hold for all.
	if outside > tokens/10 {
		t.Errorf("%d of %d chunks are later than they may be", outside, 2*tokens)
	}
}

// The kernel's stamps survive TLS.
func TestDriver_stampsBelowTLS(t *testing.T) {
	best := bestKind(t)
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	defer certificate.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := loadtest.NewOn(tls.NewListener(l, certificate.TLS), same(loadtest.Answer{TTFT: 20 * time.Millisecond, ITL: 3 * time.Millisecond, Times: true}))
	defer e.Close()
	c := chat(strings.Replace(e.URL, "http:", "https:", 1))
	c.TLS = &tls.Config{InsecureSkipVerify: true}
	rows, h := driveJobs(t, c, &jobs{slots: 4, n: 8, make: kept(30)}, e.Anchor())
	for _, r := range rows {
		for _, c := range stampedChunks(t, &r) {
			if c.at < c.sent || c.at > r.End+time.Microsecond {
				t.Errorf("request %d: sent %v, stamped %v, ended %v", r.N, c.sent, c.at, r.End)
			}
		}
		if r.Stamp != best {
			t.Errorf("request %d: %s stamps", r.N, r.Stamp)
		}
	}
	if h.StampKind != best || best == result.StampKernel && (h.Lag.N() != int64(h.Reads) || h.RTT.N() == 0) {
		t.Errorf("%s stamps, %d lags of %d reads, %d round trips", h.StampKind, h.Lag.N(), h.Reads, h.RTT.N())
	}
}

// bare hides what a connection is, as a tunnel does.
type bare struct{ net.Conn }

// Connections without stamps say so, each row for itself.
func TestDriver_stampKinds(t *testing.T) {
	best := bestKind(t)
	for _, c := range []struct {
		name string
		bare func(n int64) bool
		want string
	}{
		{"none", func(int64) bool { return true }, result.StampUser},
		{"some", func(n int64) bool { return n%2 == 0 }, "mixed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := engine(t, same(loadtest.Answer{TTFT: 20 * time.Millisecond, ITL: 2 * time.Millisecond, Times: true}))
			cfg := chat(e.URL)
			var n atomic.Int64
			cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				if err == nil && c.bare(n.Add(1)) {
					conn = bare{conn}
				}
				return conn, err
			}
			rows, h := driveJobs(t, cfg, &jobs{slots: 2, n: 6, make: kept(10)}, e.Anchor())
			user := 0
			for _, r := range rows {
				for _, c := range stampedChunks(t, &r) {
					if c.at < c.sent {
						t.Errorf("request %d: sent %v, stamped %v", r.N, c.sent, c.at)
					}
				}
				if r.Stamp == result.StampUser {
					user++
				}
			}
			want := c.want
			if best == result.StampUser {
				want = result.StampUser
			}
			if h.StampKind != want || want == result.StampUser && (user != 6 || h.Lag.N() != 0 || h.RTT.N() != 0) ||
				want == "mixed" && (user == 0 || user == 6 || h.Lag.N() == 0) {
				t.Errorf("%s stamps, %d rows by the client; %d lags, %d round trips", h.StampKind, user, h.Lag.N(), h.RTT.N())
			}
		})
	}
}

// A connection that takes the place of one that the server closed is told from
// one that was never there.
func TestDriver_reopened(t *testing.T) {
	e := engine(t, func(r *loadtest.Request) loadtest.Answer {
		if r.N == 1 || r.N == 2 {
			return loadtest.Answer{Fault: loadtest.DropMidStream, After: 2}
		}
		return loadtest.Answer{}
	})
	rows, h := driveJobs(t, chat(e.URL), &jobs{slots: 1, n: 5}, e.Anchor())
	if h.ColdDials != 2 || h.Reopened != 2 {
		t.Errorf("%d cold dials, %d reopened; want 2", h.ColdDials, h.Reopened)
	}
	for i, r := range rows {
		if want := i == 2 || i == 3; r.Fresh != want {
			t.Errorf("request %d: fresh %v", i, r.Fresh)
		}
	}
}

// A request that the plan gives up ends then, is no failure, and takes its
// connection with it; the next finds one that is open.
func TestDriver_cancelAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const after, ttft, itl = 255 * time.Millisecond, 30 * time.Millisecond, 50 * time.Millisecond
		pipe := loadtest.NewPipe()
		e := loadtest.NewOn(pipe, same(loadtest.Answer{TTFT: ttft, ITL: itl}))
		defer e.Close()
		c := chat(e.URL)
		c.Dial = pipe.Dial
		rows, h := driveJobs(t, c, &jobs{slots: 1, n: 6, make: func(n int, _ *result.Request) load.Job {
			j := load.Job{MaxTokens: 8, Prompt: load.Prompt{Turns: []string{"hello"}}}
			if n%2 == 0 {
				j.CancelAfter = after
			}
			return j
		}}, e.Anchor())
		for i, r := range rows {
			if i%2 == 1 {
				if r.Status != result.Completed || r.Planned || r.Sent != r.Scheduled {
					t.Errorf("request %d: %+v", i, r)
				}
				continue
			}
			if r.Status != result.Cancelled || !r.Planned || !r.Chosen || r.ErrorClass != "" || r.End-r.Sent != after ||
				len(r.ChunkUS) != 6 || r.LastToken-r.Sent != ttft+4*itl {
				t.Errorf("request %d: %+v", i, r)
			}
		}
		if s := e.Stats(); s.Conns != 4 || h.ColdDials != 0 || h.Reopened != 0 {
			t.Errorf("%d connections, %d cold dials, %d reopened", s.Conns, h.ColdDials, h.Reopened)
		}
	})
}

// One that is over before it would be given up is a success as any other.
func TestDriver_cancelAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := loadtest.NewPipe()
		e := loadtest.NewOn(pipe, same(loadtest.Answer{TTFT: 30 * time.Millisecond}))
		defer e.Close()
		c := chat(e.URL)
		c.Dial = pipe.Dial
		rows, _ := driveJobs(t, c, &jobs{slots: 2, n: 6, make: func(int, *result.Request) load.Job {
			return load.Job{MaxTokens: 8, CancelAfter: time.Second, Prompt: load.Prompt{Turns: []string{"hello"}}}
		}}, e.Anchor())
		for _, r := range rows {
			if r.Status != result.Completed || r.Planned {
				t.Errorf("%+v", r)
			}
		}
		if s := e.Stats(); s.Conns != 2 {
			t.Errorf("%d connections", s.Conns)
		}
	})
}

// A job may have headers of its own, and may ask for the text of its answer for the
// next turn.
func TestDriver_headersAndAnswer(t *testing.T) {
	e := engine(t, func(r *loadtest.Request) loadtest.Answer { return loadtest.Answer{Reasoning: 2} })
	c := chat(e.URL)
	rows, _ := driveJobs(t, c, &jobs{slots: 1, n: 3, make: func(n int, prev *result.Request) load.Job {
		j := load.Job{
			MaxTokens: 5, KeepAnswer: n < 2, Prompt: load.Prompt{Turns: []string{"hello"}},
			Headers: []load.Header{{Name: "X-Session", Value: strconv.Itoa(n)}, {Name: "X-Request-Id", Value: "mine"}},
		}
		if prev != nil {
			j.Prompt.Turns = []string{"hello", prev.Answer, "and then"}
		}
		return j
	}}, e.Anchor())
	for i, q := range e.Requests() {
		if q.Header.Get("X-Session") != strconv.Itoa(i) || q.ID != "mine" {
			t.Errorf("request %d: headers %v", i, q.Header)
		}
		if i > 0 && (len(q.Body.Messages) != 3 || q.Body.Messages[1].Content != rows[i-1].Answer) {
			t.Errorf("request %d: messages %q", i, q.Body.Messages)
		}
	}
	if !strings.HasSuffix(rows[0].Answer, "w w w ") || rows[0].Answer != rows[1].Answer || rows[2].Answer != "" {
		t.Errorf("answers %q, %q, %q", rows[0].Answer, rows[1].Answer, rows[2].Answer)
	}
}
