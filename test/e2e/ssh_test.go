//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/backends/ssh/sshtest"
	"sweep.dev/sweep/internal/procfs"
)

var overSSH = rig{
	task:   "engines:llamacpp engines:ssh",
	files:  []string{".engines/llamacpp/bin/python", ".engines/gemma-3-270m-q4_k_m.gguf"},
	plan:   "plans/ssh-host.yaml",
	engine: "llamacpp", backend: "ssh",
	low: 1, high: 2, short: 16, long: 32, requests: 6, tunnelled: true, shared: true,
}

// A box is a host to log in to, and the plan's keys for it.
type box struct {
	*sshtest.Server
	workdir string
	set     []string
}

// box starts an sshd whose host has the plan's model and engine.
func (g rig) box(t *testing.T) *box {
	t.Helper()
	need(t, g.task, g.files...)
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	b := newBox(t)
	// The wheel has no llama-server; this is the same server in a Python process.
	command, err := json.Marshal([]string{
		"taskset", "-c", "0", filepath.Join(root, ".engines/llamacpp/bin/python"), filepath.Join(root, "tools/engines/llama_serve.py"),
		"--model={{.Model}}", "--host={{.Host}}", "--port={{.Port}}", "--metrics",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		"model=" + filepath.Join(root, ".engines/gemma-3-270m-q4_k_m.gguf"),
		"engines.llamacpp.command=" + string(command),
	} {
		b.set = append(b.set, "--set", s)
	}
	return b
}

// newBox starts an sshd.
func newBox(t *testing.T) *box {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	b := &box{Server: sshtest.Start(t), workdir: t.TempDir()}
	for _, s := range []string{
		"backend.host=127.0.0.1", "backend.port=" + strconv.Itoa(b.Port), "backend.user=" + b.User,
		"backend.key=" + b.Key, "backend.known_hosts=" + b.KnownHosts, "backend.workdir=" + b.workdir,
	} {
		b.set = append(b.set, "--set", s)
	}
	return b
}

func (b *box) run(t *testing.T, plan string, args ...string) *invocation {
	t.Helper()
	return start(t, append(append(append([]string{"run"}, args...), b.set...), plan)...)
}

// pods returns the folders and the living processes of pods on the box.
func (b *box) pods(t *testing.T) (names []string, processes int) {
	t.Helper()
	entries, err := os.ReadDir(b.workdir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
		processes += len(procfs.With(map[string]string{"SWEEP_SSH_POD": e.Name()}))
	}
	return names, processes
}

func (b *box) empty(t *testing.T) {
	t.Helper()
	if names, processes := b.pods(t); len(names) != 0 || processes != 0 {
		t.Errorf("on the host: %q with %d processes", names, processes)
	}
}

// TestSSH_grid: the shipped plan measures a real model on a host through the tunnel. The
// engine outlives a sweep that is killed, and sweep pods lists it. The resume gives it back
// and measures what is missing, and nothing is left there.
func TestSSH_grid(t *testing.T) {
	b := overSSH.box(t)
	dir, events := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "events.jsonl")
	s := b.run(t, overSSH.plan, "-o", dir, "--events", events)
	rows := s.killedAndResumed(dir, events, func() {
		names, processes := b.pods(t)
		if len(names) != 1 || processes == 0 {
			t.Fatalf("after kill -9: %q with %d processes, want the pod still there", names, processes)
		}
		pods := start(t, "pods", "--json")
		pods.wait()
		if !strings.Contains(pods.stdout.String(), names[0]) {
			t.Errorf("sweep pods does not list %s:\n%s", names[0], pods.stdout.String())
		}
	})
	b.empty(t)
	if len(rows) != 4 {
		t.Fatalf("got %d rows, want 4", len(rows))
	}
	for _, r := range rows {
		overSSH.check(t, r)
		if r["network_path"] != "tunnel" {
			t.Errorf("%s: network_path %q", r, r["network_path"])
		}
		t.Logf("%s: TTFT p50 %s ms, %s tok/s, %s", r, r["p50_ttft_ms"], r["throughput_tok_s"], r["network_path"])
	}
	logs, err := filepath.Glob(filepath.Join(dir, "deployments", "*", "l02", "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("engine logs %q, %v", logs, err)
	}
	if text, err := os.ReadFile(logs[0]); err != nil || !strings.Contains(string(text), "SIGTERM: the engine ends") {
		t.Errorf("the log does not have the engine's end: %v", err)
	}
}

// TestSSH_gc: what a killed sweep has left is ended by sweep gc, from the ledger
// of this machine alone.
func TestSSH_gc(t *testing.T) {
	b := overSSH.box(t)
	dir := filepath.Join(t.TempDir(), "run")
	events := filepath.Join(t.TempDir(), "events.jsonl")
	s := b.run(t, overSSH.plan, "-o", dir, "--events", events)
	s.until(events, func(e event) bool { return e.Type == "trial_started" })
	if err := s.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.wait()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	names, processes := b.pods(t)
	if len(names) != 1 || processes == 0 {
		t.Fatalf("after kill -9: %q with %d processes, want the pod still there", names, processes)
	}
	run := strings.Split(names[0], "-")[2]
	gc := start(t, "gc", "--yes", "--run", run)
	if code := gc.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	b.empty(t)
}

// TestSSH_tunnelCut: the connection is lost in the middle of a trial. What was
// on its way fails; the next attempt is measured on the same server.
func TestSSH_tunnelCut(t *testing.T) {
	b := overSSH.box(t)
	dir := filepath.Join(t.TempDir(), "run")
	events := filepath.Join(t.TempDir(), "events.jsonl")
	s := b.run(t, overSSH.plan, "-o", dir, "--events", events, "--only", fmt.Sprintf("max_tokens == %d", overSSH.long), "--set", "load.requests=4")
	s.until(events, func(e event) bool {
		return e.Type == "trial_progress" && e.Progress != nil && e.Progress.OutputTokens > 0
	})
	cut := 0
	for _, pid := range procfs.Descendants(b.PID()) {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if strings.HasPrefix(string(line), "sshd: ") && syscall.Kill(pid, syscall.SIGKILL) == nil {
			cut++
		}
	}
	if cut == 0 {
		t.Fatal("no process of sshd has the connection")
	}
	since := time.Now()
	code := s.wait()
	t.Logf("from the cut to the end: %v", time.Since(since))
	if code == 1 || code == 4 {
		t.Errorf("exit code %d", code)
	}
	b.empty(t)
	rows := readRows(t, dir)
	if len(rows) != 2 {
		t.Fatalf("got %d rows, want 2", len(rows))
	}
	for _, r := range rows {
		t.Logf("%s: %s, attempt %s, failed %s, %s", r, r["status"], r["attempt"], r["failed"], r["invalid_reasons"])
	}
	usable(t, rows[1])
	if launches, _ := filepath.Glob(filepath.Join(dir, "deployments", "*", "l*")); len(launches) != 1 {
		t.Errorf("launches %q: the server did not survive the cut", launches)
	}
}

// TestSSH_roles: each replica of each role is a unit on the host, and the columns and
// the routing are those of the process backend. After a kill -9 of sweep the resume
// ends exactly those.
func TestSSH_roles(t *testing.T) {
	needDynamo(t)
	b := newBox(t)
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	// Both ends of the tunnel share the CPUs of this machine with the servers.
	b.set = append(b.set, "--set", "validity.max_moved=1000", "--set", "model="+filepath.Join(root, ".engines/dynamo/tiny"),
		"--set", "backend.setup=PATH="+filepath.Join(root, ".engines/dynamo/bin")+":$PATH")
	dir, events := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "events.jsonl")
	s := b.run(t, "plans/ssh-dynamo.yaml", "-o", dir, "--events", events, "--set", fmt.Sprintf("load.requests=%d", disaggRequests))
	rows := s.killedAndResumed(dir, events, func() {
		if names, processes := b.pods(t); len(names) != 4 || processes < 4 {
			t.Errorf("after kill -9: %q with %d processes, want four units", names, processes)
		}
	})
	b.empty(t)
	disaggregated(t, dir, "ssh", "tunnel", rows)
	_, local := disaggregatedHere(t)
	for column := range local[0] {
		if _, ok := rows[0][column]; !ok {
			t.Errorf("%s: the process backend has it, ssh has not", column)
		}
	}
	for column := range rows[0] {
		if _, ok := local[0][column]; !ok {
			t.Errorf("%s: ssh has it, the process backend has not", column)
		}
	}
}
