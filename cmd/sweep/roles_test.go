package main

import (
	"encoding/json"
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

// page serves the metrics of a vLLM worker with so many requests. keyed becomes
// true if it is asked with a key.
func page(t *testing.T, running int, keyed *atomic.Bool) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		if r.Header.Get("Authorization") != "" {
			keyed.Store(true)
		}
		fmt.Fprintf(w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running %d\n", running)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestEndpoint_roles holds that an endpoint of several roles is measured, that
// the server's columns come of each role's own metrics, and that a role without
// an address has none and is named. The key goes to the endpoint's host alone.
func TestEndpoint_roles(t *testing.T) {
	t.Parallel()
	var same, other atomic.Bool
	prefill, decode := page(t, 3, &other), page(t, 5, &same)
	frontend := newGivenServer(t, func(s *givenServer) {
		s.metrics = "# TYPE dynamo_frontend_inflight_requests gauge\ndynamo_frontend_inflight_requests 1\n"
		s.delay = 50 * time.Millisecond // so that there are looks during the load
	})
	elsewhere := strings.Replace(prefill.URL, "127.0.0.1", "localhost", 1)
	for name, c := range map[string]struct {
		roles           string
		prefill, decode any
		lost            string
	}{
		"all":  {fmt.Sprintf("prefill: [{metrics: %q}], decode: [{metrics: %q}]", elsewhere, decode.URL), 3.0, 5.0, ""},
		"one":  {fmt.Sprintf("decode: [{metrics: %q}]", decode.URL+"/metrics"), nil, 5.0, "metrics of prefill is not known"},
		"none": {"", nil, nil, "metrics of prefill, decode is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "p.yaml"), fmt.Sprintf(`
version: 1
name: roles
model: m
matrix: {engine: dynamo-disagg, gpu: theirs, concurrency: 1, max_tokens: 2}
backend: {kind: endpoint, url: %q, key: "${SWEEP_API_KEY}", roles: {%s}}
collect: [{prom: {interval: 100ms}}]
load: {requests: 20, warmup: {requests: 0}, output: natural, prompts: {input_tokens: 5, length: words}}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
`, frontend.URL, c.roles))
			if got := sweep(t, dir, canaryNames, "validate", "p.yaml"); got.code != exitOK {
				t.Fatalf("validate: exit %d\n%s", got.code, got.stderr)
			}
			got := sweep(t, dir, canaryNames, "run", "--calibrate", "never", "--json", "-o", "out", "p.yaml")
			var row map[string]any
			if err := json.Unmarshal([]byte(got.stdout), &row); err != nil || row["completed"] != 21.0 {
				t.Fatalf("exit %d, %v, row %v\n%s", got.code, err, row, got.stderr)
			}
			if row["prefill_mean_requests_running"] != c.prefill || row["decode_mean_requests_running"] != c.decode {
				t.Errorf("prefill %v, decode %v; want %v, %v: %v", row["prefill_mean_requests_running"], row["decode_mean_requests_running"], c.prefill, c.decode, row)
			}
			summary, err := os.ReadFile(filepath.Join(dir, "out", "summary.md"))
			if err != nil {
				t.Fatal(err)
			}
			if found := strings.Contains(fmt.Sprint(row["findings"]), "metrics_unreachable"); found != (c.lost != "") || !strings.Contains(string(summary), c.lost) {
				t.Errorf("findings %v, want one of %q:\n%s", row["findings"], c.lost, summary)
			}
		})
	}
	if !same.Load() || other.Load() {
		t.Errorf("the key came to the endpoint's host: %v, to another: %v", same.Load(), other.Load())
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "p.yaml"), fmt.Sprintf(`
version: 1
name: roles
model: m
matrix: {engine: dynamo-disagg, gpu: theirs, concurrency: 1, max_tokens: 2}
backend: {kind: endpoint, url: %q, roles: {worker: [{metrics: %q}]}}
load: {requests: 4, prompts: {input_tokens: 5}}
`, frontend.URL, decode.URL))
	for _, command := range []string{"validate", "run"} {
		if got := sweep(t, dir, nil, command, "p.yaml"); got.code != exitUsage || !strings.Contains(got.stderr, "its roles are prefill, decode, frontend") {
			t.Errorf("%s: exit %d\n%s", command, got.code, got.stderr)
		}
	}
}
