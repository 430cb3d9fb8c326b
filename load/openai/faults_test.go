package openai

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/loadtest"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

func TestDriver_faults(t *testing.T) {
	const deadline = time.Second
	leavesNothing(t)
	after := loadtest.Answer{After: 3}
	with := func(f loadtest.Fault) loadtest.Answer { a := after; a.Fault = f; return a }
	for _, c := range []struct {
		name   string
		answer loadtest.Answer
		class  string
		text   string // part of the error
		tokens bool   // some were received
		late   bool   // ends at its deadline
	}{
		{"hang before headers", with(loadtest.HangBeforeHeaders), result.ErrTimeout, "no answer", false, true},
		{"hang in mid-stream", with(loadtest.HangMidStream), result.ErrTimeout, "after 4 events", true, true},
		{"trickle", loadtest.Answer{Fault: loadtest.Trickle, ITL: 6 * time.Millisecond}, result.ErrTimeout, "deadline", false, true},
		{"reset", with(loadtest.ResetMidStream), result.ErrReset, "", true, false},
		{"drop", with(loadtest.DropMidStream), result.ErrReset, "EOF", true, false},
		{"end without finish_reason", with(loadtest.EndMidStream), result.ErrTruncated, "without finish_reason", true, false},
		{"[DONE] without finish_reason", with(loadtest.NoFinish), result.ErrTruncated, "without finish_reason", true, false},
		{"neither usage nor [DONE]", with(loadtest.NoEnd), result.ErrTruncated, "without [DONE] and without the usage", true, false},
		{"garbage", with(loadtest.Garbage), result.ErrProtocol, "not JSON", true, false},
		{"10 MB line", with(loadtest.LongLine), result.ErrProtocol, "1 MiB", true, false},
		{"error object in 200", with(loadtest.ErrorObject), result.ErrServer, "InternalServerError: engine died (code 500)", true, false},
		{"error event", with(loadtest.ErrorEvent), result.ErrServer, "engine died", true, false},
		{"no tokens", with(loadtest.NoTokens), result.ErrNoTokens, "without a token", false, false},
		{"page of a proxy", with(loadtest.HTML), result.ErrProtocol, "text/html", false, false},
		{"not HTTP", with(loadtest.NotHTTP), result.ErrProtocol, "malformed", false, false},
		{"busy", loadtest.Answer{Fault: loadtest.Status, Code: 503, RetryAfter: "1"}, result.ErrOverload, "retry after 1", false, false},
		{"too many", loadtest.Answer{Fault: loadtest.Status, Code: 429}, result.ErrOverload, "T: status 429", false, false},
		{"no key", loadtest.Answer{Fault: loadtest.Status, Code: 401}, result.ErrAuth, "", false, false},
		{"no model", loadtest.Answer{Fault: loadtest.Status, Code: 404}, result.ErrRejected, "", false, false},
		{"bad gateway", loadtest.Answer{Fault: loadtest.Status, Code: 502}, result.ErrProxy, "", false, false},
		{"broken", loadtest.Answer{Fault: loadtest.Status, Code: 500}, result.ErrServer, "", false, false},
		{"teapot", loadtest.Answer{Fault: loadtest.Status, Code: 418}, result.ErrHTTP, "", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// The server is well again after the second request.
			e := loadtest.New(func(r *loadtest.Request) loadtest.Answer {
				if r.N < 2 {
					return c.answer
				}
				return loadtest.Answer{}
			})
			defer e.Close()
			sc := shape(4, 1)
			sc.Deadline = time.Minute // has the time that a busy machine needs
			if c.late {
				sc.Deadline = deadline
			}
			rows, _ := drive(t, t.Context(), chat(e.URL), sc, load.Options{})
			if n := len(e.Requests()); n != 4 || len(rows) != 4 {
				t.Fatalf("%d requests sent, %d recorded, 4 wanted: nothing is sent twice", n, len(rows))
			}
			for _, r := range rows[:2] {
				if r.Status != result.Failed || r.ErrorClass != c.class || !strings.Contains(r.Error, c.text) {
					t.Errorf("%s, class %s: %s", r.Status, r.ErrorClass, r.Error)
				}
				if got := r.FirstToken != result.Never; got != c.tokens {
					t.Errorf("tokens received: %v", got)
				}
				took := r.End - r.Sent
				// The deadline runs from before the send, which a busy machine may hold up.
				if c.late && (took < deadline/2 || took > deadline+10*time.Second) {
					t.Errorf("ended after %v with a deadline of %v", took, deadline)
				}
			}
			for _, r := range rows[2:] {
				if r.Status != result.Completed {
					t.Errorf("after the fault: %s, class %s: %s", r.Status, r.ErrorClass, r.Error)
				}
			}
		})
	}
}

// A server that keeps its answer open after [DONE] loses the connection, and
// the request is a success all the same.
func TestDriver_lingersAfterDone(t *testing.T) {
	e := engine(t, same(loadtest.Answer{Fault: loadtest.LingerAfterDone}))
	rows, _ := drive(t, t.Context(), chat(e.URL), shape(2, 1), load.Options{})
	for _, r := range rows {
		if r.Status != result.Completed || r.End-r.LastToken >= wire.TailTimeout {
			t.Errorf("%+v", r)
		}
	}
}

func TestDriver_nobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	rows, _ := drive(t, t.Context(), chat("http://"+l.Addr().String()), shape(3, 2), load.Options{})
	if len(rows) != 3 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		if r.Status != result.Failed || r.ErrorClass != result.ErrConnect || r.Sent == result.Never || r.HTTPStatus != 0 {
			t.Errorf("%+v", r)
		}
	}
}

// A redirect is not followed: the key would go to where it points.
func TestDriver_redirectCarriesNoKey(t *testing.T) {
	thief := engine(t, nil)
	e := engine(t, same(loadtest.Answer{Fault: loadtest.Redirect, Location: thief.URL + "/v1/chat/completions"}))
	c := chat(e.URL)
	c.Headers = func(h http.Header) { h.Set("Authorization", "Bearer k") }
	rows, _ := drive(t, t.Context(), c, shape(2, 1), load.Options{})
	if n := len(thief.Requests()); n != 0 {
		t.Errorf("%d requests followed the redirect", n)
	}
	for _, r := range e.Requests() {
		if r.Header.Get("Authorization") != "Bearer k" {
			t.Error("the key was not sent")
		}
	}
	if rows[0].ErrorClass != result.ErrHTTP || !strings.Contains(rows[0].Error, "307") {
		t.Errorf("%+v", rows[0])
	}
}

// A connection that broke while it was idle must not make net/http send a
// request again behind our back.
func TestDriver_noHiddenRetry(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var got int
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got++
		n := got
		mu.Unlock()
		if n%2 == 0 { // on a connection that was used before
			c, _, _ := http.NewResponseController(w).Hijack()
			c.Close()
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}],\"usage\":{\"completion_tokens\":1}}\n\n")
	})}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(l) })
	defer wg.Wait()
	defer srv.Close()
	rows, _ := drive(t, t.Context(), chat("http://"+l.Addr().String()), shape(6, 1), load.Options{})
	mu.Lock()
	defer mu.Unlock()
	if got != 6 {
		t.Errorf("the server got %d requests for 6", got)
	}
	for i, r := range rows {
		want := result.Completed
		if i%2 == 1 {
			want = result.Failed
		}
		if r.Status != want || want == result.Failed && r.ErrorClass != result.ErrReset {
			t.Errorf("request %d: %s %s %s", i, r.Status, r.ErrorClass, r.Error)
		}
	}
}
