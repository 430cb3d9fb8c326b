//go:build honesty

package honesty

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/stamp"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/store"
)

var runsFlag = flag.Int("runs", 4, "runs of each load of TestStamped")

// A stamping server knows when each request came, by the kernel's stamp, and when each of its
// tokens was written.
type stamping struct {
	clock  *stamp.Clock
	step   time.Duration // between two tokens; the first comes after five
	tokens int

	mu   sync.Mutex
	seen map[int]stamps
}

// stamps are of one request: when it came, and just before and after its first and its last
// token were written.
type stamps struct{ came, first, firstDone, last, lastDone time.Duration }

// connKey is the connection in the context of a request.
type connKey struct{}

// stamped is a listener whose connections are stamped.
type stamped struct {
	net.Listener
	clock *stamp.Clock
}

func (l stamped) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return stamp.Wrap(c, l.clock), nil
}

// serve starts the server on an address of this machine.
func (s *stamping) serve(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(s)
	s.clock = stamp.NewClock(result.NewAnchor())
	server.Listener = stamped{server.Listener, s.clock}
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	server.Start()
	return server
}

func (s *stamping) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	at := stamps{came: r.Context().Value(connKey{}).(*stamp.Conn).Last().At} // as serve has put it there
	if r.Method != http.MethodPost {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	timer := load.NewTimer()
	defer timer.Close()
	due := begun.Add(4 * s.step)
	for n := range s.tokens {
		due = due.Add(s.step)
		if timer.WaitUntil(r.Context(), due) != nil {
			return
		}
		at.last = s.clock.Now()
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"content":" a"},"finish_reason":null}]}`, "\n\n")
		_ = http.NewResponseController(w).Flush() // the client sees it if it fails
		if at.lastDone = s.clock.Now(); n == 0 {
			at.first, at.firstDone = at.last, at.lastDone
		}
	}
	fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", s.tokens)
	if m := numberedSuffix.FindStringSubmatch(r.Header.Get("X-Request-Id")); m != nil {
		n, _ := strconv.Atoi(m[1]) // matched
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen[n] = at
	}
}

var numberedSuffix = regexp.MustCompile(`-n(\d+)$`)

const stampedPlan = `version: 1
name: stamped
model: m
matrix: {engine: under-test, %s}
backend: {kind: endpoint, url: %s}
engines: {under-test: {profile: generic-openai}}
load: {requests: 160, max_tokens: 40, prompts: {input_tokens: 20, length: words}}
calibrate: never
retries: 0
sinks: [csv: {columns: full}]
`

// TestStamped holds figures against a server that knows when it wrote each token, on a machine
// that is quiet and beside processes that are busy: p50 and p95 of a figure that is called VALID
// are right to 5 %, and TTFT and E2E to 2 ms.
func TestStamped(t *testing.T) {
	for _, loop := range []string{"concurrency: 16", "request_rate: 30"} {
		for _, busy := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s, %d busy", loop, busy), func(t *testing.T) {
				stop := hogs(t, busy)
				defer stop()
				invalid, figures, worst, where := 0, 0, 0.0, ""
				for range *runsFlag {
					o, errors := stampedRun(t, loop)
					if o.text("status") == "invalid" {
						invalid++
						t.Logf("%s; %s", o.text("invalid_figures"), o)
					}
					for column, e := range errors {
						if !usable(o, column) {
							continue
						}
						figures++
						if e > worst {
							worst, where = e, fmt.Sprintf("%s %.2f ms: %s", column, o.number(column), o)
						}
						if e > 1 {
							t.Errorf("%s is VALID and off by %.2f of what is allowed: %.2f ms; %s", column, e, o.number(column), o)
						}
					}
				}
				fmt.Printf("honesty: stamped, %s, %d busy: %d of %d INVALID, %d figures VALID, the worst off by %.2f of what is allowed (%.60s)\n",
					loop, busy, invalid, *runsFlag, figures, worst, where)
			})
		}
	}
}

// usable reports whether a figure of a row may be used.
func usable(o outcome, column string) bool {
	named := o.text("invalid_figures")
	if named == "" {
		return o.text("status") == "ok"
	}
	return !slices.Contains(strings.Split(named, ","), column)
}

// hogs are processes that use all the CPU that they get.
func hogs(t *testing.T, n int) (stop func()) {
	t.Helper()
	var all []*exec.Cmd
	for range n {
		c := exec.Command("sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return func() {
		for _, c := range all {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
}

// stampedRun measures the server once. The errors are those of p50 and p95, as shares of what
// is allowed.
func stampedRun(t *testing.T, loop string) (outcome, map[string]float64) {
	t.Helper()
	law := &stamping{step: 10 * time.Millisecond, tokens: 40, seen: map[int]stamps{}}
	server := law.serve(t)
	defer server.Close()
	dir := t.TempDir()
	plan := filepath.Join(dir, "stamped.yaml")
	if err := os.WriteFile(plan, fmt.Appendf(nil, stampedPlan, loop, server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(dir, "run")
	start(t, nil, "run", "-o", run, plan).wait()
	all := outcomes(t, run)
	if len(all) != 1 {
		t.Fatalf("%d cells", len(all))
	}
	files, _ := filepath.Glob(filepath.Join(run, "cells", "*", "t01", "a*", "requests.parquet")) // the pattern is good
	least, most := map[string][]float64{}, map[string][]float64{}
	for r, err := range store.RequestsOf(files[len(files)-1]) {
		if err != nil {
			t.Fatal(err)
		}
		at, ok := law.seen[r.N]
		if r.Phase != result.Plateau || !ok {
			continue
		}
		// In an open loop what the client was late by is in the latencies, which count from the
		// schedule: it is an error of theirs.
		add := func(latency string, from, to time.Duration, n int) {
			least[latency] = append(least[latency], float64(from)/float64(n)/1e6)
			most[latency] = append(most[latency], float64(to)/float64(n)/1e6)
		}
		add("ttft", at.first-at.came, at.firstDone-at.came, 1)
		add("e2e", at.last-at.came, at.lastDone-at.came, 1)
		add("tpot", at.last-at.firstDone, at.lastDone-at.first, law.tokens-1)
	}
	errors := map[string]float64{}
	for latency := range least {
		slices.Sort(least[latency])
		slices.Sort(most[latency])
		for name, p := range map[string]float64{"p50": 0.5, "p95": 0.95} {
			column := name + "_" + latency + "_ms"
			low, high, got := result.Quantile(least[latency], p), result.Quantile(most[latency], p), all[0].number(column)
			allowed := 0.05 * low
			if latency != "tpot" {
				allowed = max(allowed, 2)
			}
			errors[column] = max(low-got, got-high, 0) / allowed
		}
	}
	return all[0], errors
}
