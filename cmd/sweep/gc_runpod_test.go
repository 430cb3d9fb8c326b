package main

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/runpod/runpodtest"
	"sweep.dev/sweep/backends/runpod/runpodtest/podtest"
	"sweep.dev/sweep/backends/runpodapi"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/secret"
)

// A runpodAccount is an emulated account, with what sweep needs to ask it.
type runpodAccount struct {
	*runpodtest.Emulator
	t   *testing.T
	env []string
	dir string
}

func newAccount(t *testing.T) *runpodAccount {
	t.Helper()
	return accountOf(t, podtest.Image{Pattern: "**", Cmd: []string{"sleep", "600"}})
}

// accountOf returns an account whose pods run these images.
func accountOf(t *testing.T, images ...podtest.Image) *runpodAccount {
	t.Helper()
	e, err := runpodtest.New(runpodtest.Options{Key: "rpa_CANARY0123456789", Images: images})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("emulator: %v", err)
		}
	})
	dir := t.TempDir()
	return &runpodAccount{e, t, []string{
		"RUNPOD_API_BASE_URL=" + e.URL(), "RUNPOD_API_KEY=" + e.Key(), "SWEEP_STATE_DIR=" + filepath.Join(dir, "ledger"),
	}, dir}
}

// rent makes a pod as sweep would, without a ledger, and returns its name and id.
func (a *runpodAccount) rent(owner, run string, left time.Duration) (name, id string) {
	a.t.Helper()
	base, err := url.Parse(a.URL())
	if err != nil {
		a.t.Fatal(err)
	}
	spec := backends.Spec{Owner: owner, RunID: run, Pod: "d1-l01", Expires: time.Now().Add(left)}
	name = backends.NewName(owner, run, spec.Expires).String()
	c := runpodapi.New(nil, base.JoinPath("v2"), secret.New("${KEY}", a.Key()), 60_000)
	p, err := c.Create(context.Background(), runpodapi.CreateRequest{
		Name: name, Image: "example.com/server:1", Disk: 20, Ports: []string{"8000/tcp"}, Cloud: "SECURE",
		Env: backends.Marks(spec), GPU: runpodapi.PodGPU{ID: "NVIDIA RTX 2000 Ada Generation", Count: 1},
	}, time.Minute)
	if err != nil {
		a.t.Fatal(err)
	}
	return name, p.ID
}

// sweep runs the program against the account; its key is never shown.
func (a *runpodAccount) sweep(args ...string) ran {
	a.t.Helper()
	r := sweep(a.t, a.dir, a.env, args...)
	if strings.Contains(r.stdout+r.stderr, "CANARY") {
		a.t.Errorf("sweep %v shows the key:\n%s%s", args, r.stdout, r.stderr)
	}
	return r
}

func (a *runpodAccount) alive() (names []string) {
	for _, h := range a.Audit().Alive() {
		names = append(names, h.Name)
	}
	slices.Sort(names)
	return names
}

// In an account that is full of other people's pods, and of names that look
// like ours, a fresh machine ends what is ours and expired, and nothing else.
func TestGC_runpod(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.Foreign(24)
	expired, _ := a.rent(owner(), "aaaaaaaaaa", -time.Hour)
	young, _ := a.rent(owner(), "bbbbbbbbbb", time.Hour)
	theirs, _ := a.rent("stranger@laptop", "cccccccccc", -time.Hour)
	a.SetFaults("delete-200-but-alive=2", "429:2", "read-500:1")

	if r := a.sweep("gc"); r.code != exitCleanup || !strings.Contains(r.stdout, "end    runpod  "+expired) || len(a.alive()) != 3 {
		t.Fatalf("without --yes: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	r := a.sweep("gc", "--yes", "--json")
	var rows []gcRow
	if err := json.Unmarshal([]byte(r.stdout), &rows); err != nil || r.code != exitOK || len(rows) != 2 {
		t.Fatalf("exit %d, %v\n%s%s", r.code, err, r.stdout, r.stderr)
	}
	want := []string{young, theirs}
	slices.Sort(want)
	if got := a.alive(); !slices.Equal(got, want) {
		t.Errorf("alive are %v, want %v", got, want)
	}
	if r := a.sweep("gc", "--run", "bbbbbbbbbb", "--yes"); r.code != exitOK {
		t.Errorf("--run: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := a.sweep("gc", "--owner", "stranger@laptop", "--yes"); r.code != exitOK {
		t.Errorf("--owner: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if audit := a.Audit(); len(audit.Alive()) != 0 || len(audit.Touched) != 0 {
		t.Errorf("alive %v, touched %v", a.alive(), audit.Touched)
	}
}

// A pod that cannot be ended is exit 4 with its name; a key that is refused is 8.
func TestGC_runpodRefuses(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	name, _ := a.rent(owner(), "aaaaaaaaaa", -time.Hour)
	a.SetFaults("delete-403")
	r := a.sweep("gc", "--yes")
	if r.code != exitCleanup || !strings.Contains(r.stderr, name) || !strings.Contains(r.stderr, "next: sweep gc --yes") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	a.env = append(a.env, "RUNPOD_API_KEY=wrong-CANARY")
	for _, args := range [][]string{{"gc", "--yes"}, {"pods"}, {"doctor"}} {
		if r := a.sweep(args...); r.code != exitProvider {
			t.Errorf("%v: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
}

// A person lists, stops, starts and ends a pod.
func TestPods_runpod(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.Foreign(12)
	name, id := a.rent(owner(), "aaaaaaaaaa", time.Hour)
	shows := func(state string) {
		t.Helper()
		polltest.Until(t, "the pod is "+state, func() bool { return strings.Contains(a.sweep("pods").stdout, state) })
	}
	shows("RUNNING")
	r := a.sweep("pods")
	if r.code != exitOK || !strings.Contains(r.stdout, name) || !strings.Contains(r.stdout, "rtx-2000-ada") ||
		!strings.Contains(r.stdout, "1 pod, $") || !strings.Contains(r.stdout, "not in the ledger") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := a.sweep("doctor"); !strings.Contains(r.stdout, "  ok    runpod      the key works") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for _, step := range []struct {
		act, ref, then string
	}{{"stop", id, "EXITED"}, {"start", name[:len(name)-3], "RUNNING"}} {
		if r := a.sweep("pods", step.act, "--yes", step.ref); r.code != exitOK {
			t.Errorf("%s: exit %d\n%s%s", step.act, r.code, r.stdout, r.stderr)
		}
		shows(step.then)
	}
	if r := a.sweep("pods", "terminate", "--yes", id[:6]); r.code != exitOK || len(a.alive()) != 0 {
		t.Errorf("exit %d, alive %v\n%s%s", r.code, a.alive(), r.stdout, r.stderr)
	}
	if touched := a.Audit().Touched; len(touched) != 0 {
		t.Errorf("touched %v", touched)
	}
	if _, err := os.Stat(filepath.Join(a.dir, "ledger")); err != nil {
		t.Errorf("the ledger: %v", err)
	}
}

// A run that is interrupted while it looks for what earlier runs left says so.
func TestRun_interruptedEarly(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.SetFaults("read-500:*")
	write(t, filepath.Join(a.dir, "plan.yaml"), `
version: 1
name: early
model: sweep/tiny
matrix: {engine: vllm, gpu: l4, concurrency: 1, max_tokens: 1}
engines: {vllm: {image: "vllm/vllm-openai:v0.29.0"}}
backend: {kind: runpod, calls_per_minute: 600}
budget: {max_cost: 1}
load: {requests: 1, prompts: {input_tokens: 20}}
`)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd := exec.CommandContext(t.Context(), self, "run", "-o", "run", "plan.yaml")
	cmd.Dir, cmd.Env, cmd.Stderr = a.dir, append(append(os.Environ(), asSweep+"=1"), a.env...), &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	asked := func() bool {
		return slices.ContainsFunc(a.Events(), func(ev runpodtest.Event) bool { return ev.Path == "/v2/pods" && ev.Status == 500 })
	}
	polltest.Within(polltest.Patience, asked)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitInt {
		t.Errorf("ended with %v, want %d\n%s", err, exitInt, said.String())
	}
	if n := a.Audit().Creates; n != 0 {
		t.Errorf("%d pods were made", n)
	}
}
