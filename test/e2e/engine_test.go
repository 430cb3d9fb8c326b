//go:build e2e || e2e_vllm

package e2e

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A rig is one real engine and the plan that runs it: two concurrencies by two
// max_tokens.
type rig struct {
	task  string // installs it
	files []string

	plan          string
	engine        string
	backend       string // "" is process
	low, high     int    // the plan's concurrencies
	short, long   int    // the plan's max_tokens
	requests      int    // of one cell
	slow          int    // requests that keep the low, long cell busy for some seconds
	hasHistograms bool
	tokenizes     bool // it has an endpoint that counts tokens
	tunnelled     bool // its connections are sweep's own, no sockets of the kernel
	shared        bool // other tests may use this machine meanwhile
}

// excused are the reasons for INVALID that a machine with two busy cores may
// give a measurement, and no fault of the engine or of sweep.
var excused = []string{"client_cpu", "client_stalled", "schedule_lag", "client_lag", "client_loop", "coalesced", "cpu_steal", "server_stopped"}

// usable fails unless the row was measured, and measured well or honestly
// called INVALID for a busy machine.
func usable(t *testing.T, r row) {
	t.Helper()
	switch r["status"] {
	case "ok":
	case "invalid":
		for reason := range strings.SplitSeq(r["invalid_reasons"], ",") {
			if !slices.Contains(excused, reason) {
				t.Errorf("%s: invalid for %q", r, reason)
			}
		}
		t.Logf("%s: excused on a busy machine", r)
	default:
		t.Errorf("%s: want a measured row", r)
	}
}

// ended fails unless the exit code is one that such rows may give: 0, or 3 for
// an INVALID one.
func ended(t *testing.T, code int) {
	t.Helper()
	if code != 0 && code != 3 {
		t.Fatalf("exit code %d", code)
	}
}

// grid: every cell is measured, the figures agree with each other, with what
// was asked for and with what the engine counted, nothing is left running, and no
// verdict is false.
func (g rig) grid(t *testing.T) {
	need(t, g.task, g.files...)
	dir := filepath.Join(t.TempDir(), "run")
	s := start(t, "run", "-o", dir, g.plan)
	code := s.wait()
	ended(t, code)
	s.nothingLeft(0)

	rows := readRows(t, dir)
	if len(rows) != 4 {
		t.Fatalf("got %d rows, want 4", len(rows))
	}
	seen := map[[2]string]bool{}
	for _, r := range rows {
		usable(t, r)
		g.check(t, r)
		if r["attempt"] != "1" {
			t.Errorf("%s: attempt %q, want 1", r, r["attempt"])
		}
		seen[[2]string{r["concurrency"], r["max_tokens"]}] = true
	}
	for _, c := range []int{g.low, g.high} {
		for _, m := range []int{g.short, g.long} {
			if !seen[[2]string{strconv.Itoa(c), strconv.Itoa(m)}] {
				t.Errorf("no row for concurrency %d and max_tokens %d", c, m)
			}
		}
	}
	logs, err := filepath.Glob(filepath.Join(dir, "deployments", "*", "l01", "*.log"))
	if err != nil || len(logs) != 1 {
		t.Errorf("got engine logs %q (%v), want one: all cells share a server", logs, err)
	}
	honest(t, dir, code)
}

func (g rig) check(t *testing.T, r row) {
	t.Helper()
	sent := r.sent(t, g.requests)
	for column, want := range map[string]string{
		"engine": g.engine, "backend": cmp.Or(g.backend, "process"), "simulated": "false",
		"requests": strconv.Itoa(sent), "completed": strconv.Itoa(sent), "failed": "0",
	} {
		if r[column] != want {
			t.Errorf("%s: %s is %q, want %q", r, column, r[column], want)
		}
	}
	maxTokens := r.number(t, "max_tokens")
	if got, want := r.number(t, "output_tokens"), float64(sent)*maxTokens; got != want {
		t.Errorf("%s: %v output tokens, want exactly %v", r, got, want)
	}
	// Only this run talks to the engine, so its counter and ours must agree.
	if client, server := r.number(t, "output_tokens"), r.number(t, "server_output_tokens"); client != server {
		t.Errorf("%s: the client received %v tokens, the engine counted %v", r, client, server)
	}
	for _, positive := range []string{"p50_ttft_ms", "p50_tpot_ms", "p50_icl_ms", "p50_e2e_ms", "input_tokens", "throughput_tok_s", "duration_s"} {
		if r.number(t, positive) <= 0 {
			t.Errorf("%s: %s is %s, want more than nothing", r, positive, r[positive])
		}
	}
	if ttft, e2e := r.number(t, "mean_ttft_ms"), r.number(t, "mean_e2e_ms"); ttft >= e2e {
		t.Errorf("%s: mean TTFT %v is not below mean E2E %v", r, ttft, e2e)
	}
	client, stamps := "fast", "kernel"
	if g.tunnelled {
		client, stamps = "std", "user"
	}
	// A client that stood still may have lost a stamp of the kernel.
	lost := stamps == "kernel" && r["stamp_kind"] == "mixed" && (g.shared || r.stolen())
	if r["client"] != client || r["stamp_kind"] != stamps && !lost {
		t.Errorf("%s: measured by the client %q with stamps of %q, want %s and %s", r, r["client"], r["stamp_kind"], client, stamps)
	}
	t.Logf("%s: client lag p50 %s ms, p99 %s ms, max %s ms; stamps off by %s ms; round trips of up to %s ms",
		r, r["p50_client_lag_ms"], r["p99_client_lag_ms"], r["max_client_lag_ms"], r["stamp_error_ms"], r["max_rtt_ms"])
	if g.tokenizes {
		if off := r.number(t, "prompt_length_error"); off != 0 {
			t.Errorf("%s: prompts are off their length by %v of it", r, off)
		}
		// The tokens of the chat template come on top of the prompt's.
		if got, asked := r.number(t, "mean_prompt_tokens"), r.number(t, "target_input_tokens"); got <= asked {
			t.Errorf("%s: prompts of %v tokens, want more than the %v of the text", r, got, asked)
		}
	}
	if running := r.number(t, "max_requests_running"); running > r.number(t, "concurrency") {
		t.Errorf("%s: the engine ran %v requests at once", r, running)
	}
	r.number(t, "max_requests_waiting")

	if !g.hasHistograms {
		if r["mean_server_ttft_ms"] != "" {
			t.Errorf("%s: mean_server_ttft_ms is %s, but this engine has no histogram of it", r, r["mean_server_ttft_ms"])
		}
		return
	}
	t.Logf("%s: TTFT mean client %s ms, engine %s ms; p50 client %s ms, engine's buckets %s ms; E2E mean client %s ms, engine %s ms",
		r, r["mean_ttft_ms"], r["mean_server_ttft_ms"], r["p50_ttft_ms"], r["p50_server_ttft_ms"], r["mean_e2e_ms"], r["mean_server_e2e_ms"])
	// This engine says how many tokens a chunk has; llama.cpp does not, and
	// holds half a character back.
	r.number(t, "p50_itl_ms")
	for _, l := range []string{"ttft", "itl", "e2e", "queue", "prefill", "decode"} {
		for _, s := range []string{"mean", "p50", "p95", "p99"} {
			r.number(t, s+"_server_"+l+"_ms")
		}
	}
	// The client's time includes the engine's. The slack is for two clocks that begin
	// and end at different lines of code.
	for _, l := range []string{"ttft", "e2e"} {
		client, server := r.number(t, "mean_"+l+"_ms"), r.number(t, "mean_server_"+l+"_ms")
		if server > 1.1*client+5 {
			t.Errorf("%s: mean %s by the engine is %v ms, by the client %v ms", r, l, server, client)
		}
		if server <= 0 {
			t.Errorf("%s: mean %s by the engine is %v ms", r, l, server)
		}
	}
	if hits := r.number(t, "prefix_cache_hit_rate"); hits > 0.05 {
		t.Errorf("%s: %v of the prompt tokens came from the prefix cache, and no prompt was sent twice", r, hits)
	}
	r.number(t, "max_kv_cache_usage")
	r.number(t, "preemptions")
}

// relaunch: an engine that is killed in mid-cell is launched again, and the cell's row
// is that of the second attempt.
func (g rig) relaunch(t *testing.T) {
	need(t, g.task, g.files...)
	dir, events := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "events.jsonl")
	s := start(t, "run", "-o", dir, "--events", events, "--only", fmt.Sprintf("max_tokens == %d && concurrency == %d", g.long, g.low),
		"--set", "load.requests="+strconv.Itoa(g.slow), g.plan)
	s.until(events, func(e event) bool {
		return e.Type == "trial_progress" && e.Attempt == 1 && e.Progress != nil && e.Progress.OutputTokens > 0
	})
	pid := s.engine()
	t.Logf("kill -9 %d", pid)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.until(events, func(e event) bool { return e.Type == "trial_discarded" && strings.Contains(e.Text, "signal: killed") })
	ended(t, s.wait())
	s.nothingLeft(0)

	rows := readRows(t, dir)
	if len(rows) != 1 {
		t.Fatalf("got %d rows, want 1", len(rows))
	}
	usable(t, rows[0])
	if rows[0]["attempt"] != "2" {
		t.Errorf("%s: attempt %q, want 2", rows[0], rows[0]["attempt"])
	}
	if launches, _ := filepath.Glob(filepath.Join(dir, "deployments", "*", "l*")); len(launches) != 2 {
		t.Errorf("launches %q, want two", launches)
	}
}

// sweepKilled: kill -9 of sweep itself takes the engine with it, and resume
// measures what is missing and nothing else.
func (g rig) sweepKilled(t *testing.T) {
	need(t, g.task, g.files...)
	dir, events := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "events.jsonl")
	s := start(t, "run", "-o", dir, "--events", events, "--only", fmt.Sprintf("max_tokens == %d", g.short), "--set", "load.requests=2", g.plan)
	rows := s.killedAndResumed(dir, events, func() { s.nothingLeft(10 * time.Second) })
	if len(rows) != 2 {
		t.Fatalf("got %d rows, want 2", len(rows))
	}
}

// killedAndResumed kills a run in its second trial, calls left to look at what goes on,
// and resumes it. The resume measures what is missing and nothing else.
func (s *invocation) killedAndResumed(dir, events string, left func()) []row {
	s.t.Helper()
	first := s.until(events, func(e event) bool { return e.Type == "trial_committed" })
	s.until(events, func(e event) bool { return e.Type == "trial_started" && e.Cell != first.Cell })
	if err := s.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	s.wait()
	left()
	committed := digests(s.t, filepath.Join(dir, "cells", first.Cell))

	resumed := start(s.t, "resume", dir)
	ended(s.t, resumed.wait())
	resumed.nothingLeft(0)
	after := digests(s.t, filepath.Join(dir, "cells", first.Cell))
	for file, want := range committed {
		if after[file] != want {
			s.t.Errorf("%s was committed before the kill and has changed", file)
		}
	}
	rows := readRows(s.t, dir)
	for _, r := range rows {
		usable(s.t, r)
		if r["cell_id"] == first.Cell && r["attempt"] != "1" {
			s.t.Errorf("%s: what was committed was measured again", r)
		}
	}
	return rows
}

// digests returns the SHA-256 of every file under dir.
func digests(t *testing.T, dir string) map[string][sha256.Size]byte {
	t.Helper()
	sums := map[string][sha256.Size]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		sums[path] = sha256.Sum256(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(sums) == 0 {
		t.Fatalf("%s is empty", dir)
	}
	return sums
}
