package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/loadtest"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

type recorder []result.Request

func (r *recorder) Record(q result.Request) { *r = append(*r, q) }

// by returns the rows in the order of their numbers.
func (r recorder) by(t *testing.T) []result.Request {
	t.Helper()
	rows := slices.Clone(r)
	slices.SortFunc(rows, func(a, b result.Request) int { return a.N - b.N })
	for i := 1; i < len(rows); i++ {
		if rows[i].N == rows[i-1].N {
			t.Fatalf("request %d is recorded twice", rows[i].N)
		}
	}
	return rows
}

// shape returns a load of n requests by as many slots as it takes.
func shape(n, slots int) source.Config {
	return source.Config{
		Seed: 1, Cell: "c", Trial: 1, Concurrency: slots, Requests: n, MaxTokens: 8,
		Deadline: 20 * time.Second, Prompts: source.Prompts{InputTokens: 20},
	}
}

func chat(url string) wire.Config {
	return wire.Config{BaseURL: url, Model: "m", Chat: true, Stream: true, IncludeUsage: true, IgnoreEOS: true}
}

// drive runs one load against a server and returns what was recorded.
func drive(t *testing.T, ctx context.Context, c wire.Config, sc source.Config, opts load.Options) ([]result.Request, load.Health) {
	t.Helper()
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	src, err := source.New(sc)
	if err != nil {
		t.Fatal(err)
	}
	var rec recorder
	if opts.Anchor == (result.Anchor{}) {
		opts.Anchor = result.NewAnchor()
	}
	h, err := d.Run(ctx, src, &rec, opts)
	if err != nil {
		t.Fatal(err)
	}
	return rec.by(t), h
}

// engine starts a fake server and checks at the end of the test that nothing
// of the client is left.
func engine(t *testing.T, answer func(*loadtest.Request) loadtest.Answer) *loadtest.Engine {
	t.Helper()
	leavesNothing(t)
	e := loadtest.New(answer)
	t.Cleanup(e.Close)
	return e
}

// leavesNothing fails a test at its end if goroutines are left that it began from now on.
func leavesNothing(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		goleak.VerifyNone(t, before)
	})
}

func same(a loadtest.Answer) func(*loadtest.Request) loadtest.Answer {
	return func(*loadtest.Request) loadtest.Answer { return a }
}

func TestDriver_closedLoop(t *testing.T) {
	best := bestKind(t)
	e := engine(t, same(loadtest.Answer{TTFT: 30 * time.Millisecond, ITL: 10 * time.Millisecond}))
	var progress []load.Progress
	rows, h := drive(t, t.Context(), chat(e.URL), shape(24, 4), load.Options{
		RequestID: "cell-t01-a01", Progress: func(p load.Progress) { progress = append(progress, p) },
	})
	if len(rows) != 24 {
		t.Fatalf("%d rows", len(rows))
	}
	stats := e.Stats()
	if stats.Peak != 4 || stats.Requests != 24 {
		t.Errorf("the server saw %d requests, %d at once", stats.Requests, stats.Peak)
	}
	if stats.Conns != 4 {
		t.Errorf("%d connections for 4 slots", stats.Conns)
	}
	for i, r := range rows {
		if r.N != i || r.Status != result.Completed || r.FinishReason != "length" || r.HTTPStatus != 200 {
			t.Fatalf("row %d: %+v", i, r)
		}
		if r.CompletionTokens != 8 || r.PromptTokens != 7 || r.CachedTokens != 3 || r.TokenSource != "usage" {
			t.Errorf("row %d: tokens %+v", i, r)
		}
		if n := stats.Tokens[fmt.Sprintf("cell-t01-a01-s0-n%d", i)]; n != 8 {
			t.Errorf("row %d: the server sent %d tokens", i, n)
		}
		checkTimes(t, &r)
		// The role chunk and the first token come together.
		if r.FirstTokenChunk != 1 || len(r.ChunkUS) != 9 || r.ChunkTokens[0] != 0 || r.ChunkTokens[1] != result.Unknown {
			t.Errorf("row %d: chunks %v of tokens %v, first token %d", i, r.ChunkUS, r.ChunkTokens, r.FirstTokenChunk)
		}
		if ttft := r.FirstToken - r.Sent; ttft < 30*time.Millisecond || ttft > 2*time.Second {
			t.Errorf("row %d: TTFT %v of 30ms", i, ttft)
		}
		// Counted from the send: a first token that was late here is no fault
		// of the last one.
		if e2e := r.LastToken - r.Sent; e2e < 100*time.Millisecond {
			t.Errorf("row %d: 30ms and 7 gaps of 10ms in %v", i, e2e)
		}
	}
	if h.Client != "std" || h.StampKind != best || rows[23].Stamp != best || h.Chunks != 24*9 || h.CPU <= 0 || h.CPU > 1 || h.ColdDials != 0 {
		t.Errorf("health %+v", h)
	}
	last := progress[len(progress)-1]
	if want := (load.Progress{Sent: 24, Done: 24, OutputTokens: 24 * 8}); last != want {
		t.Errorf("last progress %+v, want %+v", last, want)
	}
}

// checkTimes holds a completed, streamed request against the rules of
// result.Request.
func checkTimes(t *testing.T, r *result.Request) {
	t.Helper()
	if !(r.Scheduled <= r.Sent && r.Sent <= r.FirstByte && r.FirstByte <= r.FirstToken &&
		r.FirstToken <= r.LastToken && r.LastToken <= r.End) {
		t.Errorf("request %d: times are out of order: %+v", r.N, r)
	}
	var sum int64
	for i, us := range r.ChunkUS {
		if us < 0 {
			t.Errorf("request %d: chunk %d came before the one before", r.N, i)
		}
		sum += int64(us)
		if i == r.FirstTokenChunk {
			if got, want := sum, r.FirstToken.Microseconds()-r.Sent.Microseconds(); got != want {
				t.Errorf("request %d: chunks sum up to a TTFT of %d us, not %d", r.N, got, want)
			}
		}
	}
	if want := r.LastToken.Microseconds() - r.Sent.Microseconds(); sum != want {
		t.Errorf("request %d: chunks sum up to %d us, not %d", r.N, sum, want)
	}
}

// countedByChunks checks the row of a stream whose server counted no tokens.
func countedByChunks(t *testing.T, r *result.Request) {
	t.Helper()
	if r.TokenSource != "chunks" || r.CompletionTokens != 8 || r.PromptTokens != result.Unknown {
		t.Errorf("%+v", r)
	}
}

func TestDriver_dialects(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer loadtest.Answer
		config func(*wire.Config)
		check  func(t *testing.T, r *result.Request)
	}{
		{"crlf", loadtest.Answer{LineEnd: "\r\n"}, nil, nil},
		{"cr", loadtest.Answer{LineEnd: "\r"}, nil, nil},
		{"split at every byte", loadtest.Answer{Split: 1}, nil, nil},
		{"no [DONE]", loadtest.Answer{Fault: loadtest.NoDone}, nil, nil},
		{"finish in a chunk of its own", loadtest.Answer{FinishOwn: true}, nil, func(t *testing.T, r *result.Request) {
			if len(r.ChunkUS) != 10 || r.ChunkTokens[9] != 0 {
				t.Errorf("chunks %v, tokens %v", r.ChunkUS, r.ChunkTokens)
			}
		}},
		{"completions", loadtest.Answer{}, func(c *wire.Config) { c.Chat = false }, func(t *testing.T, r *result.Request) {
			if r.FirstTokenChunk != 0 || len(r.ChunkUS) != 8 || r.ChunkTokens != nil {
				t.Errorf("chunks %v, tokens %v, first %d", r.ChunkUS, r.ChunkTokens, r.FirstTokenChunk)
			}
		}},
		{"several tokens a chunk, and how many", loadtest.Answer{PerChunk: 3}, func(c *wire.Config) { c.ContinuousUsage = true }, func(t *testing.T, r *result.Request) {
			if want := []int32{0, 3, 3, 2}; !slices.Equal(r.ChunkTokens, want) {
				t.Errorf("tokens %v, want %v", r.ChunkTokens, want)
			}
		}},
		{"several tokens a chunk, unsaid", loadtest.Answer{PerChunk: 3}, nil, func(t *testing.T, r *result.Request) {
			if want := []int32{0, -1, -1, -1}; !slices.Equal(r.ChunkTokens, want) {
				t.Errorf("tokens %v, want %v", r.ChunkTokens, want)
			}
		}},
		{"reasoning first", loadtest.Answer{Reasoning: 4, ITL: 5 * time.Millisecond}, nil, func(t *testing.T, r *result.Request) {
			if r.FirstOutput-r.Sent < 20*time.Millisecond || r.FirstOutput <= r.FirstToken {
				t.Errorf("sent %v, first token %v, first output %v", r.Sent, r.FirstToken, r.FirstOutput)
			}
		}},
		{"no usage though asked for", loadtest.Answer{Fault: loadtest.NoUsage}, nil, countedByChunks},
		{"no usage asked for", loadtest.Answer{}, func(c *wire.Config) { c.IncludeUsage = false }, countedByChunks},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := engine(t, same(c.answer))
			cfg := chat(e.URL)
			if c.config != nil {
				c.config(&cfg)
			}
			rows, _ := drive(t, t.Context(), cfg, shape(3, 1), load.Options{})
			for _, r := range rows {
				if r.Status != result.Completed || r.CompletionTokens != 8 {
					t.Fatalf("%+v", r)
				}
				checkTimes(t, &r)
				if c.check != nil {
					c.check(t, &r)
				}
			}
			if stats := e.Stats(); stats.Conns != 1 {
				t.Errorf("%d connections for one slot: they are not used again", stats.Conns)
			}
		})
	}
}

// An answer that is not streamed has an end and a count, and no times between.
func TestDriver_notStreamed(t *testing.T) {
	e := engine(t, same(loadtest.Answer{TTFT: 20 * time.Millisecond, ITL: time.Millisecond}))
	c := chat(e.URL)
	c.Stream = false
	rows, _ := drive(t, t.Context(), c, shape(2, 1), load.Options{})
	for _, r := range rows {
		if r.Status != result.Completed || r.CompletionTokens != 8 || r.TokenSource != "usage" || r.FinishReason != "length" {
			t.Errorf("%+v", r)
		}
		if r.FirstToken != result.Never || r.LastToken != result.Never || r.FirstTokenChunk != -1 || len(r.ChunkUS) != 0 {
			t.Errorf("times of tokens: %+v", r)
		}
		if r.End-r.Sent < 27*time.Millisecond {
			t.Errorf("took %v", r.End-r.Sent)
		}
	}
}

func TestDriver_openLoop(t *testing.T) {
	e := engine(t, same(loadtest.Answer{ITL: 5 * time.Millisecond}))
	sc := shape(60, 0)
	sc.Pace = arrivals.Steady(200, arrivals.Process{Kind: arrivals.Constant})
	anchor := result.NewAnchor()
	rows, _ := drive(t, t.Context(), chat(e.URL), sc, load.Options{Anchor: anchor})
	if len(rows) != 60 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, r := range rows {
		if r.Status != result.Completed {
			t.Fatalf("%+v", r)
		}
		checkTimes(t, &r)
		if want := rows[0].Scheduled + time.Duration(i)*5*time.Millisecond; r.Scheduled != want {
			t.Errorf("request %d was scheduled at %v, not %v", i, r.Scheduled, want)
		}
	}
}

// The bound on what is in flight makes requests late and never drops one.
func TestDriver_openLoopBound(t *testing.T) {
	e := engine(t, same(loadtest.Answer{ITL: 10 * time.Millisecond}))
	sc := shape(12, 0)
	sc.Pace, sc.MaxInFlight = arrivals.Steady(1000, arrivals.Process{Kind: arrivals.Constant}), 3
	rows, _ := drive(t, t.Context(), chat(e.URL), sc, load.Options{})
	if p := e.Stats().Peak; p > 3 || len(rows) != 12 {
		t.Errorf("%d rows, %d at once", len(rows), p)
	}
	if lag := rows[11].Sent - rows[11].Scheduled; lag < 100*time.Millisecond {
		t.Errorf("the last of 12 was sent %v late, with 3 at once of 70ms each", lag)
	}
}

func TestDriver_drain(t *testing.T) {
	for _, open := range []bool{false, true} {
		t.Run(fmt.Sprintf("open=%v", open), func(t *testing.T) {
			// Requests take 300 ms, but each third one hangs.
			ctx, cancel := context.WithCancelCause(t.Context())
			start := make(chan time.Time, 1)
			e := engine(t, func(r *loadtest.Request) loadtest.Answer {
				if r.N == 5 {
					start <- time.Now()
					cancel(errors.New("interrupted"))
				}
				if r.N%3 == 2 {
					return loadtest.Answer{Fault: loadtest.HangMidStream, After: 1}
				}
				return loadtest.Answer{TTFT: 300 * time.Millisecond}
			})
			sc := shape(100_000, 6)
			if open {
				sc.Concurrency, sc.Pace = 0, arrivals.Steady(100, arrivals.Process{})
			}
			sc.Deadline = 0
			rows, _ := drive(t, ctx, chat(e.URL), sc, load.Options{Drain: time.Second})
			if took := time.Since(<-start); took < time.Second || took > 20*time.Second {
				t.Errorf("took %v with a drain of 1s", took)
			}
			sent, status := 0, map[result.Status]int{}
			for _, r := range rows {
				status[r.Status]++
				if r.Sent != result.Never {
					sent++
				}
				if r.Status == result.Cancelled && (r.ErrorClass != "" || r.Error == "" || r.End == result.Never) {
					t.Errorf("cancelled: %+v", r)
				}
			}
			if n := len(e.Requests()); n != sent {
				t.Errorf("the server saw %d requests, %d are recorded as sent", n, sent)
			}
			if status[result.Completed] == 0 || status[result.Cancelled] == 0 || status[result.Failed] != 0 {
				t.Errorf("%v", status)
			}
		})
	}
}

func TestDriver_cancelledBefore(t *testing.T) {
	e := engine(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rows, _ := drive(t, ctx, chat(e.URL), shape(10, 2), load.Options{})
	if len(rows) != 0 || len(e.Requests()) != 0 {
		t.Errorf("%d rows, %d requests", len(rows), len(e.Requests()))
	}
}

// A trial by time ends its sending by itself, and lets requests end.
func TestDriver_duration(t *testing.T) {
	e := engine(t, same(loadtest.Answer{TTFT: 20 * time.Millisecond}))
	sc := shape(0, 2)
	sc.Duration = 300 * time.Millisecond
	rows, _ := drive(t, t.Context(), chat(e.URL), sc, load.Options{})
	if len(rows) < 4 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		if r.Status != result.Completed || r.Scheduled-rows[0].Scheduled >= sc.Duration {
			t.Errorf("%+v", r)
		}
	}
}

func TestDriver_thinkTime(t *testing.T) {
	e := engine(t, nil)
	sc := shape(3, 1)
	sc.ThinkTime = 50 * time.Millisecond
	rows, _ := drive(t, t.Context(), chat(e.URL), sc, load.Options{})
	for i := 1; i < len(rows); i++ {
		if got := rows[i].Scheduled - rows[i-1].End; got != sc.ThinkTime {
			t.Errorf("request %d was due %v after the last", i, got)
		}
		if rows[i].Sent < rows[i].Scheduled {
			t.Errorf("request %d was sent %v early", i, rows[i].Scheduled-rows[i].Sent)
		}
	}
}

// Coordinated omission: a stall of the server must appear in the latencies of
// an open loop as what every request in it had to wait, also where the client
// could not even send.
func TestDriver_stallShowsInOpenLoop(t *testing.T) {
	const stall = 600 * time.Millisecond
	for _, c := range []struct {
		name        string
		maxInFlight int
	}{{"unbounded", 0}, {"bound to one", 1}} {
		t.Run(c.name, func(t *testing.T) {
			e := engine(t, nil)
			from := e.Now() + 500*time.Millisecond
			e.Stall(from, from+stall)
			sc := shape(0, 0)
			sc.MaxTokens = 1
			sc.Pace = arrivals.Steady(50, arrivals.Process{Kind: arrivals.Constant})
			sc.Duration, sc.MaxInFlight = 2*time.Second, c.maxInFlight
			rows, _ := drive(t, t.Context(), chat(e.URL), sc, load.Options{})
			var late []time.Duration
			for _, r := range rows {
				if r.Status != result.Completed {
					t.Fatalf("%+v", r)
				}
				late = append(late, r.LastToken-r.Scheduled)
			}
			slices.Sort(late)
			// 30 of 100 requests were due in the stall; they waited 600, 580,
			// ... ms. So the 99th percentile is near the whole stall and the
			// 90th near 400 ms, however few requests were sent in it.
			if p99 := late[98]; len(late) != 100 || p99 < 500*time.Millisecond {
				t.Errorf("p99 of %d is %v after a stall of %v", len(late), p99, stall)
			}
			if p90 := late[89]; p90 < 300*time.Millisecond {
				t.Errorf("p90 is %v after a stall of %v", p90, stall)
			}
		})
	}
}

func TestMain(m *testing.M) {
	polltest.Parallel(8) // those of servers that hang
	goleak.VerifyTestMain(m)
}
