package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// connect returns a client of a handler, configured as people configure theirs.
func connect(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewTLSServer(h) // a token is sent to no other
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: hunter2hunter2}}]
contexts: [{name: lab, context: {cluster: c, user: u}}]
current-context: lab
`, s.URL+"/k8s/clusters/c-1")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Connect(Config{Kubeconfig: file})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type item struct{ Metadata struct{ Name string } }

// Each answer that is no success says what it means.
func TestGet_refusals(t *testing.T) {
	t.Parallel()
	const forbidden = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":`
	for name, c := range map[string]struct {
		code int
		body string
		want string
		rbac bool
	}{
		"rbac":         {403, forbidden + `"pods is forbidden: User \"system:serviceaccount:a:b\" cannot list resource \"pods\" in API group \"\" in the namespace \"prod\""}`, "system:serviceaccount:a:b may not list pods in namespace prod", true},
		"rbac, group":  {403, forbidden + `"gateways.gateway.networking.k8s.io \"g\" is forbidden: User \"u\" cannot get resource \"gateways\" in API group \"gateway.networking.k8s.io\" in the namespace \"edge\": RBAC: role not found"}`, "u may not get gateways.gateway.networking.k8s.io in namespace edge", true},
		"rbac, nodes":  {403, forbidden + `"nodes is forbidden: User \"u\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"}`, "u may not list nodes in the whole cluster", true},
		"terminating":  {403, forbidden + `"unable to create new content in namespace ns because it is being terminated"}`, "403 Forbidden: unable to create", false},
		"unauthorized": {401, `{"kind":"Status","reason":"Unauthorized","message":"Unauthorized","code":401}`, "wrong or expired", false},
		"no kind":      {404, "404 page not found\n", "404 Not Found: 404 page not found", false},
		"a proxy":      {502, "<html>\x1b[31m Bad\n Gateway" + strings.Repeat("x", 5000), "502 Bad Gateway: <html>", false},
		"a redirect":   {302, "", "302 Found", false},
	} {
		api := connect(t, func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Authorization"); got != "Bearer hunter2hunter2" || r.URL.Path != "/k8s/clusters/c-1/api/v1/pods" {
				t.Errorf("%s: %s with %q", name, r.URL, got)
			}
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(c.code)
			fmt.Fprint(w, c.body)
		})
		err := api.Get(t.Context(), "/api/v1/pods", &item{})
		if _, rbac := errors.AsType[*Denied](err); err == nil || !strings.Contains(err.Error(), c.want) || rbac != c.rbac || len(err.Error()) > 600 {
			t.Errorf("%s: %v", name, err)
		}
		if NotFound(err) != (c.code == 404) {
			t.Errorf("%s: NotFound is %v", name, NotFound(err))
		}
	}
}

// The server's clock is that of its answer, and unknown if it does not tell it.
func TestGetDated(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Time{
		"Thu, 26 Nov 2026 09:00:01 GMT": time.Date(2026, 11, 26, 9, 0, 1, 0, time.UTC),
		"soon":                          {},
		"":                              {},
	} {
		api := connect(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Date"] = nil // not the one that Go adds
			if header != "" {
				w.Header().Set("Date", header)
			}
			fmt.Fprint(w, `{"metadata":{"name":"a"}}`)
		})
		var got item
		if at, err := api.GetDated(t.Context(), "/api/v1/pods/a", &got); err != nil || !at.Equal(want) || got.Metadata.Name != "a" {
			t.Errorf("%q: %v, %v, %+v", header, at, err, got)
		}
	}
}

// A busy server is asked again, as often as is bearable.
func TestGet_busy(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	api := connect(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(w, `{"metadata":{"name":"a"}}`)
	})
	var got item
	if err := api.Get(t.Context(), "/x", &got); err != nil || got.Metadata.Name != "a" || asked.Load() != 3 {
		t.Errorf("%+v, %v after %d questions", got, err, asked.Load())
	}
	asked.Store(-1000)
	if err := api.Get(t.Context(), "/x", &got); err == nil || !strings.Contains(err.Error(), "too busy") || asked.Load() != -1000+tries {
		t.Errorf("%v after %d questions", err, asked.Load()+1000)
	}
}

// A question ends when its context does.
func TestGet_cancelled(t *testing.T) {
	t.Parallel()
	api := connect(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("enough"))
	defer cancel()
	if err := api.Get(ctx, "/x", &item{}); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Error(err)
	}
}

// A list is read to its end, and from its beginning if the server lost its place.
func TestList(t *testing.T) {
	t.Parallel()
	gone := true
	api := connect(t, func(w http.ResponseWriter, r *http.Request) {
		next := r.URL.Query().Get("continue")
		if next == "2" && gone {
			gone = false
			w.WriteHeader(http.StatusGone)
			fmt.Fprint(w, `{"kind":"Status","reason":"Expired","message":"The provided continue parameter is too old"}`)
			return
		}
		after := map[string]string{"": "1", "1": "2"}[next]
		fmt.Fprintf(w, `{"metadata":{"continue":%q},"items":[{"metadata":{"name":"p%s"}}]}`, after, next)
	})
	got, err := List[item](t.Context(), api, "/pods")
	if err != nil || len(got) != 3 || got[2].Metadata.Name != "p2" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A server whose list never ends is not read for ever.
func TestList_endless(t *testing.T) {
	t.Parallel()
	page := `{"metadata":{"continue":"more"},"items":[` + strings.Repeat(`{},`, pageSize-1) + `{}]}`
	api := connect(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page) })
	if _, err := List[item](t.Context(), api, "/pods"); err == nil || !strings.Contains(err.Error(), "at most 10000") {
		t.Error(err)
	}
}

// Each right is asked for by itself.
func TestReview(t *testing.T) {
	t.Parallel()
	api := connect(t, func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Spec struct{ ResourceAttributes map[string]string }
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.Method != http.MethodPost {
			t.Errorf("%s: %v", r.Method, err)
		}
		a := q.Spec.ResourceAttributes
		fmt.Fprintf(w, `{"status":{"allowed":%v}}`, a["namespace"] == "ns" && a["verb"] == "get" && a["resource"] == "pods" && a["subresource"] == "log")
	})
	got, err := api.Review(t.Context(), "ns", []Right{{Verb: "get", Resource: "pods/log"}, {Verb: "get", Resource: "pods"}})
	if err != nil || !got[0] || got[1] {
		t.Errorf("%v, %v", got, err)
	}
}

func TestConnect_nothing(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	none := filepath.Join(t.TempDir(), "none")
	if _, err := Connect(Config{Kubeconfig: none}); err == nil || !strings.Contains(err.Error(), "set KUBECONFIG") {
		t.Error(err)
	}
	if _, err := Connect(Config{Kubeconfig: none, Context: "prod"}); err == nil || !strings.Contains(err.Error(), "prod") {
		t.Error(err)
	}
}
