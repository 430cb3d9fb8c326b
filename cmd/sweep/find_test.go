package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
validity: {max_client_cpu: 1, max_schedule_lag: 10s, max_stall: 60s, max_client_lag: 60s, max_loop: 1, max_coalesced: 1, max_steal: 1, max_drift: 100}
collect: [{prom: {interval: 200ms}}]
`

// answered is what a run has found. How many trials that took is up to a busy machine, on
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
	for _, n := range []int{110, 250, 420, 600} {
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
