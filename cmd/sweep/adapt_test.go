package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/rundir/rundirtest"
	"sweep.dev/sweep/search/adapt"
)

// adaptPlan has a curve of seven levels, which differ by so little that even a busy machine
// has a line among them.
const adaptPlan = `
version: 1
name: adapt
model: sweep/tiny
matrix: {engine: vllm, gpu: h100, concurrency: [1, 2, 3, 4, 5, 6, 8], max_tokens: 4}
backend: sim
load: {requests: 24, warmup: {requests: 1}, prompts: {input_tokens: 20}}
adapt: {metric: throughput_tok_s, within: 50%}
validity: {max_client_cpu: 1, max_schedule_lag: 10s, max_stall: 60s, max_client_lag: 60s, max_loop: 1, max_coalesced: 1, max_steal: 1, max_drift: 100}
collect: [{prom: {interval: 200ms}}]
sinks: [csv: {columns: full}]
`

// curved holds that a run with adapt has a row of each of its levels, that the first and
// the last are measured, and that a skipped one has no figures. It returns how many are
// measured.
func curved(t *testing.T, out string, levels int) (measured int) {
	t.Helper()
	run, err := report.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	rows := run.Rows()
	if len(rows) != levels {
		t.Fatalf("%d rows, want %d", len(rows), levels)
	}
	for i, row := range rows {
		why, _ := row[col.Why].(string)
		if end := i == 0 || i == levels-1; end && why != adapt.Grid {
			t.Errorf("concurrency %v is run for %q", row["concurrency"], why)
		}
		if row["status"] != result.StatusSkipped {
			measured++
			if !slices.Contains([]string{adapt.Grid, adapt.Bend, adapt.Confirm}, why) {
				t.Errorf("concurrency %v is run for %q", row["concurrency"], why)
			}
			continue
		}
		text := fmt.Sprint(row["error"])
		if row["findings"] != "interpolated" || row["throughput_tok_s"] != nil || row["requests"] != nil || row["valid"] != nil || why != "" || !strings.HasPrefix(text, "not run: interpolated between concurrency=") {
			t.Errorf("concurrency %v: %s, %v", row["concurrency"], text, row)
		}
	}
	return measured
}

// TestAdapt_kill kills a run with adapt at moments that no list knows: a resumed one keeps
// what it has, and ends with each level measured or skipped.
func TestAdapt_kill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "adapt.yaml"), adaptPlan)
	for _, n := range []int{60, 120, 180, 220} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "run")
			if got := sweep(t, dir, []string{fmt.Sprintf("SWEEP_FAULT=op:kill@%d", n)}, "run", "-o", out, "adapt.yaml"); got.code != -1 {
				t.Fatalf("it ended with %d and was not killed\n%s", got.code, got.stderr)
			}
			before, err := rundirtest.Trials(out)
			if err != nil {
				t.Fatal(err)
			}
			if got := sweep(t, dir, nil, "resume", out); got.code != exitOK {
				t.Fatalf("resume: exit %d\n%s", got.code, got.stderr)
			}
			after, err := rundirtest.Trials(out)
			if err != nil {
				t.Fatal(err)
			}
			rundirtest.Unchanged(t, before, after)
			curved(t, out, 7)
			if got := sweep(t, dir, nil, "resume", out); got.code != exitOK {
				t.Errorf("the second resume: exit %d\n%s", got.code, got.stderr)
			}
			again, err := rundirtest.Trials(out)
			if err != nil || !maps.Equal(after, again) {
				t.Errorf("the second resume committed something: %v", err)
			}
			if err := rundirtest.Check(out); err != nil {
				t.Error(err)
			}
		})
	}
}

// sweep plan says how many cells are expected, and how many at most.
func TestAdapt_plan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "adapt.yaml"), adaptPlan)
	got := sweep(t, dir, nil, "plan", "adapt.yaml")
	for _, want := range []string{"7 cells in 1 deployment, up to 7 trials", "adapt measures about 4 of 7 cells, if they saturate, and at most all", " at most; simulated"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in\n%s%s", want, got.stdout, got.stderr)
		}
	}
	got = sweep(t, dir, nil, "plan", "--json", "adapt.yaml")
	var list []struct{ Adapt *adaptJSON }
	if err := json.Unmarshal([]byte(got.stdout), &list); err != nil || len(list) != 1 || list[0].Adapt == nil || *list[0].Adapt != (adaptJSON{4, 7}) {
		t.Errorf("%v, %s", err, got.stdout)
	}
}

// TestPlans_adapt runs plans/adapt-quickstart.yaml on a faster GPU: every level has a row,
// and the summary counts those that are skipped.
func TestPlans_adapt(t *testing.T) {
	t.Parallel()
	out := rehearsePlan(t, "adapt-quickstart", []string{"matrix.gpu=h200"}, []int{exitOK})
	if n := curved(t, out, 12); n < 4 {
		t.Errorf("%d levels are measured", n)
	}
}
