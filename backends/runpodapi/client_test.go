package runpodapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/recordtest"
	"sweep.dev/sweep/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "rpa_c4n4ry_key"

// api returns a client of a server that answers with f.
func api(t *testing.T, fx *effect.Effects, f http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL + "/v2")
	if err != nil {
		t.Fatal(err)
	}
	c := New(fx, base, secret.New("${RUNPOD_API_KEY}", canary), 60_000)
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		class  error
		want   string
	}{
		{400, `{"title":"Bad Request","status":400,"detail":"There are no longer any instances available with the requested specifications. Please refresh and try again."}`, backends.ErrCapacity, "instances"},
		{400, `{"title":"Bad Request","status":400,"detail":"request could not be processed"}`, backends.ErrSpec, "processed"},
		{401, `{"title":"Unauthorized","status":401,"detail":"missing bearer token"}`, backends.ErrRefused, "key is not valid"},
		{402, `{}`, backends.ErrRefused, "balance"},
		{403, `{"title":"Forbidden","status":403,"detail":"access denied"}`, backends.ErrRefused, "permission"},
		{403, "error code: 1010", backends.ErrRefused, "Cloudflare"},
		{404, `{"title":"Not Found","status":404,"detail":"resource not found"}`, backends.ErrSpec, "not found"},
		{410, `gone`, backends.ErrRefused, "retired"},
		{413, `{}`, backends.ErrSpec, "413"},
		{422, `{"detail":"Request validation failed.","errors":["$: additional properties 'bogus' not allowed"],"status":422}`, backends.ErrSpec, "'bogus'"},
		{302, ``, backends.ErrRefused, "redirect"},
		{409, `{}`, nil, "409"},
		{502, `<html>bad gateway ` + canary + `</html>`, nil, "${RUNPOD_API_KEY}"},
	} {
		client := api(t, nil, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		_, err := client.Create(t.Context(), CreateRequest{Name: "n"}, time.Minute)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d: got %v, want %q", c.status, err, c.want)
			continue
		}
		if c.class != nil && !errors.Is(err, c.class) {
			t.Errorf("%d: %v is not %v", c.status, err, c.class)
		}
		if strings.Contains(err.Error(), canary) {
			t.Errorf("%d: the error shows the key: %v", c.status, err)
		}
		if got, want := Certain(err), c.status < 500 && c.status != 409; got != want {
			t.Errorf("%d: Certain is %t", c.status, got)
		}
	}
}

// A create is sent once, whatever comes of it; what looks is sent again.
func TestRetries(t *testing.T) {
	var calls atomic.Int32
	client := api(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1); r.Method == http.MethodGet && calls.Load() > 2 {
			fmt.Fprint(w, `{"pods":[]}`)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	})
	if _, err := client.Create(t.Context(), CreateRequest{}, time.Minute); err == nil || Certain(err) || calls.Load() != 1 {
		t.Errorf("got %v after %d creates", err, calls.Load())
	}
	calls.Store(0)
	if pods, err := client.Pods(t.Context()); err != nil || len(pods) != 0 || calls.Load() != 3 {
		t.Errorf("got %v, %v after %d lists", pods, err, calls.Load())
	}
}

// The key reaches the API's host and no other, by no redirect.
func TestKey(t *testing.T) {
	evil := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host was asked: %s with %v", r.URL, r.Header)
	}))
	defer evil.Close()
	client := api(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+canary || !strings.HasPrefix(r.Header.Get("User-Agent"), "sweep/") {
			t.Errorf("asked with %v", r.Header)
		}
		if strings.Contains(r.URL.String(), canary) {
			t.Errorf("the key is in %s", r.URL)
		}
		http.Redirect(w, r, evil.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	if _, err := client.Pods(t.Context()); !errors.Is(err, backends.ErrRefused) {
		t.Errorf("got %v", err)
	}
	if err := client.Delete(t.Context(), "id/../../evil"); !errors.Is(err, backends.ErrRefused) || strings.Contains(err.Error(), canary) {
		t.Errorf("got %v", err)
	}
	if s := fmt.Sprintf("%v %+v", client, client.key); strings.Contains(s, canary) {
		t.Errorf("printing a client shows its key: %s", s)
	}
}

func TestKey_missing(t *testing.T) {
	client := api(t, nil, func(http.ResponseWriter, *http.Request) { t.Error("asked without a key") })
	client.key = secret.String{}
	if _, err := client.Pods(t.Context()); !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), "RUNPOD_API_KEY") {
		t.Errorf("got %v", err)
	}
}

// Pages are followed to the end; a part of the account is no answer.
func TestPods_pages(t *testing.T) {
	broken := false
	client := api(t, nil, func(w http.ResponseWriter, r *http.Request) {
		switch cursor := r.URL.Query().Get("cursor"); {
		case cursor == "":
			fmt.Fprint(w, `{"pods":[{"id":"a"}],"nextCursor":"2"}`)
		case broken:
			fmt.Fprint(w, `{"pods":[{"id":"a"}],"nextCursor":"2"}`)
		default:
			fmt.Fprint(w, `{"pods":[{"id":"b"}]}`)
		}
	})
	if pods, err := client.Pods(t.Context()); err != nil || len(pods) != 2 || pods[1].ID != "b" {
		t.Errorf("got %+v, %v", pods, err)
	}
	broken = true
	if pods, err := client.Pods(t.Context()); err == nil {
		t.Errorf("a list without an end is %+v", pods)
	}
	nothing := api(t, nil, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) })
	if pods, err := nothing.Pods(t.Context()); err == nil {
		t.Errorf("an answer without a list is %+v", pods)
	}
}

// No caller sends anything before the time that a 429 asks for, and deletes do not
// wait for the bucket.
func TestLimiter(t *testing.T) {
	now := time.Unix(1e9, 0)
	l := newLimiter(60)
	l.now = func() time.Time { return now }
	for i := range l.burst {
		if d := l.take(false); d != 0 {
			t.Fatalf("call %d waits %v", i, d)
		}
	}
	if d := l.take(false); d != time.Second {
		t.Errorf("beyond the burst: waits %v", d)
	}
	if d := l.take(true); d != 0 {
		t.Errorf("a delete waits %v", d)
	}
	now = now.Add(time.Minute)
	h := http.Header{"Retry-After": {"12"}, "Ratelimit": {`"minute";r=0;t=15, "hour";r=2800;t=1812`}}
	l.learn(http.StatusTooManyRequests, h)
	if d := l.take(true); d != 15*time.Second {
		t.Errorf("after a 429: waits %v", d)
	}
	now = now.Add(15 * time.Second)
	if d := l.take(false); d != 0 {
		t.Errorf("after the window: waits %v", d)
	}
	l.learn(http.StatusOK, http.Header{"Ratelimit": {`"minute";r=3;t=15`}})
	if d := l.take(false); d != 0 {
		t.Errorf("with three calls left: waits %v", d)
	}
}

func TestLimiter_context(t *testing.T) {
	var calls atomic.Int32
	client := api(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	enough := errors.New("enough")
	ctx, end := context.WithCancelCause(t.Context())
	defer end(nil)
	if _, err := client.Create(ctx, CreateRequest{}, time.Minute); !Limited(err) || !Certain(err) {
		t.Errorf("got %v", err)
	}
	defer time.AfterFunc(200*time.Millisecond, func() { end(enough) }).Stop()
	_, err := client.Create(ctx, CreateRequest{}, time.Minute)
	if !errors.Is(err, enough) || !Certain(err) || calls.Load() != 1 {
		t.Errorf("got %v after %d calls", err, calls.Load())
	}
}

// The end of ctx does not cut a create that was sent.
func TestCreate_whole(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	client := api(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		time.Sleep(50 * time.Millisecond)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"id":"a"}`)
	})
	if p, err := client.Create(ctx, CreateRequest{}, time.Minute); err != nil || p.ID != "a" {
		t.Errorf("got %+v, %v", p, err)
	}
}

// Faults stand on both sides of a create: one before it is certain, one after
// it is not.
func TestCreate_faults(t *testing.T) {
	for spec, want := range map[string]bool{"runpod.create:before:err=EIO": true, "runpod.create:after:err=EIO": false} {
		fx, err := effect.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		client := api(t, fx, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"id":"a"}`) })
		if _, err := client.Create(t.Context(), CreateRequest{}, time.Minute); err == nil || Certain(err) != want {
			t.Errorf("%s: got %v", spec, err)
		}
	}
}

func TestLister(t *testing.T) {
	var calls atomic.Int32
	client := api(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		time.Sleep(20 * time.Millisecond)
		fmt.Fprint(w, `{"pods":[{"id":"a"}]}`)
	})
	l := NewLister(client)
	began := time.Now()
	done := make(chan error)
	for range 20 {
		go func() {
			seen, err := l.After(t.Context(), began)
			if _, ok := seen.Find("a"); !ok && err == nil {
				err = errors.New("no pod a")
			}
			done <- err
		}()
	}
	for range 20 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if calls.Load() != 1 {
		t.Errorf("%d calls for 20 who want the same", calls.Load())
	}
	if _, err := l.After(t.Context(), time.Now()); err != nil || calls.Load() != 2 {
		t.Errorf("%d calls, %v: an old listing is none", calls.Load(), err)
	}
}

// A stream goes on where it broke, without a line twice.
func TestStream(t *testing.T) {
	client := api(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-ID") == "" {
			fmt.Fprint(w, ": hello\n\nid: t/1\ndata: {\"line\":\"one\"}\n\nid: t/2\ndata: {\"line\":\"two\"}\n\n")
			return
		}
		fmt.Fprint(w, "id: t/2\ndata: {\"line\":\"two\"}\n\ndata: rubbish\n\nid: t/3\ndata: {\"line\":\"three\"}\n\n")
	})
	var lines []string
	last := ""
	for range 2 {
		if err := client.Stream(t.Context(), "p", nil, &last, func(e LogLine) { lines = append(lines, e.Line) }); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(lines, " "); got != "one two three" {
		t.Errorf("got %q", got)
	}
}

// Every recorded payload of this version of the API is read as what it is.
func TestRecorded(t *testing.T) {
	text := recordtest.Read(t, "runpod-recorded-payloads.json")
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for name, raw := range all {
		if !strings.HasPrefix(name, "v2_") {
			continue
		}
		seen++
		switch {
		case strings.HasPrefix(name, "v2_error_"):
			replayError(t, name, raw)
		case name == "v2_create_201_spec", name == "v2_pod_running_recorded":
			client := api(t, nil, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"pods":[%s]}`, raw) })
			pods, err := client.Pods(t.Context())
			if err != nil || len(pods) != 1 {
				t.Fatalf("%s: %v", name, err)
			}
			p := pods[0]
			if p.ID == "" || p.GPU == nil || p.GPU.Count != 1 || p.Cost <= 0 || p.Since().IsZero() {
				t.Errorf("%s: %+v", name, p)
			}
			running := name == "v2_pod_running_recorded"
			if ip, port, ok := p.Runtime.Mapped(22); ok != running || running && (ip != "213.173.104.74" || port != 35558) {
				t.Errorf("%s: port 22 is at %s:%d", name, ip, port)
			}
			if p.Runtime.Runs() != running {
				t.Errorf("%s: runs is %t", name, p.Runtime.Runs())
			}
			if _, _, ok := p.Runtime.Mapped(19123); ok {
				t.Errorf("%s: an http port is taken for tcp", name)
			}
		case name == "v2_create_request_recorded":
			var want, got any
			var r CreateRequest
			if err := errors.Join(json.Unmarshal(raw, &want), json.Unmarshal(raw, &r)); err != nil {
				t.Fatal(err)
			}
			again, err := json.Marshal(r)
			if err == nil {
				err = json.Unmarshal(again, &got)
			}
			if a, b := fmt.Sprint(want), fmt.Sprint(got); err != nil || a != b {
				t.Errorf("%s:\n%s\nbecame\n%s", name, a, b)
			}
		case name == "v2_catalog_gpu_spec":
			client := api(t, nil, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(raw) })
			gpus, err := client.GPUs(t.Context(), "secure", 1, "12.8")
			if err != nil || len(gpus) != 1 || gpus[0].Price["secure"] != 0.44 || gpus[0].MaxCount["community"] != 4 ||
				gpus[0].Availability != "HIGH" || gpus[0].DataCenters[0].ID != "US-KS-2" {
				t.Errorf("%s: %+v, %v", name, gpus, err)
			}
		case name == "v2_logs_event_spec":
			var event string
			if err := json.Unmarshal(raw, &event); err != nil {
				t.Fatal(err)
			}
			client := api(t, nil, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, event) })
			last, line := "", LogLine{}
			if err := client.Stream(t.Context(), "p", nil, &last, func(e LogLine) { line = e }); err != nil || line.Line != "Model loaded." || last != "2026-06-01T12:02:03Z/000000000001" {
				t.Errorf("%s: %+v, %q, %v", name, line, last, err)
			}
		default:
			t.Errorf("nothing is done with %s", name)
		}
	}
	if seen < 10 {
		t.Errorf("only %d payloads", seen)
	}
}

func replayError(t *testing.T, name string, raw json.RawMessage) {
	t.Helper()
	var e struct {
		Status  int               `json:"_http_status"`
		Headers map[string]string `json:"_headers"`
		Body    struct {
			Detail string   `json:"detail"`
			Errors []string `json:"errors"`
		} `json:"body"`
	}
	var whole struct {
		Body json.RawMessage `json:"body"`
	}
	if err := errors.Join(json.Unmarshal(raw, &e), json.Unmarshal(raw, &whole)); err != nil {
		t.Fatal(err)
	}
	client := api(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		for k, v := range e.Headers {
			w.Header().Set(k, v)
		}
		w.WriteHeader(e.Status)
		_, _ = w.Write(whole.Body)
	})
	_, err := client.Create(t.Context(), CreateRequest{}, time.Minute)
	var got *Error
	if !errors.As(err, &got) || got.status != e.Status || got.Detail != e.Body.Detail || len(got.Errors) != len(e.Body.Errors) {
		t.Errorf("%s: got %v", name, err)
		return
	}
	if e.Status == http.StatusTooManyRequests && got.wait != 12*time.Second {
		t.Errorf("%s: waits %v", name, got.wait)
	}
}

// A line that is too long is named, and those after it come.
func TestEvents_long(t *testing.T) {
	var got []string
	stream := "id: 1\ndata: {\"line\":\"a\"}\n\nid: 2\ndata: {\"line\":\"" + strings.Repeat("x", 3*maxLogLine) + "\"}\n\nid: 3\ndata: {\"line\":\"b\"}\n\ndata: no JSON\n"
	err := events(strings.NewReader(stream), func(id string, e LogLine) { got = append(got, id+" "+e.Line) })
	if want := "[1 a 2 (a line of more than 1048576 bytes is left out) 3 b]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %.300v, %v, want %s", got, err, want)
	}
}
