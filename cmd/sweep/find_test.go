package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/plan/plantest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/rundirtest"
)

// findPlan has two searches, whose trials are so clear that a busy machine finds the same:
// no server is as fast as never asks for, and each is as fast as always does.
const findPlan = `
version: 1
name: find
model: sweep/tiny
matrix: {engine: vllm, gpu: [h100, h200], max_tokens: 3}
backend: sim
load: {requests: 20, warmup: {requests: 1}, prompts: {input_tokens: 20}}
find:
  axis: concurrency
  from: 1
  to: 4
  within: 50%
  confidence: 90%
  objectives: {never: p50_ttft_ms < 0.0001, always: p50_ttft_ms < 60000}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
collect: [{prom: {interval: 200ms}}]
`

// answered returns what a run has found. How many trials that took is up to a busy machine, on
// which some may be INVALID and repeated.
func answered(t *testing.T, out string) []string {
	t.Helper()
	rows := csvRows(t, filepath.Join(out, "capacity.csv"))
	var lines []string
	for _, row := range rows[1:] {
		var line []string
		for _, column := range []string{"gpu", "objective", "capacity", "capacity_point", "fails_at", "missed", "reason"} {
			line = append(line, row[slices.Index(rows[0], column)])
		}
		lines = append(lines, strings.Join(line, " | "))
	}
	state, err := rundir.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	if state.Planned() != len(state.Committed) {
		t.Errorf("%d trials are planned and %d committed", state.Planned(), len(state.Committed))
	}
	return lines
}

// The time to go of a search is that of the trials that it still needs, each as long as it is:
// it shrinks to the last trial, and is never that of the trial at hand alone before.
func TestSearching_left(t *testing.T) {
	t.Parallel()
	p := plantest.Parse(t,
		`matrix: {engine: vllm, gpu: h100}`,
		`load: {requests: 300, max_tokens: 16, prompts: {input_tokens: 100}}`,
		`find: {axis: request_rate, from: 1, to: 32, within: 10%, objectives: {fast: p90_ttft_ms < 300}}`,
	)
	one := executor.Searches(p, p.Deployments()[0].Cells)[0]
	s := &searching{all: []executor.Search{one}, outcomes: []map[rundir.Key]search.Outcome{{}}, scale: 1}
	const edge = 20
	var times []int
	for done := 0; ; done++ {
		_, next, more := s.replay(0)
		total, seconds := s.left(done)
		if !more {
			if total != done || seconds != 0 {
				t.Errorf("of a search that has ended %d of %d trials are left, in %v s", total-done, total, seconds)
			}
			break
		}
		key := one.Key(next)
		e := s.longer(key, &expected{seconds: 10, requests: 300})
		if e.requests != 300*next.Times || e.seconds != 10*float64(next.Times) {
			t.Errorf("a trial %d times as long: %+v", next.Times, e)
		}
		times = append(times, next.Times)
		if at := trialEstimate(one.Cells[next.Level].Server, one.Load(next), 1).Seconds(); total <= done || seconds < at || done < 5 && seconds < 2*at {
			t.Errorf("after %d trials %d are left, in %v s, the next takes %v s", done, total-done, seconds, at)
		}
		part := result.SLOPart{Rule: result.RuleShare, Allowed: 0.1, N: 300 * next.Times, Requests: 300 * next.Times, Deff: 3}
		if next.Level >= edge {
			part.Over = part.N
		} else if next.Level >= edge-2 {
			part.Over = part.N * 8 / 100
		}
		slo := objective.PoolAt([]result.SLOResult{{Name: "fast", Expr: "p90_ttft_ms < 300", Parts: []result.SLOPart{part}}}, 0.95)
		s.ended(key, &result.Outcome{
			CellID: key.Cell, Trial: key.Trial, SLOs: []result.SLOResult{slo},
			Row: result.Row{col.Status: result.StatusOK, col.Requests: int64(part.N), col.Completed: int64(part.N)},
		})
	}
	if slices.Max(times) == 1 {
		t.Error("no trial was longer")
	}
}

// TestFind_kill runs searches, and kills them at moments that no list knows: a resumed
// one keeps what it has and finds the same.
func TestFind_kill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "find.yaml"), findPlan)
	whole := filepath.Join(dir, "whole")
	got := sweep(t, dir, nil, "run", "-o", whole, "find.yaml")
	if got.code != exitSLO || !strings.Contains(got.stdout, "4 at once certified") || !strings.Contains(got.stdout, "none: it misses at 1 at once") {
		t.Fatalf("exit %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	want := answered(t, whole)
	t.Log(strings.Join(want, "\n"))
	at := []int{250}
	if slow.Tests {
		at = []int{110, 250, 420, 600}
	}
	for _, n := range at {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "find.yaml"), findPlan)
			out := filepath.Join(dir, "run")
			if got := sweep(t, dir, []string{fmt.Sprintf("SWEEP_FAULT=op:kill@%d", n)}, "run", "-o", out, "find.yaml"); got.code != -1 {
				t.Fatalf("it ended with %d and was not killed\n%s", got.code, got.stderr)
			}
			before, err := rundirtest.Trials(out)
			if err != nil {
				t.Fatal(err)
			}
			if got := sweep(t, dir, nil, "resume", out); got.code != exitSLO {
				t.Fatalf("resume: exit %d\n%s", got.code, got.stderr)
			}
			after, err := rundirtest.Trials(out)
			if err != nil {
				t.Fatal(err)
			}
			rundirtest.Unchanged(t, before, after)
			if got := answered(t, out); !slices.Equal(got, want) {
				t.Errorf("after %d trials:\n%s\nwant\n%s", len(before), strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// devicesPlan searches on three simulated cards, the third of which a launch finds only
// after one that is known. No server is as fast as never asks for.
const devicesPlan = `
version: 1
name: devices
model: sweep/tiny
matrix: {engine: vllm, gpu: h100, max_tokens: 3}
backend: {kind: sim, devices: [1, 0.5, 2]}
load: {requests: 20, warmup: {requests: 1}, prompts: {input_tokens: 20}}
find:
  axis: concurrency
  from: 1
  to: 3
  within: 50%
  confidence: 90%
  devices: 3
  objectives: {never: p50_ttft_ms < 0.0001, always: p50_ttft_ms < 60000}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
collect: [gpu]
`

// TestFind_devices certifies a load on three cards, is killed, and finds the same: a card
// that comes again is no other one.
func TestFind_devices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "find.yaml"), devicesPlan)
	whole := filepath.Join(dir, "whole")
	got := sweep(t, dir, nil, "run", "-o", whole, "find.yaml")
	if got.code != exitSLO || !strings.Contains(got.stdout, "on 3 devices: 3 on GPU-") {
		t.Fatalf("exit %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	want := answered(t, whole)
	wantCards := cards(t, whole)
	if len(wantCards) != 3 {
		t.Fatalf("certified on %v", wantCards)
	}
	at := []int{300}
	if slow.Tests {
		at = []int{150, 300, 450}
	}
	for _, n := range at {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "run")
			if got := sweep(t, dir, []string{fmt.Sprintf("SWEEP_FAULT=op:kill@%d", n)}, "run", "-o", out, "find.yaml"); got.code != -1 {
				t.Fatalf("it ended with %d and was not killed\n%s", got.code, got.stderr)
			}
			if got := sweep(t, dir, nil, "resume", out); got.code != exitSLO {
				t.Fatalf("resume: exit %d\n%s", got.code, got.stderr)
			}
			if got := answered(t, out); !slices.Equal(got, want) {
				t.Errorf("%s\nwant\n%s\nINVALID are %q and %q", strings.Join(got, "\n"), strings.Join(want, "\n"), invalid(t, out), invalid(t, whole))
			}
			if got := cards(t, out); !slices.Equal(got, wantCards) {
				t.Errorf("certified on %v, want %v", got, wantCards)
			}
		})
	}
}

// invalid returns the reasons of each trial of a run that is not VALID.
func invalid(t *testing.T, out string) (all []string) {
	t.Helper()
	rows := csvRows(t, filepath.Join(out, "cells.csv"))
	for _, row := range rows[1:] {
		if row[slices.Index(rows[0], "valid")] != "true" {
			all = append(all, row[slices.Index(rows[0], "invalid_reasons")]+row[slices.Index(rows[0], "error")])
		}
	}
	return all
}

// cards returns the devices that the answers of a run rest on, sorted.
func cards(t *testing.T, out string) (ids []string) {
	t.Helper()
	rows := csvRows(t, filepath.Join(out, "capacity.csv"))
	for _, row := range rows[1:] {
		for id := range strings.SplitSeq(row[slices.Index(rows[0], "device_uuids")], "; ") {
			if id != "" {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Where a provider has two cards alone, the answer is of two, and the servers on one that is
// known have measured nothing.
func TestFind_twoDevices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := strings.NewReplacer("[1, 0.5, 2]", "[1, 0.5]", "never: p50_ttft_ms < 0.0001, ", "").Replace(devicesPlan)
	write(t, filepath.Join(dir, "find.yaml"), text)
	out := filepath.Join(dir, "run")
	got := sweep(t, dir, nil, "run", "-o", out, "find.yaml")
	if got.code != exitOK || !strings.Contains(got.stdout, "on 2 of 3 devices: 3 on GPU-") {
		t.Fatalf("exit %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	rows := csvRows(t, filepath.Join(out, "cells.csv"))
	seen := 0
	for _, row := range rows[1:] {
		if row[slices.Index(rows[0], "findings")] == "device_seen" && row[slices.Index(rows[0], "status")] == "skipped" {
			seen++
		}
	}
	if seen != 5 {
		t.Errorf("%d trials are skipped for their device, want 5", seen)
	}
}
