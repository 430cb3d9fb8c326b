package epoll

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/loadtest"
	"sweep.dev/sweep/load/openai"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// Every fault that the fake engine knows, and every dialect.
var answers = map[string]loadtest.Answer{
	"good":                    {},
	"hang before headers":     {Fault: loadtest.HangBeforeHeaders},
	"hang in mid-stream":      {Fault: loadtest.HangMidStream, After: 3},
	"reset":                   {Fault: loadtest.ResetMidStream, After: 3},
	"drop":                    {Fault: loadtest.DropMidStream, After: 3},
	"end without a reason":    {Fault: loadtest.EndMidStream, After: 3},
	"trickle":                 {Fault: loadtest.Trickle, ITL: 40 * time.Microsecond},
	"garbage":                 {Fault: loadtest.Garbage, After: 3},
	"10 MB line":              {Fault: loadtest.LongLine, After: 3},
	"error object":            {Fault: loadtest.ErrorObject, After: 3},
	"error event":             {Fault: loadtest.ErrorEvent, After: 3},
	"no [DONE]":               {Fault: loadtest.NoDone},
	"no usage":                {Fault: loadtest.NoUsage},
	"no usage and no [DONE]":  {Fault: loadtest.NoEnd},
	"[DONE] alone":            {Fault: loadtest.NoFinish, After: 3},
	"no tokens":               {Fault: loadtest.NoTokens},
	"page of a proxy":         {Fault: loadtest.HTML},
	"not HTTP":                {Fault: loadtest.NotHTTP},
	"redirect":                {Fault: loadtest.Redirect, Location: "http://127.0.0.1:1/"},
	"lingers after [DONE]":    {Fault: loadtest.LingerAfterDone},
	"busy":                    {Fault: loadtest.Status, Code: 503, RetryAfter: "1"},
	"too many":                {Fault: loadtest.Status, Code: 429},
	"no key":                  {Fault: loadtest.Status, Code: 401},
	"no model":                {Fault: loadtest.Status, Code: 404},
	"bad gateway":             {Fault: loadtest.Status, Code: 502},
	"broken":                  {Fault: loadtest.Status, Code: 500},
	"teapot":                  {Fault: loadtest.Status, Code: 418},
	"crlf":                    {LineEnd: "\r\n"},
	"cr":                      {LineEnd: "\r"},
	"split at every byte":     {Split: 1},
	"split at every 7th byte": {Split: 7, LineEnd: "\r\n"},
	"finish on its own":       {FinishOwn: true},
	"three tokens a chunk":    {PerChunk: 3},
	"reasoning first":         {Reasoning: 4},
	"usage that lies":         {Usage: 5},
}

// The rows of the two drivers are the same, but for times.
func TestDriver_sameRows(t *testing.T) {
	for name, answer := range answers {
		for _, how := range []string{"", "continuous usage", "completions", "fresh connections"} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				rows := func(open func(wire.Config) load.Driver) []result.Request {
					// The server is well again after the second request.
					e := loadtest.New(func(r *loadtest.Request) loadtest.Answer {
						if r.N < 2 {
							return answer
						}
						return loadtest.Answer{}
					})
					defer e.Close()
					c := chat(e.URL)
					c.ContinuousUsage = how == "continuous usage"
					c.Chat = how != "completions"
					c.FreshConnections = how == "fresh connections"
					sc := shape(4, 1)
					// Only an answer that hangs waits for the deadline: any other has the
					// time that a busy machine needs.
					sc.Deadline = time.Minute
					hangs := answer.Fault == loadtest.HangBeforeHeaders || answer.Fault == loadtest.HangMidStream
					if hangs {
						sc.Deadline = time.Second
					}
					out, _ := drive(t, t.Context(), open(c), sc, load.Options{RequestID: "x"})
					for _, r := range out {
						if late := r.Sent - r.Scheduled; !hangs && late > sc.Deadline/2 {
							t.Errorf("request %d was sent %v late: the one before it had ended", r.N, late)
						}
					}
					if n := len(e.Requests()); n != 4 {
						t.Errorf("the server saw %d requests for 4", n)
					}
					return out
				}
				std := rows(func(c wire.Config) load.Driver {
					d, err := openai.New(c)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(d.Close)
					return d
				})
				fast := rows(func(c wire.Config) load.Driver { return newDriver(t, c) })
				for i := range fast {
					order(t, &fast[i])
				}
				if name == "split at every byte" && how != "fresh connections" {
					// The end of the body may still be on its way when the next request has to
					// be sent: that goes over another connection then.
					std[2].Fresh, fast[2].Fresh = false, false
				}
				if diff := cmp.Diff(timeless(std), timeless(fast)); diff != "" {
					t.Errorf("(-std +fast):\n%s", diff)
				}
			})
		}
	}
}

// order holds the times of a row against the rules of result.Request.
func order(t *testing.T, r *result.Request) {
	t.Helper()
	last := r.Scheduled
	for i, at := range []time.Duration{r.Sent, r.FirstByte, r.FirstToken, r.LastToken, r.End} {
		if at == result.Never {
			continue
		}
		if at < last {
			t.Errorf("request %d: time %d is out of order: %+v", r.N, i, r)
		}
		last = at
	}
	var sum int64
	for _, us := range r.ChunkUS {
		sum += int64(us)
	}
	if want := r.LastToken.Microseconds() - r.Sent.Microseconds(); len(r.ChunkUS) > 0 && sum != want {
		t.Errorf("request %d: chunks sum up to %d us, not %d", r.N, sum, want)
	}
}

var address = regexp.MustCompile(`127\.0\.0\.1:\d+(->127\.0\.0\.1:\d+)?|events: |after \d+ `)

// timeless returns the rows without what differs from run to run. How much of a
// stream that its deadline or a reset cut off had come by then does.
func timeless(rows []result.Request) []result.Request {
	out := make([]result.Request, len(rows))
	for i, r := range rows {
		was := func(d time.Duration) time.Duration {
			if d == result.Never {
				return d
			}
			return 1
		}
		cut := r.ErrorClass == result.ErrTimeout || r.ErrorClass == result.ErrReset
		r.Scheduled, r.Sent, r.FirstByte, r.End = was(r.Scheduled), was(r.Sent), was(r.FirstByte), was(r.End)
		r.FirstToken, r.FirstOutput, r.LastToken = was(r.FirstToken), was(r.FirstOutput), was(r.LastToken)
		r.ChunkUS = make([]int32, len(r.ChunkUS))
		r.Coalesced, r.StampError, r.Stamp = 0, 0, ""
		r.Error = address.ReplaceAllString(r.Error, "*")
		if cut {
			r.ChunkUS, r.ChunkTokens, r.CompletionTokens, r.TokenSource, r.FirstTokenChunk = nil, nil, 0, "", 0
			r.FirstToken, r.FirstOutput, r.LastToken = 0, 0, 0
		}
		// The fast driver opens a lost connection again while the slot pauses.
		if r.Status == result.Failed && r.HTTPStatus == 0 || r.Paused > 0 {
			r.Fresh = false
		}
		out[i] = r
	}
	return out
}

func TestDriver_nobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for _, rate := range []float64{0, 100} {
		sc := shape(3, 2)
		if rate > 0 {
			sc.Concurrency, sc.Pace = 0, arrivals.Steady(rate, arrivals.Process{})
		}
		rows, h := drive(t, t.Context(), newDriver(t, chat("http://"+l.Addr().String())), sc, load.Options{})
		if len(rows) != 3 || h.ColdDials != 3 {
			t.Fatalf("%d rows, %d cold dials", len(rows), h.ColdDials)
		}
		for _, r := range rows {
			if r.Status != result.Failed || r.ErrorClass != result.ErrConnect || r.Sent == result.Never || r.HTTPStatus != 0 {
				t.Errorf("%+v", r)
			}
		}
	}
}

// A server that closes each connection after its answer, without saying so or
// by its word, costs a connection each time and no request.
func TestDriver_serverCloses(t *testing.T) {
	e := loadtest.New(nil)
	defer e.Close()
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}],\"usage\":{\"completion_tokens\":1}}\n\n")
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(front) }()
	defer func() { srv.Close(); <-served }()
	rows, h := drive(t, t.Context(), newDriver(t, chat("http://"+front.Addr().String())), shape(6, 2), load.Options{})
	fresh := 0
	for _, r := range rows {
		if r.Status != result.Completed {
			t.Errorf("%+v", r)
		}
		if r.Fresh {
			fresh++
		}
	}
	if len(rows) != 6 || fresh != 4 || h.ColdDials != 4 || h.Reopened != 4 {
		t.Errorf("%d rows, %d fresh, health %+v", len(rows), fresh, h)
	}
}

// A connection other than plain TCP is refused before anything is sent.
func TestDriver_unsuitable(t *testing.T) {
	e := loadtest.New(nil)
	defer e.Close()
	c := chat(e.URL)
	c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, addr)
		return struct{ net.Conn }{conn}, err
	}
	d := newDriver(t, c)
	var rec recorder
	src := counted{t: t}
	if _, err := d.Run(t.Context(), &src, &rec, load.Options{Anchor: result.NewAnchor()}); err == nil || src.taken > 0 {
		t.Errorf("%v, %d jobs taken", err, src.taken)
	}
	for _, c := range []wire.Config{
		{BaseURL: "https://127.0.0.1:1", Model: "m", Stream: true},
		{BaseURL: "http://127.0.0.1:1", Model: "m"},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

type counted struct {
	t     *testing.T
	taken int
}

func (c *counted) Loop() load.Loop { return load.Loop{Slots: 1} }
func (c *counted) Next(int, *result.Request) (load.Job, bool) {
	c.taken++
	return load.Job{}, false
}
