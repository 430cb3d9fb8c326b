package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/result/store"
	"sweep.dev/sweep/rundir"
)

// clientsPlan has loads of both kinds that several clients send, and conversations, and bounds that a busy machine cannot break but by its clients' starts.
const clientsPlan = `
version: 1
name: clients
model: Qwen/Qwen2.5-1.5B-Instruct
matrix: {engine: vllm, gpu: l4}
backend: {kind: sim, request_log: true}
loads:
  - {name: closed, clients: 3, concurrency: 5, requests: 40, max_tokens: 4, prompts: {input_tokens: 20}}
  - {name: turns, clients: 3, concurrency: 3, requests: 24, max_tokens: 4, conversation: {turns: 3}, prompts: {input_tokens: 20}}
  - {name: open, clients: {n: 3, kind: process}, request_rate: 40, requests: 60, max_tokens: 4, prompts: {input_tokens: 20}}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
`

// Several clients send exactly what the plan says: the engine was asked what is in the
// rows, each client sent a part, and no process is left.
func TestClients_asked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "clients.yaml"), clientsPlan)
	out := filepath.Join(dir, "run")
	got := sweep(t, dir, nil, "run", "-o", out, "clients.yaml")
	if got.code != exitOK && got.code != exitIncomplete { // a busy machine starts clients late
		t.Fatalf("exit %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	asked(t, out)
	alone(t, out)
	st, err := rundir.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	for key, c := range st.Committed {
		f, err := os.Open(filepath.Join(rundir.AttemptDir(out, c), "requests.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		shards, last := map[int]int{}, int64(0)
		for r, err := range store.ReadRequests(f, info.Size()) {
			if err != nil {
				t.Fatal(err)
			}
			if int64(r.Scheduled) < last {
				t.Errorf("%v: request %d is due before the one above it", key, r.N)
			}
			last = int64(r.Scheduled)
			if !r.Measured() {
				continue
			}
			shards[r.Shard]++
		}
		f.Close()
		if len(shards) != 3 {
			t.Errorf("%v: requests by client: %v", key, shards)
		}
	}
	for _, row := range rowsOf(t, out) {
		for _, never := range []string{"client_lost", "client_clock", "clients_differ", "error_rate"} {
			if reasons := fmt.Sprint(row["invalid_reasons"]); strings.Contains(reasons, never) {
				t.Errorf("invalid_reasons is %q", reasons)
			}
		}
	}
}

// clientsOf returns the client processes of a run that sends a long load.
func clientsOf(t *testing.T, out string) (run *exec.Cmd, pids []int) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "long.yaml"), `
version: 1
name: long
model: Qwen/Qwen2.5-1.5B-Instruct
matrix: {engine: vllm, gpu: l4, concurrency: 2, max_tokens: 20}
backend: sim
load: {clients: 2, requests: 100000, warmup: {requests: 0}, prompts: {input_tokens: 20}}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
`)
	run = exec.CommandContext(t.Context(), executable(t), "run", "-o", out, "long.yaml")
	run.Dir, run.Env = dir, append(os.Environ(), asSweep+"=1")
	var said bytes.Buffer
	run.Stdout, run.Stderr = &said, &said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	if !polltest.Within(polltest.Patience, func() bool { return busy(out) }) {
		_ = run.Process.Kill()
		_ = run.Wait() // killed
		t.Fatalf("the load has not begun within %v:\n%s", polltest.Patience, said.String())
	}
	for _, pid := range procfs.Descendants(run.Process.Pid) {
		if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasSuffix(string(b), "\x00"+workerName+"\x00") {
			pids = append(pids, pid)
		}
	}
	if len(pids) != 2 {
		t.Fatalf("clients %v", pids)
	}
	return run, pids
}

// A client that is killed makes its trial INVALID by client_lost, at once.
func TestClients_lost(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "run")
	run, pids := clientsOf(t, out)
	poke(t, pids[1], syscall.SIGKILL)
	if err := run.Wait(); run.ProcessState.ExitCode() != exitIncomplete {
		t.Fatalf("ended with %v, want exit %d", err, exitIncomplete)
	}
	row := rowsOf(t, out)[0]
	if reasons := fmt.Sprint(row["invalid_reasons"]); !strings.Contains(reasons, "client_lost") || row["status"] != "invalid" {
		t.Errorf("%v, invalid_reasons %q", row["status"], reasons)
	}
}

// Clients end with the sweep that started them, also if it is killed.
func TestClients_killedSweep(t *testing.T) {
	t.Parallel()
	run, pids := clientsOf(t, filepath.Join(t.TempDir(), "run"))
	poke(t, run.Process.Pid, syscall.SIGKILL)
	_ = run.Wait() // killed
	polltest.Until(t, "the clients end", func() bool {
		for _, pid := range pids {
			if p, ok := procfs.Stat(pid); ok && p.Alive() {
				return false
			}
		}
		return true
	})
}

// A client that is killed during a search decides nothing: its probe is INVALID, and the
// load is asked for again.
func TestClients_find(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := filepath.Join(dir, "run")
	write(t, filepath.Join(dir, "hunt.yaml"), `
version: 1
name: hunt
model: Qwen/Qwen2.5-1.5B-Instruct
matrix: {engine: vllm, gpu: l40s, max_tokens: 8}
backend: sim
load: {clients: 2, requests: 120, warmup: {requests: 2}, prompts: {input_tokens: 20}}
find: {axis: concurrency, from: 2, to: 4, within: 50%, confidence: 90%, objectives: {kept: p50_ttft_ms < 60000}}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
`)
	run := exec.CommandContext(t.Context(), executable(t), "run", "-o", out, "hunt.yaml")
	run.Dir, run.Env = dir, append(os.Environ(), asSweep+"=1")
	var said bytes.Buffer
	run.Stdout, run.Stderr = &said, &said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	killed := polltest.Within(polltest.Patience, func() bool {
		if !busy(out) {
			return false
		}
		for _, pid := range procfs.Descendants(run.Process.Pid) {
			if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasSuffix(string(b), "\x00"+workerName+"\x00") {
				return syscall.Kill(pid, syscall.SIGKILL) == nil
			}
		}
		return false
	})
	if err := run.Wait(); !killed || run.ProcessState.ExitCode() != exitOK && run.ProcessState.ExitCode() != exitIncomplete {
		t.Fatalf("killed %t, ended with %v\n%s", killed, err, said.String())
	}
	lost, again := "", false
	for _, row := range rowsOf(t, out) { // in the order of trials
		at := fmt.Sprint(row["concurrency"])
		if strings.Contains(fmt.Sprint(row["invalid_reasons"]), "client_lost") {
			lost = at
		}
		if fmt.Sprint(row["clients"]) != "2" {
			t.Errorf("clients %v", row["clients"])
		}
	}
	for _, row := range rowsOf(t, out) {
		again = again || fmt.Sprint(row["concurrency"]) == lost && !strings.Contains(fmt.Sprint(row["invalid_reasons"]), "client_lost")
	}
	if lost == "" || !again {
		t.Errorf("lost at %q, measured again %t\n%s", lost, again, said.String())
	}
	found, err := os.ReadFile(filepath.Join(out, "capacity.csv"))
	if err != nil || !strings.Contains(string(found), "4") {
		t.Errorf("%v: %s", err, found)
	}
}
