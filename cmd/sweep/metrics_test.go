package main

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// A running server is asked where its engine has metrics, and says what is
// wrong if it has none.
func TestMetrics_servers(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile("../../internal/recordtest/testdata/recorded__vllm-0.32.0__metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	at := func(path string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != path {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = w.Write(body)
		}
	}
	other := httptest.NewServer(at("/metrics", body))
	defer other.Close()
	tests := []struct {
		name    string
		handler http.HandlerFunc
		args    []string // {} is the server
		want    string   // on stdout, or with code 1 on stderr
		code    int
	}{
		{"without a path", at("/metrics", body), []string{"{}"}, "generation_tokens", exitOK},
		{"a rarer path", at("/prometheus/metrics", body), []string{"{}/"}, "/prometheus/metrics", exitOK},
		{"one's own path", at("/own", body), []string{"{}/own"}, "vllm:num_requests_running", exitOK},
		{"with a key", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer k1" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			_, _ = w.Write(body)
		}, []string{"{}", "--key-env", "METRICS_KEY"}, "generation_tokens", exitOK},
		{"with a slash", func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/") {
				http.Redirect(w, r, r.URL.Path+"/", http.StatusTemporaryRedirect)
				return
			}
			_, _ = w.Write(body)
		}, []string{"{}"}, "generation_tokens", exitOK},
		{"gzip that nobody announced", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			zw := gzip.NewWriter(w)
			_, _ = zw.Write(body)
			_ = zw.Close()
		}, []string{"{}"}, "generation_tokens", exitOK},
		{"another host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/metrics", http.StatusFound)
		}, []string{"{}"}, "302", exitUsage},
		{"nothing", http.NotFound, []string{"{}"}, "404", exitUsage},
		{"refused", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, []string{"{}/metrics"}, "403", exitUsage},
		{"HTML", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>\n") }, []string{"{}"}, "HTML", exitUsage},
		{"a lost GPU", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "index, uuid, power.draw [W], name\n0, GPU-a, 300 W, A\nUnable to determine the device handle for GPU1: GPU is lost\n")
		}, []string{"{}"}, "line 3  GPU 1 is lost  Unable to determine", exitOK},
		{"a line that is no sample", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "vllm:num_requests_running 1\n\nno sample at all\n")
		}, []string{"{}"}, "line 3    no sample at all", exitOK},
		{"a table without a GPU", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "index, uuid, power.draw [W], name\n0, none, 300 W, A\n")
		}, []string{"{}"}, `line 2 is "0, none, 300 W, A"`, exitUsage},
		{"a last line without a newline", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "vllm:num_requests_running 1\nvllm:num_requests_waiting 12")
		}, []string{"{}"}, "12 requests", exitOK},
		{"one that nothing vouches for", func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			_, _ = rw.WriteString("HTTP/1.0 200 OK\r\n\r\nvllm:num_requests_running 1\nvllm:num_requests_waiting 12")
			_ = rw.Flush()
		}, []string{"{}"}, "1 lines could not be read", exitOK},
		{"iteration statistics before the metrics", func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/metrics":
				_, _ = io.WriteString(w, `[{"numActiveRequests": 3}]`)
			case "/prometheus/metrics":
				_, _ = io.WriteString(w, "trtllm_num_requests_running 7\n")
			default:
				http.NotFound(w, r)
			}
		}, []string{"{}"}, "7 requests", exitOK},
		{"iteration statistics alone", at("/metrics", []byte(`[{"numActiveRequests": 3}]`)), []string{"{}"}, "3 requests", exitOK},
		{"an exporter of GPUs", at("/metrics", []byte("nvidia_smi_power_draw_watts{uuid=\"a\"} 60.5\n")), []string{"{}"}, "60.5 W", exitOK},
		{"too much", func(w http.ResponseWriter, r *http.Request) {
			line := []byte(strings.Repeat("x 1\n", 1<<16))
			for r.Context().Err() == nil {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		}, []string{"{}"}, "larger than 10 MiB", exitIncomplete},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tt.handler)
			defer server.Close()
			args := []string{"probe", "metrics"}
			for _, a := range tt.args {
				args = append(args, strings.ReplaceAll(a, "{}", server.URL))
			}
			got := sweep(t, t.TempDir(), []string{"METRICS_KEY=k1"}, args...)
			said := got.stdout
			if tt.code != exitOK {
				said = got.stderr
			}
			if got.code != tt.code || !strings.Contains(said, tt.want) {
				t.Errorf("exit %d, stdout %s, stderr %s", got.code, got.stdout, got.stderr)
			}
		})
	}
}
