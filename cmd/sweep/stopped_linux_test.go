package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/report"
)

// underLoad starts a run of one cell on a server of its own, and returns once the
// load goes on, with the server's process.
func underLoad(t *testing.T, out string) (run *exec.Cmd, server int) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "plan.yaml"), `
version: 1
name: stopped
model: Qwen/Qwen2.5-1.5B-Instruct
matrix: {engine: vllm, gpu: l4, concurrency: 2, max_tokens: 100}
backend: sim
load: {requests: 12, warmup: {requests: 0}, prompts: {input_tokens: 20}}
timeouts: {stop: 2m}
validity: {max_client_cpu: 1, max_schedule_lag: 30s, max_stall: 60s, max_client_lag: 60s, max_loop: 1, max_coalesced: 1, max_steal: 1, max_drift: 100}
`)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run = exec.CommandContext(t.Context(), self, "run", "--calibrate", "never", "-o", out, "plan.yaml")
	run.Dir, run.Env = dir, append(os.Environ(), asSweep+"=1")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !begun(out); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the trial never began")
		}
	}
	time.Sleep(500 * time.Millisecond)
	// The guard is our child, the server is the guard's.
	tree := procfs.Descendants(run.Process.Pid)
	i := slices.IndexFunc(tree, func(pid int) bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // may have ended
		return strings.Contains(string(b), "\x00sim\x00")
	})
	if i < 0 {
		t.Fatalf("no server among %v", tree)
	}
	return run, tree[i]
}

func poke(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// A server that was stopped in mid-cell did not serve anybody: its row is INVALID,
// and the silence is no stall of the engine's own.
func TestVerdict_serverStopped(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "run")
	run, server := underLoad(t, out)
	poke(t, server, syscall.SIGSTOP)
	time.Sleep(3 * time.Second)
	poke(t, server, syscall.SIGCONT)
	if err := run.Wait(); run.ProcessState.ExitCode() != exitIncomplete {
		t.Fatalf("ended with %v, want exit %d", err, exitIncomplete)
	}
	got, err := report.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	row := got.Rows()[0]
	if reasons := fmt.Sprint(row["invalid_reasons"]); !strings.Contains(reasons, "server_stopped") {
		t.Errorf("invalid_reasons is %q, want server_stopped in it", reasons)
	}
	if findings := fmt.Sprint(row["findings"]); strings.Contains(findings, "server_stalled") {
		t.Errorf("findings are %q: what is a reason is no stall of the engine's own", findings)
	}
}

// An interrupt does not wait for a server that is stopped: neither for what is in
// flight on it, nor for its grace, which is 2 minutes here.
func TestRun_interruptedWhileServerIsStopped(t *testing.T) {
	t.Parallel()
	run, server := underLoad(t, filepath.Join(t.TempDir(), "run"))
	poke(t, server, syscall.SIGSTOP)
	began := time.Now()
	poke(t, run.Process.Pid, syscall.SIGINT)
	if err := run.Wait(); run.ProcessState.ExitCode() != exitInt {
		t.Errorf("ended with %v, want exit %d", err, exitInt)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the run ended %v after the interrupt", took)
	}
	if p, ok := procfs.Stat(server); ok && p.Alive() {
		t.Errorf("the server is still there: %+v", p)
	}
}
