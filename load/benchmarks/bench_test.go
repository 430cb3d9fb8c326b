package benchmarks

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/loadtest"
	"sweep.dev/sweep/load/openai"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// engineEnv makes this test binary the server: it holds the time between two
// tokens, or flood.
const (
	engineEnv = "SWEEP_BENCH_ENGINE_ITL"
	flood     = "flood" // tokens without end and without pause
)

func TestMain(m *testing.M) {
	if itl, err := time.ParseDuration(os.Getenv(engineEnv)); err == nil {
		serve(loadtest.Answer{TTFT: itl, ITL: itl})
		return
	}
	if os.Getenv(engineEnv) == flood {
		serve(loadtest.Answer{Fault: loadtest.Flood})
		return
	}
	if worker() {
		return
	}
	goleak.VerifyTestMain(m)
}

// serve is the server's process: it ends when its standard input does, which
// is at the latest when the client's process ends.
func serve(a loadtest.Answer) {
	e := loadtest.New(func(*loadtest.Request) loadtest.Answer { return a })
	fmt.Println(e.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
	e.Close()
}

// server starts the other process and returns its URL.
func server(tb testing.TB, itl time.Duration) string { return launch(tb, itl.String()) }

func launch(tb testing.TB, answer string) string {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), engineEnv+"="+answer)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			tb.Errorf("server: %v", err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func stats(tb testing.TB, url string) loadtest.Stats {
	tb.Helper()
	resp, err := http.Get(url + "/stats")
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	var s loadtest.Stats
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		tb.Fatal(err)
	}
	return s
}

type rows []result.Request

func (r *rows) Record(q result.Request) { *r = append(*r, q) }

// A figure is what one run says of the client.
type figure struct {
	chunks    int
	coalesced int
	cpu       time.Duration // of this process
	ttft, itl []time.Duration
	health    load.Health
}

// ask has n streams ask the server once each, for so many tokens.
func ask(tb testing.TB, d load.Driver, n, tokens int) (rows, load.Health) {
	tb.Helper()
	src, err := source.New(source.Config{
		Concurrency: n, Requests: n, MaxTokens: tokens, Deadline: 5 * time.Minute,
		Prompts: source.Prompts{InputTokens: 50},
	})
	if err != nil {
		tb.Fatal(err)
	}
	got := make(rows, 0, n)
	h, err := d.Run(tb.Context(), src, &got, load.Options{Anchor: result.NewAnchor(), RequestID: "r"})
	if err != nil {
		tb.Fatal(err)
	}
	if len(got) != n {
		tb.Errorf("%d rows for %d requests", len(got), n)
	}
	return got, h
}

// streams runs so many streams at once, of so many tokens each, and checks that
// the server and the client agree on every one of them.
func streams(tb testing.TB, url string, n, tokens int) figure {
	tb.Helper()
	d, err := openai.New(wire.Config{BaseURL: url, Model: "m", Chat: true, Stream: true, IncludeUsage: true})
	if err != nil {
		tb.Fatal(err)
	}
	defer d.Close()
	before := cpu()
	got, h := ask(tb, d, n, tokens)
	f := figure{cpu: cpu() - before, health: h, chunks: h.Chunks, coalesced: h.Coalesced}

	seen := stats(tb, url)
	if seen.Peak != n || seen.Requests != n {
		tb.Errorf("the server saw %d requests, %d at once; want %d", seen.Requests, seen.Peak, n)
	}
	for _, r := range got {
		sent := seen.Tokens[fmt.Sprintf("r-s0-n%d", r.N)]
		// One chunk names the role.
		if r.Status != result.Completed || sent != tokens || r.CompletionTokens != sent || len(r.ChunkUS) != tokens+1 {
			tb.Errorf("request %d: %s %s %q: %d chunks, %d tokens of %d sent",
				r.N, r.Status, r.ErrorClass, r.Error, len(r.ChunkUS), r.CompletionTokens, sent)
			continue
		}
		f.ttft = append(f.ttft, r.FirstToken-r.Sent)
		for _, us := range r.ChunkUS[2:] {
			f.itl = append(f.itl, time.Duration(us)*time.Microsecond)
		}
	}
	slices.Sort(f.ttft)
	slices.Sort(f.itl)
	return f
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func at(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(p*float64(len(sorted)-1))]
}

const itl = 50 * time.Millisecond // 20 chunks a second

func TestManyStreams(t *testing.T) {
	f := streams(t, server(t, itl), 200, 40)
	t.Logf("%d chunks, %v CPU a chunk", f.chunks, f.cpu/time.Duration(max(1, f.chunks)))
}

// BenchmarkThousandStreams is 1,000 streams of 20 chunks a second for 30 s.
func BenchmarkThousandStreams(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		url := server(b, itl)
		b.StartTimer()
		f := streams(b, url, 1000, 600)
		b.ReportMetric(float64(f.chunks), "chunks")
		b.ReportMetric(float64(f.cpu.Microseconds())/float64(f.chunks), "cpu-us/chunk")
		b.ReportMetric(f.health.CPU, "client-cpu")
		b.ReportMetric(float64(f.coalesced)/float64(f.chunks), "coalesced/chunk")
		b.ReportMetric(float64(at(f.ttft, 0.5).Microseconds())/1000, "p50-ttft-ms")
		b.ReportMetric(float64(at(f.itl, 0.5).Microseconds())/1000, "p50-itl-ms")
		b.ReportMetric(float64(at(f.itl, 0.99).Microseconds())/1000, "p99-itl-ms")
	}
}
