//go:build bench

package benchmarks

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/wire"
	shards "sweep.dev/sweep/load/worker"
	"sweep.dev/sweep/load/worker/processes"
	"sweep.dev/sweep/result"
)

const (
	partEnv  = "SWEEP_BENCH_PROMPTS" // makes this test binary a client of TestPrompts
	uploaded = "uploaded"            // as engineEnv: its server
)

// longPrompt is the length of each prompt, in words of about a token.
const longPrompt = 40_000

// part plays what the environment says of TestPrompts: a client, or the server; false for
// nothing of it.
func part() bool {
	var err error
	switch {
	case os.Getenv(engineEnv) == uploaded:
		err = sink()
	case os.Getenv(partEnv) != "":
		err = shards.Main(context.Background(), os.Stdin, os.Stdout, "127.0.0.1:0", "")
	default:
		return false
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// sink prints its address, throws away what it is sent, answers with one token, and ends
// with its standard input.
func sink() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var got atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/bytes", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, got.Load()) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		got.Add(n)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`, "\n\n",
			`data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, "\n\n", "data: [DONE]\n\n")
	})
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(ln) }()
	fmt.Println("http://" + ln.Addr().String())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return server.Close()
}

func oneClient() *exec.Cmd {
	return &exec.Cmd{Path: os.Args[0], Args: os.Args[:1], Env: []string{partEnv + "=1"}}
}

// TestPrompts prints what one client and two upload of prompts of 40,000 tokens, by turns,
// in a closed loop of 16 streams to a server that does nothing else.
func TestPrompts(t *testing.T) {
	url := launch(t, uploaded)
	fmt.Printf("%d CPUs, of which the server has its part; prompts of %d words, 16 streams, %g s each\n\n", runtime.NumCPU(), longPrompt, *seconds)
	fmt.Println("clients   MB/s  requests/s  MB/request  CPUs of the clients")
	for range *reps {
		for _, n := range []int{1, 2} {
			upload(t, url, n)
		}
	}
}

func upload(t *testing.T, url string, n int) {
	t.Helper()
	all, err := processes.Start(t.Context(), nil, n, oneClient)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	}()
	target, err := shards.NewTarget(wire.Config{BaseURL: url, Model: "m", Chat: true, Stream: true, IncludeUsage: true, NetworkPath: "loopback"}, "fast")
	if err != nil {
		t.Fatal(err)
	}
	g, err := shards.Join(t.Context(), target, all.Addresses())
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var rec uploads
	before := taken(t, url)
	h, err := g.Run(t.Context(), shards.Load{Source: source.Config{
		Cell: "0123456789ab", Trial: 1, MaxTokens: 1, Concurrency: 16, Deadline: time.Minute,
		Duration: time.Duration(*seconds * float64(time.Second)), Prompts: source.Prompts{InputTokens: longPrompt},
	}}, &rec, load.Options{Anchor: result.NewAnchor(), Drain: time.Minute})
	if err != nil || rec.failed > 0 || rec.n == 0 {
		t.Fatalf("%d requests failed of %d: %v", rec.failed, rec.n, err)
	}
	took, cpus := (rec.end - rec.begin).Seconds(), 0.0
	for _, s := range h.Shards {
		if s.Lost != "" {
			t.Fatal(s.Lost)
		}
		cpus += s.CPU * float64(runtime.NumCPU())
	}
	mb := float64(taken(t, url)-before) / 1e6
	fmt.Printf("%7d  %5.0f  %10.1f  %10.3f  %19.2f\n", n, mb/took, float64(rec.n)/took, mb/float64(rec.n), cpus)
}

// uploads counts requests. A group records one at a time.
type uploads struct {
	n, failed  int
	begin, end time.Duration
}

func (u *uploads) Record(q result.Request) {
	if q.Status != result.Completed {
		u.failed++
	}
	if u.n == 0 || q.Sent < u.begin {
		u.begin = q.Sent
	}
	u.n, u.end = u.n+1, max(u.end, q.End)
}

// taken returns how many bytes of bodies the server has taken.
func taken(t *testing.T, url string) (n int64) {
	t.Helper()
	resp, err := http.Get(url + "/bytes")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(strings.TrimSpace(string(text)), &n); err != nil {
		t.Fatal(err)
	}
	return n
}
