package sim

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"sweep.dev/sweep/internal/polltest"
)

// With SIM_MAIN set the test binary is the program, for what ends a process.
func TestMain(m *testing.M) {
	if os.Getenv("SIM_MAIN") != "" {
		os.Exit(Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	// The race detector has every process wait a second before it exits.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	goleak.VerifyTestMain(m)
}

// syncBuffer is a buffer that a server writes while a test reads.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// An instance is a running server.
type instance struct {
	t      testing.TB
	url    string
	log    *syncBuffer
	stop   context.CancelFunc
	status chan int
	client *http.Client
}

var listening = regexp.MustCompile(`(?:server 0 on|running on|listening on|Listening on) (http://\S+)`)

// start runs the program with a tiny model on a fast GPU and waits for it to listen.
func start(t testing.TB, args ...string) *instance {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	in := &instance{t: t, log: &syncBuffer{}, stop: cancel, status: make(chan int, 1), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	args = append([]string{"--port", "0", "--model", "sweep/tiny", "--gpu", "h100", "--jitter", "0"}, args...)
	go func() { in.status <- Main(ctx, args, io.Discard, in.log) }()
	t.Cleanup(func() {
		in.client.CloseIdleConnections()
		cancel()
		if in.status != nil {
			<-in.status
		}
	})
	in.url = listens(t, in.log)
	return in
}

// attach returns a client of a program that somebody else started.
func attach(t testing.TB, log *syncBuffer) *instance {
	in := &instance{t: t, log: log, client: &http.Client{Transport: &http.Transport{}}, url: listens(t, log)}
	t.Cleanup(in.client.CloseIdleConnections)
	return in
}

// listens waits for the address in a log.
func listens(t testing.TB, log *syncBuffer) string {
	t.Helper()
	var m []string
	if !polltest.Within(polltest.Patience, func() bool {
		m = listening.FindStringSubmatch(log.String())
		return m != nil
	}) {
		t.Fatalf("does not listen:\n%s", log)
	}
	return m[1]
}

// do sends a request and reads the whole answer.
func (in *instance) do(method, path, body string) (int, string) {
	in.t.Helper()
	status, text, err := in.try(method, path, body)
	if err != nil {
		in.t.Fatalf("%s %s: %v", method, path, err)
	}
	return status, text
}

func (in *instance) try(method, path, body string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, in.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("X-Request-Id", "fixed")
	resp, err := in.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// metric returns the value of one series, found by the start of its line.
func (in *instance) metric(prefix string) float64 {
	in.t.Helper()
	_, text := in.do("GET", "/metrics", "")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			v, err := strconv.ParseFloat(line[strings.LastIndexByte(strings.TrimSpace(line), ' ')+1:len(line)-1], 64)
			if err != nil {
				in.t.Fatal(err)
			}
			return v
		}
	}
	in.t.Fatalf("no series %s", prefix)
	return 0
}

func chat(text string, more string) string {
	return fmt.Sprintf(`{"model":"sweep/tiny","messages":[{"role":"user","content":%q}]%s}`, text, more)
}

var created = regexp.MustCompile(`"created":\d+`)

// shape returns the stream with its strings and numbers as values blanked out.
func shape(sse string) []string {
	value := regexp.MustCompile(`:("(?:[^"\\]|\\.)*"|\d+)`)
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(sse), "\n") {
		lines = append(lines, value.ReplaceAllString(strings.TrimSpace(line), ":_"))
	}
	return lines
}

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

// program runs the program as a process of its own.
func program(t *testing.T, args ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "SIM_MAIN=1")
	out, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}
