package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/rundir/rundirtest"
)

// TestFault_operations lets single operations of whole runs fail, as a full or
// a broken disk does: the run ends with a clear error and its servers are gone,
// earlier trials stay as they are, and a resume completes the grid. Package
// rundir fails every single operation; here it is every fifteenth of a run under the
// tag slow, and four of a run without.
func TestFault_operations(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	first, step := map[string]int{"ENOSPC": 1, "EIO": 51}, 100
	if slow.Tests {
		first, step = map[string]int{"ENOSPC": 1, "EIO": 1}, 15
	}
	for errno, n := range first {
		for ; n <= 200; n += step {
			t.Run(fmt.Sprintf("%s@%d", errno, n), func(t *testing.T) {
				t.Parallel()
				recovered(t, want, fmt.Sprintf("op:err=%s@%d", errno, n), func(got ran) bool {
					return got.code == exitOK || got.code == exitIncomplete && got.stderr != "" || got.code == exitInternal ||
						got.code == exitCleanup
				})
			})
		}
	}
}

// TestFault_panic lets a fault of ours strike in the midst of a run: teardown
// still runs, nothing is left, and the exit code is 1. It is 4 if it strikes as a server
// is ended, which then is not known to be gone.
func TestFault_panic(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	points := []effect.Point{effect.LaunchJournal, effect.CommitJournal, effect.KillServer}
	if slow.Tests {
		points = append(points, effect.LedgerIntent, effect.BeginJournal, effect.AttemptRename)
	}
	for _, p := range points {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			recovered(t, want, string(p)+":panic", func(got ran) bool {
				code := exitInternal
				if p == effect.KillServer {
					code = exitCleanup
				}
				return got.code == code && strings.Contains(got.stderr, "panic")
			})
		})
	}
}

// recovered runs the crash plan under a fault, checks how it ends, and resumes
// it to the grid of an undisturbed run.
func recovered(t *testing.T, want []string, fault string, ended func(ran) bool) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "crash.yaml"), crashPlan)
	out := filepath.Join(dir, "run")
	start := []string{"run", "-o", out, "crash.yaml"}
	got := sweep(t, dir, []string{"SWEEP_FAULT=" + fault}, start...)
	if !ended(got) {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	before, err := rundirtest.Trials(out)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	again := sweep(t, dir, nil, "resume", out)
	if again.code == exitUsage {
		again = sweep(t, dir, nil, start...) // it never began
	}
	if again.code != exitOK {
		t.Fatalf("resume ended with %d\n%s\nafter\n%s", again.code, again.stderr, got.stderr)
	}
	after, err := rundirtest.Trials(out)
	if err != nil {
		t.Fatal(err)
	}
	rundirtest.Unchanged(t, before, after)
	if err := rundirtest.Check(out); err != nil {
		t.Error(err)
	}
	if got := grid(t, out); !slices.Equal(got, want) {
		t.Errorf("the grid is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	asked(t, out)
	alone(t, out)
}

// TestStopped stops the client's process in mid-cell, as a laptop's lid does:
// the cell's numbers are INVALID for that reason.
func TestStopped(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "run")
	cmd := underLoad(t, out, "5%")
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2500 * time.Millisecond) // is how long it is stopped
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitIncomplete {
		t.Fatalf("ended with %v, want exit %d", err, exitIncomplete)
	}
	run, err := report.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	reasons := fmt.Sprint(run.Rows()[0]["invalid_reasons"])
	if !strings.Contains(reasons, "client_stalled") {
		t.Errorf("invalid_reasons is %q, want client_stalled in it", reasons)
	}
}

// underLoad starts a run of one cell on a server of its own, and returns once the
// load goes on.
func underLoad(t *testing.T, out, moved string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "slow.yaml"), `
version: 1
name: slow
model: Qwen/Qwen2.5-1.5B-Instruct
matrix: {engine: vllm, gpu: l4, concurrency: 2, max_tokens: 100}
backend: sim
load: {requests: 10, warmup: {requests: 0}, prompts: {input_tokens: 20}}
timeouts: {stop: 2m}
validity: {max_moved: `+moved+`, max_steal: 1, max_drift: 100}
`)
	cmd := exec.CommandContext(t.Context(), executable(t), "run", "-o", out, "slow.yaml")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), asSweep+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the load has begun", func() bool { return busy(out) })
	return cmd
}

// busy reports whether the server of a run computes two requests at once, and has given
// more tokens than the short completions before a load have.
func busy(out string) bool {
	logs, _ := filepath.Glob(filepath.Join(out, "deployments", "*", "l01", "server-0.log")) // the pattern is good
	if len(logs) == 0 {
		return false
	}
	b, err := os.ReadFile(logs[0])
	if err != nil {
		return false
	}
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).Find(b)
	if url == nil {
		return false
	}
	resp, err := http.Get(string(url) + "/metrics")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return false
	}
	value := func(series string) float64 {
		m := regexp.MustCompile(`(?m)^` + series + `\{.*\} (\S+)$`).FindSubmatch(body)
		if m == nil {
			return 0
		}
		v, _ := strconv.ParseFloat(string(m[1]), 64) // 0 is no load
		return v
	}
	return value("vllm:num_requests_running") == 2 && value("vllm:generation_tokens_total") > 150
}
