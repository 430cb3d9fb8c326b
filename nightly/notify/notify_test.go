package notify

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/internal/secret"
)

func ended() Ended {
	cost := 1.234
	at := time.Date(2026, 1, 24, 2, 30, 0, 0, time.UTC)
	return Ended{
		Event: Event, Plan: "chat", Run: "a<b&c", RunID: "3f2a", Exit: 99, Ending: "an SLO failed",
		StartedAt: at, FinishedAt: at.Add(time.Hour), CostUSD: &cost, Sweep: "dev",
		Trials: &Trials{Planned: 12, Valid: 11, Invalid: 1}, Objectives: &Objectives{Failed: 2},
	}
}

// TestPost reads the body that a webhook gets, in both formats.
func TestPost(t *testing.T) {
	var got, kind string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got, kind = r.Method+" "+string(b), r.Header.Get("Content-Type")
	}))
	defer s.Close()
	w := Webhook{URL: secret.New("${HOOK}", s.URL+"/canary"), Private: true}
	for slack, want := range map[bool]string{
		true: `{"text":"sweep chat: exit 99 (an SLO failed), 11 of 12 trials valid, 2 objectives failed, about $1.23, run a&lt;b&amp;c"}`,
		false: `{"event":"run_finished","plan":"chat","run":"a<b&c","run_id":"3f2a","exit":99,"ending":"an SLO failed",` +
			`"started_at":"2026-01-24T02:30:00Z","finished_at":"2026-01-24T03:30:00Z",` +
			`"trials":{"planned":12,"valid":11,"invalid":1,"failed":0},"objectives":{"failed":2,"undecided":0,"unchecked":0},` +
			`"cost_usd":1.234,"sweep":"dev"}`,
	} {
		w.Slack = slack
		if err := w.Post(t.Context(), ended()); err != nil {
			t.Fatal(err)
		}
		var a, b any
		body, ok := strings.CutPrefix(got, "POST ")
		if err := json.Unmarshal([]byte(body), &a); err != nil || !ok || kind != "application/json" {
			t.Fatalf("%s (%s): %v", got, kind, err)
		}
		if err := json.Unmarshal([]byte(want), &b); err != nil {
			t.Fatal(err)
		}
		if x, y := encode(t, a), encode(t, b); x != y {
			t.Errorf("slack %v: got\n%s\nwant\n%s", slack, x, y)
		}
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Every failure is said, without the URL, and a redirect is not followed.
func TestPost_failures(t *testing.T) {
	followed := false
	mux := http.NewServeMux()
	mux.HandleFunc("/canary/500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	mux.HandleFunc("/canary/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/canary/elsewhere", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/canary/elsewhere", func(http.ResponseWriter, *http.Request) { followed = true })
	mux.HandleFunc("/canary/closed", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	s := httptest.NewServer(mux)
	defer s.Close()
	secure := httptest.NewTLSServer(mux)
	defer secure.Close()
	secure.Config.ErrorLog = nil
	for _, c := range []struct {
		url     string
		private bool
		want    string
	}{
		{s.URL + "/canary/500", true, "the answer is HTTP 500, want 200 to 299"},
		{s.URL + "/canary/redirect", true, "a redirect (HTTP 307), which is not followed"},
		{s.URL + "/canary/closed", true, "closed without an answer"},
		{secure.URL + "/canary/500", true, "its TLS certificate is not valid"},
		{secure.URL + "/canary/500", false, "is refused (--allow-private-webhook permits"},
		{"https://10.1.2.3/canary", false, "is refused"},
		{"https://[fe80::1]/canary", true, "is refused"},
		{"http://169.254.169.254/canary", true, "is refused"},
		{"http://canary.invalid./", true, "cannot be resolved"},
		{"http://127.0.0.1:1/canary", true, "does not take the connection"},
		{"http://example.com/canary", false, "a URL with http://"},
		{"canary", false, "does not hold a URL"},
		{"file:///canary", true, "does not hold a URL"},
		{"https://canary%zz", true, "does not hold a URL"},
	} {
		w := Webhook{URL: secret.New("${HOOK}", c.url), Private: c.private}
		err := w.Post(t.Context(), ended())
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "${HOOK}") {
			t.Errorf("%s: got %v, want %q", c.url, err, c.want)
		} else if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "127.0.0.1") || strings.Contains(err.Error(), "169.254") {
			t.Errorf("%s: the error holds the URL: %v", c.url, err)
		}
	}
	if followed {
		t.Error("a redirect was followed")
	}
}

// A webhook that hangs does not hold a run up.
func TestPost_hangs(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	defer close(release)
	err := Webhook{URL: secret.New("${HOOK}", s.URL), Private: true, timeout: 300 * time.Millisecond}.Post(t.Context(), ended())
	if err == nil || !strings.Contains(err.Error(), "no answer within 300ms") {
		t.Errorf("got %v", err)
	}
}
