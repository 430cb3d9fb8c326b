//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func needDynamo(t *testing.T) {
	t.Helper()
	need(t, "engines:dynamo", ".engines/dynamo/bin/python", ".engines/dynamo/tiny/tokenizer.json")
}

// process returns one process of this run whose command line has a word.
func (s *invocation) process(word string) int {
	s.t.Helper()
	all := s.processes()
	for pid, argv := range all {
		if filepath.Base(argv[0]) != filepath.Base(program) && strings.Contains(strings.Join(argv, " "), word) {
			return pid
		}
	}
	s.t.Fatalf("no %s among the processes of this run: %v", word, all)
	return 0
}

// same fails unless all columns of a row have the same value.
func (r row) same(t *testing.T, columns ...string) {
	t.Helper()
	want := r.number(t, columns[0])
	for _, c := range columns[1:] {
		if got := r.number(t, c); got != want {
			t.Errorf("%s: %s is %v, %s is %v", r, columns[0], want, c, got)
		}
	}
}

// ran runs a plan to its end, with fewer requests, and returns its folder and its rows.
func ran(t *testing.T, plan string, requests, want int) (dir string, rows []row) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	return dir, ranIn(t, dir, plan, requests, want)
}

// ranIn is [ran] in a folder that is not there yet.
func ranIn(t *testing.T, dir, plan string, requests, want int) []row {
	t.Helper()
	s := start(t, "run", "-o", dir, "--set", fmt.Sprintf("load.requests=%d", requests), plan)
	ended(t, s.wait())
	s.nothingLeft(0)
	rows := readRows(t, dir)
	if len(rows) != want {
		t.Fatalf("got %d rows, want %d", len(rows), want)
	}
	return rows
}

// A frontend and one or two workers: both see every request, and what the roles
// count agrees with what the client received.
func TestDynamo_roles(t *testing.T) {
	t.Parallel()
	needDynamo(t)
	const requests = 8
	dir, rows := ran(t, "plans/local-dynamo.yaml", requests, 4)
	for _, r := range rows {
		usable(t, r)
		if n := r.sent(t, requests); r.number(t, "completed") != float64(n) || r.number(t, "output_tokens") != float64(n)*64 {
			t.Errorf("%s: %s requests gave %s tokens", r, r["completed"], r["output_tokens"])
		}
		r.same(t, "output_tokens", "server_output_tokens", "frontend_server_output_tokens")
		r.same(t, "input_tokens", "frontend_server_input_tokens")
		r.same(t, "completed", "frontend_server_requests", "worker_server_requests")
		if busy := r.number(t, "worker_max_requests_running"); busy < 1 || busy > r.number(t, "concurrency") {
			t.Errorf("%s: the workers ran %v requests at once", r, busy)
		}
		client, frontend, worker := r.number(t, "mean_e2e_ms"), r.number(t, "frontend_mean_server_e2e_ms"), r.number(t, "worker_mean_server_e2e_ms")
		if worker <= 0 || worker > frontend*1.1+5 || frontend > client*1.1+5 {
			t.Errorf("%s: mean E2E of the client %v ms, the frontend %v ms, the workers %v ms", r, client, frontend, worker)
		}
		if r.number(t, "start_up_s") <= 0 {
			t.Errorf("%s: it started in no time", r)
		}
	}
	for _, replicas := range []string{"1", "2"} {
		logs, err := filepath.Glob(filepath.Join(dir, "deployments", "*", "l01", "worker-"+map[string]string{"1": "0", "2": "1"}[replicas]+".log"))
		if want := map[string]int{"1": 2, "2": 1}[replicas]; err != nil || len(logs) != want {
			t.Errorf("logs %q (%v), want %d", logs, err, want)
		}
	}
}

type routing struct {
	Workers []struct {
		Phase    string
		Worker   string
		Requests int
	}
	Requests map[string]map[string]string
}

// Prefill and decode apart, behind the KV router: the logs say which worker served which
// phase of each request, and that the router chose it.
func TestDynamo_disaggregated(t *testing.T) {
	t.Parallel()
	dir, rows := disaggregatedHere(t)
	disaggregated(t, dir, "process", "direct", rows)
}

// disaggRequests are those of a cell of a run of prefill and decode apart.
const disaggRequests = 12

// here is where the run of [disaggregatedHere] is, "" before it is made.
var here string

// disaggregatedHere returns the run of prefill and decode apart as processes of this machine,
// which is made once for the tests that look at it.
func disaggregatedHere(t *testing.T) (dir string, rows []row) {
	t.Helper()
	needDynamo(t)
	if here == "" {
		parent, err := os.MkdirTemp(filepath.Dir(program), "disaggregated-") //nolint:usetesting // it outlives this test
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(parent, "run")
		ranIn(t, dir, "plans/local-dynamo-disagg.yaml", disaggRequests, 2)
		here = dir
	}
	return here, readRows(t, here)
}

// disaggregated holds what a run of prefill, decode and frontend has measured,
// wherever they ran.
func disaggregated(t *testing.T, dir, backend, path string, rows []row) {
	t.Helper()
	if len(rows) != 2 {
		t.Fatalf("got %d rows, want 2", len(rows))
	}
	for _, r := range rows {
		usable(t, r)
		if r["backend"] != backend || r["network_path"] != path {
			t.Errorf("%s: on %s by %s", r, r["backend"], r["network_path"])
		}
		// Both kinds see each request, which counts once.
		r.same(t, "completed", "server_requests", "frontend_server_requests", "prefill_server_requests", "decode_server_requests")
		r.same(t, "output_tokens", "server_output_tokens")
		files, err := filepath.Glob(filepath.Join(dir, "cells", r["cell_id"], "t01", "a*", "routing.json"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: routing.json: %q, %v", r, files, err)
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		var got routing
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		sent := r.sent(t, disaggRequests) + 2*int(r.number(t, "concurrency")) // the warm-up too
		phases := map[string]int{}
		workers := map[string]string{}
		for _, w := range got.Workers {
			phases[w.Phase] += w.Requests
			phase := strings.TrimPrefix(w.Phase, "picked_")
			if other, ok := workers[w.Worker]; ok && other != phase {
				t.Errorf("%s: worker %s serves %s and %s", r, w.Worker, other, phase)
			}
			workers[w.Worker] = phase
		}
		for _, phase := range []string{"prefill", "decode", "picked_prefill", "picked_decode"} {
			if phases[phase] != sent {
				t.Errorf("%s: %s of %d requests, want %d", r, phase, phases[phase], sent)
			}
		}
		if len(got.Requests) != sent || len(phases) != 4 {
			t.Errorf("%s: %d requests were routed: %+v", r, len(got.Requests), got.Workers)
		}
		if r["concurrency"] == "8" && len(workers) != 3 {
			t.Errorf("%s: one worker that prefills and two that decode served it, got %v", r, workers)
		}
		t.Logf("%s: %+v", r, got.Workers)
	}
}

// A worker that is killed under load is seen, although the frontend lives on, and
// the trial is repeated on a new deployment.
func TestDynamo_workerKilled(t *testing.T) {
	t.Parallel()
	needDynamo(t)
	dir, events := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "events.jsonl")
	s := start(t, "run", "-o", dir, "--events", events, "--only", "worker_replicas == 2 && concurrency == 1", "--set", "load.requests=12", "plans/local-dynamo.yaml")
	s.until(events, func(e event) bool {
		return e.Type == "trial_progress" && e.Attempt == 1 && e.Progress != nil && e.Progress.OutputTokens > 0
	})
	pid := s.process("dynamo.mocker")
	t.Logf("kill -9 %d", pid)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ended(t, s.wait())
	s.nothingLeft(0)
	rows := readRows(t, dir)
	if len(rows) != 1 || rows[0]["attempt"] != "2" {
		t.Fatalf("got %v", rows)
	}
	usable(t, rows[0])
}

// kill -9 of sweep itself takes all roles with it.
func TestDynamo_sweepKilled(t *testing.T) {
	t.Parallel()
	needDynamo(t)
	dir, events := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "events.jsonl")
	s := start(t, "run", "-o", dir, "--events", events, "--only", "worker_replicas == 2", "--set", "load.requests=8", "plans/local-dynamo.yaml")
	if rows := s.killedAndResumed(dir, events, func() { s.nothingLeft(10 * time.Second) }); len(rows) != 2 {
		t.Fatalf("got %d rows, want 2", len(rows))
	}
}
