package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/result/store"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/rundirtest"
)

// crashPlan has two deployments of two cells, and is over in under a second.
const crashPlan = `
version: 1
name: crash
model: sweep/tiny
matrix:
  engine: vllm
  gpu: h100
  args.max-num-seqs: [8, 16]
  concurrency: [1, 2]
  max_tokens: 3
backend: {kind: sim, request_log: true}
load:
  requests: 4
  warmup: {requests: 1}
  prompts: {kind: synthetic, input_tokens: 20}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
collect: [{prom: {interval: 200ms}}, gpu, proc]
sinks: [parquet, csv: {columns: full}]
`

// elsewhere are the points that an undisturbed run does not reach, with the
// rehearsal that reaches them: faults of the run before, whose recovery is then
// killed.
var elsewhere = map[effect.Point][]string{
	effect.JournalTruncate: {"attempt.write:after:kill", "torn"},
	effect.AdoptJournal:    {"commit.journal:before:kill"},
	effect.DiscardJournal:  {"attempt.write:after:kill"},
	effect.AttemptRemove:   nil,
	effect.RecoverRemove:   {"attempt.write:after:kill"},
	effect.KillGuard:       nil,
	effect.SpawnTool:       nil,
	effect.KillTool:        nil,
}

// outlives reports whether only a run whose pods outlive it comes to a point (the drill is
// what kills it there), or only what follows a run.
func outlives(p effect.Point) bool {
	family, _, _ := strings.Cut(string(p), ".")
	return slices.Contains([]string{"history", "merge", "prune", "podledger", "runpod", "docker", "ssh", "command", "agent", "kube"}, family) ||
		p == effect.LedgerKept || p == effect.LedgerStopped
}

var everyPhase = flag.Bool("every-phase", false, "kill before and after each fault point, not at one of the two")

// phases returns the sides of the nth fault point at which a run is killed: one of the
// two by turns, since both would take a minute of two cores. task drill:full kills
// at both.
func phases(n int) []effect.Phase {
	both := []effect.Phase{effect.Before, effect.After}
	if *everyPhase {
		return both
	}
	return both[n%2 : n%2+1]
}

// wholeRuns are the points at which go test kills whole runs; the tag slow has all of them
// killed. Packages rundir and podledger kill at each of their points in process.
var wholeRuns = []effect.Point{
	effect.SetupRename, effect.LedgerIntent, effect.SpawnServer, effect.BeginJournal, effect.AttemptRename,
	effect.CommitJournal, effect.AdoptJournal, effect.RecoverRemove, effect.KillServer, effect.DeriveRename,
}

// TestCrash_everyPoint kills a run at every fault point, before or after the
// effect, and resumes it: the grid is that of an undisturbed run, what was
// committed has not changed by a byte, nothing is left running, and what the
// engines were asked is what was committed or discarded.
func TestCrash_everyPoint(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	for n, p := range effect.Points() {
		if outlives(p) || !slow.Tests && !*everyPhase && !slices.Contains(wholeRuns, p) {
			continue
		}
		for _, phase := range phases(n) {
			t.Run(fmt.Sprintf("%s:%s", p, phase), func(t *testing.T) {
				t.Parallel()
				fault := fmt.Sprintf("%s:%s:kill", p, phase)
				first, indirect := elsewhere[p]
				switch {
				case !indirect:
					crash(t, want, fault)
				case first != nil:
					crash(t, want, append(slices.Clone(first), fault)...)
				default:
					reachedByNone(t, fault)
				}
			})
		}
	}
}

// TestCrash_anyMoment kills runs at moments that no list knows.
func TestCrash_anyMoment(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	moments := 2
	if slow.Tests {
		moments = 6
	}
	for range moments {
		n := 1 + rng.IntN(150)
		t.Run(fmt.Sprintf("op%d", n), func(t *testing.T) {
			t.Parallel()
			crash(t, want, fmt.Sprintf("op:kill@%d", n))
		})
	}
}

// crash runs the plan under the first fault and resumes it under each further
// one, then without, and holds what is left against an undisturbed run.
func crash(t *testing.T, want []string, faults ...string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "crash.yaml"), crashPlan)
	out := filepath.Join(dir, "run")
	start := []string{"run", "-o", out, "crash.yaml"}
	var before map[rundir.Key]string
	args := start
	for _, fault := range append(slices.Clone(faults), "") {
		env := []string{"SWEEP_FAULT=" + fault}
		if fault == "torn" {
			tear(t, out)
			continue
		}
		got := sweep(t, dir, env, args...)
		if fault != "" && got.code != -1 {
			t.Fatalf("%s under %s ended with %d and was not killed\n%s", args[0], fault, got.code, got.stderr)
		}
		if fault == "" && args[0] == "resume" && got.code == exitUsage && strings.Contains(got.stderr, "no run") {
			got = sweep(t, dir, env, start...) // it died before there was a run
		}
		if fault == "" && got.code != exitOK {
			t.Fatalf("%s ended with %d\n%s", strings.Join(args, " "), got.code, got.stderr)
		}
		now, err := rundirtest.Trials(out)
		if err == nil {
			rundirtest.Unchanged(t, before, now)
			before = now
		} else if fault == "" {
			t.Fatal(err)
		}
		args = []string{"resume", out}
	}
	if err := rundirtest.Check(out); err != nil {
		t.Error(err)
	}
	if got := grid(t, out); !slices.Equal(got, want) {
		t.Errorf("the grid is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	asked(t, out)
	alone(t, out)

	// A second resume finds nothing to do.
	if again := sweep(t, dir, nil, "resume", out); again.code != exitOK {
		t.Errorf("the second resume ended with %d\n%s", again.code, again.stderr)
	}
	after, err := rundirtest.Trials(out)
	if err != nil {
		t.Fatal(err)
	}
	rundirtest.Unchanged(t, before, after)
	if !maps.Equal(before, after) {
		t.Error("the second resume committed something")
	}
}

// reachedByNone holds the list of what an undisturbed run does not reach to be
// true, so that a point cannot hide in it.
func reachedByNone(t *testing.T, fault string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "crash.yaml"), crashPlan)
	got := sweep(t, dir, []string{"SWEEP_FAULT=" + fault}, "run", "-o", filepath.Join(dir, "run"), "crash.yaml")
	if got.code != exitOK {
		t.Errorf("a run reaches %s and ends with %d: it has to be tested like the others\n%s", fault, got.code, got.stderr)
	}
}

// calm is the grid of a run without a fault, which several tests compare with.
var calm struct {
	sync.Mutex
	grid []string
}

// undisturbed returns the grid of a run without a fault. It is run once.
func undisturbed(t *testing.T) []string {
	t.Helper()
	calm.Lock()
	defer calm.Unlock()
	if calm.grid != nil {
		return calm.grid
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "crash.yaml"), crashPlan)
	out := filepath.Join(dir, "run")
	if got := sweep(t, dir, nil, "run", "-o", out, "crash.yaml"); got.code != exitOK {
		t.Fatalf("an undisturbed run ended with %d\n%s", got.code, got.stderr)
	}
	asked(t, out)
	alone(t, out)
	calm.grid = grid(t, out)
	return calm.grid
}

// csvRows returns the rows of a CSV file, the names of its columns first.
func csvRows(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// grid returns what of cells.csv must not depend on what happened to the run.
func grid(t *testing.T, out string) []string {
	t.Helper()
	rows := csvRows(t, filepath.Join(out, "cells.csv"))
	var lines []string
	for _, row := range rows {
		var fields []string
		for i, name := range rows[0] {
			switch name {
			case "cell_id", "spec_digest", "trial", "concurrency", "arg_max_num_seqs", "status",
				"requests", "completed", "failed", "input_tokens", "output_tokens", "server_output_tokens":
				fields = append(fields, row[i])
			}
		}
		lines = append(lines, strings.Join(fields, " "))
	}
	return lines
}

// asked holds the engines' own account of what they were asked against the
// rows: what was committed is exactly what was asked in that attempt, and the
// rest was asked in attempts that were begun and discarded.
func asked(t *testing.T, out string) {
	t.Helper()
	st, err := rundir.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	logged := map[string]map[string]bool{} // attempt to request ids
	logs, err := filepath.Glob(filepath.Join(out, "deployments", "*", "l*", "*.requests.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range logs {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		s := bufio.NewScanner(f)
		for s.Scan() {
			var line struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(s.Bytes(), &line); err != nil || line.ID == "" {
				continue // the last line of a killed server, or a question of readiness
			}
			attempt := line.ID[:strings.LastIndex(line.ID, "-s")]
			if logged[attempt] == nil {
				logged[attempt] = map[string]bool{}
			}
			logged[attempt][line.ID] = true
		}
		f.Close()
	}
	for key, c := range st.Committed {
		name := fmt.Sprintf("%s-t%02d-a%02d", key.Cell, key.Trial, c.Attempt)
		rows := map[string]bool{}
		f, err := os.Open(filepath.Join(rundir.AttemptDir(out, c), "requests.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		size, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range store.ReadRequests(f, size.Size()) {
			if err != nil {
				t.Fatal(err)
			}
			rows[fmt.Sprintf("%s-s%d-n%d", name, r.Shard, r.N)] = true
		}
		f.Close()
		if !maps.Equal(rows, logged[name]) {
			t.Errorf("%s: the engine was asked %d requests, committed are %d", name, len(logged[name]), len(rows))
		}
		delete(logged, name)
	}
	for name := range logged {
		var key rundir.Key
		var attempt int
		if _, err := fmt.Sscanf(strings.ReplaceAll(name, "-", " "), "%s t%d a%d", &key.Cell, &key.Trial, &attempt); err != nil {
			t.Errorf("the engine was asked by %q: %v", name, err)
		}
		if attempt > st.Attempts[key] {
			t.Errorf("the engine was asked by %s, which was never begun", name)
		}
	}
}

// alone fails the test where a process of the run is left. Guards get a moment
// to end what they guard.
func alone(t *testing.T, out string) {
	t.Helper()
	st, err := rundir.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	var left []procfs.Process
	if !polltest.Within(polltest.Patience, func() bool {
		left = procfs.With(map[string]string{"SWEEP_RUN_ID": st.Manifest.RunID})
		return len(left) == 0
	}) {
		t.Errorf("processes %v of the run are still there", left)
	}
}

// tear cuts into the last line of a journal, as a crash in mid-write does.
func tear(t *testing.T, out string) {
	t.Helper()
	path := filepath.Join(out, "journal.jsonl")
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, st.Size()-5); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
