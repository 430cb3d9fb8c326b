package main

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/sinks"
	csvsink "sweep.dev/sweep/sinks/csv"
)

// before is a copy of testdata/before. In it, run is a run of three cells that was
// interrupted after two, by a program whose columns put the statistic last; whole/run
// is one with failures by a program whose plain figures were of the whole trial. Each
// has the cells.csv that was written then beside it. plateau/run is a run of two cells by
// method 2.
func before(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "before"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A table that is built again has every value of the one that was written then, in
// the column's name of today.
func TestBefore_sameNumbers(t *testing.T) {
	dir := before(t)
	today := map[string]string{}
	for _, r := range result.Renamings() {
		today[r.Before] = r.Today
	}
	renamed := map[string]bool{}
	for _, sub := range []string{"", "whole"} {
		t.Run(sub, func(t *testing.T) {
			dir := filepath.Join(dir, sub)
			again := rebuilt(t, filepath.Join(dir, "run"))
			then := filepath.Join(dir, "cells.csv")
			for _, name := range head(t, then) {
				now, ok := today[name]
				if !ok {
					now = name
				}
				renamed[name] = renamed[name] || ok
				want := column(t, then, name)
				for i := range want {
					if strings.HasPrefix(name, col.OfSLO("")) && name != col.SLOPass {
						want[i] = map[string]string{"true": result.SLOPass, "false": result.SLOFail}[want[i]]
					}
					switch name {
					case col.ServerPercentileBounds:
						want[i] = regexp.MustCompile(`server_(p\d\d)_`).ReplaceAllString(want[i], "${1}_server_")
					case col.LowConfidence:
						want[i] = regexp.MustCompile(`_ms\b`).ReplaceAllString(want[i], "_ms_whole")
					}
				}
				if got := column(t, again, now); !slices.Equal(got, want) {
					t.Errorf("%s, which was %s: %v, want %v", now, name, got, want)
				}
			}
			if got := column(t, again, col.Method); !slices.Equal(got, []string{"1", "1"}) {
				t.Errorf("method is %v", got)
			}
		})
	}
	for name := range today {
		if !renamed[name] {
			t.Errorf("no earlier table has the column %s", name)
		}
	}
}

// rebuilt is the path of a cells.csv with all columns, made of a run directory.
func rebuilt(t *testing.T, run string) string {
	t.Helper()
	r, err := report.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	sink, err := csvsink.New(csvsink.Config{Columns: csvsink.Columns{"full"}}, r.Resolved.Columns)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "again.csv")
	err = sink.Build(t.Context(), sinks.NewTable(r.Resolved.Columns, r.Whole(), nil), func(name string, write func(sinks.Writer) error) error {
		var b bytes.Buffer
		if err := write(&b); err != nil || name != "cells.csv" {
			return err
		}
		return os.WriteFile(path, b.Bytes(), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func head(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names, err := csv.NewReader(f).Read()
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// People see what they saw then: figures of the whole trial.
func TestBefore_cells(t *testing.T) {
	dir := before(t)
	for run, wants := range map[string][]string{
		"run": {
			"3 cells: 2 acceptable, 1 pending", "+ 120  17.6/7.77/134 (10)", "These figures are of method 1", "+ 214  34.5/8.39/150 (10)",
			"vllm a100-80gb max_tokens=16: not decided: concurrency 4 pending",
		},
		"whole/run": {" 153  145/18.9/320 (22)", " 333  81.3/10.7/189 (22)", "responsive (p95_ttft_ms_completed) in 2 of 2"},
	} {
		r := sweep(t, dir, nil, "cells", "-v", run)
		for _, want := range wants {
			if r.code != exitOK || !strings.Contains(r.stdout, want) {
				t.Errorf("%s: %q is missing (exit %d):\n%s%s", run, want, r.code, r.stdout, r.stderr)
			}
		}
	}
	r := sweep(t, dir, nil, "cells", "-v", "run", "f5db3fd50079")
	if !regexp.MustCompile(`(?m)^  max_kv_cache_usage, ratio +0\.000246`).MatchString(r.stdout) || strings.Contains(r.stdout, "\n  kv_cache_usage_max") {
		t.Errorf("exit %d:\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// Such a run is not gone on with, and nothing of it is taken over: figures of two
// methods must not stand in one grid.
func TestBefore_resume(t *testing.T) {
	dir := before(t)
	text, err := os.ReadFile(filepath.Join(dir, "whole", "run", "plan.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?m)^slo_window.*\n|^  certain.*\n`).ReplaceAll(text, nil)
	if err := os.WriteFile(filepath.Join(dir, "plan.yaml"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"resume", "run"}, {"resume", "whole/run"}, {"run", "--reuse", "whole/run", "-o", "new", "plan.yaml"}} {
		r := sweep(t, dir, nil, args...)
		if want := "the figures of the run are made by method 1, this sweep makes them by method 3"; r.code != exitResume || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
}

// A run of method 2 is shown with its figures and a warning. It is neither gone on with
// nor taken over, and compare names both methods before it would say a number.
func TestBefore_methodTwo(t *testing.T) {
	dir := before(t)
	for _, args := range [][]string{{"cells", "-v", "plateau/run"}, {"report", "--format", "md", "plateau/run"}} {
		r := sweep(t, dir, nil, args...)
		if r.code != exitOK || !strings.Contains(r.stdout, "of method 2") || strings.Contains(r.stdout, "whole trial") {
			t.Errorf("%v: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	const plan = "plateau/run/plan.yaml"
	for _, args := range [][]string{{"resume", "plateau/run"}, {"run", "--reuse", "plateau/run", "-o", "new", plan}, {"noise", "plateau/run", "whole/run", "-o", "x.json"}} {
		r := sweep(t, dir, nil, args...)
		if want := "the figures of the run are made by method 2, this sweep makes them by method 3"; r.code != exitResume || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	if r := sweep(t, dir, nil, append(append([]string{"run", "-o", "today"}, rehearsal...), plan)...); r.code != exitOK {
		t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	r := sweep(t, dir, nil, "compare", "plateau/run", "today")
	if !strings.HasPrefix(r.stdout, "differs: method 2 -> 3") || !strings.Contains(r.stdout, "nothing can be compared: figures of methods 2 and 3 mean different things") {
		t.Errorf("compare: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := sweep(t, dir, nil, "cells", "-v", "today"); r.code != exitOK || strings.Contains(r.stdout, "of method") {
		t.Errorf("today: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// The errors of a plan with old column names give the new names.
func TestBefore_plan(t *testing.T) {
	dir := before(t)
	r := sweep(t, dir, nil, "validate", "run/plan.yaml")
	for _, want := range []string{
		"the column kv_cache_usage_max is called max_kv_cache_usage now", `did you mean "max_kv_cache_usage"?`,
		"the column server_p95_ttft_ms is called p95_server_ttft_ms now", "the column requests_running_max is called max_requests_running now",
	} {
		if r.code != exitUsage || !strings.Contains(r.stderr+r.stdout, want) {
			t.Errorf("%q is missing (exit %d):\n%s%s", want, r.code, r.stdout, r.stderr)
		}
	}
	r = sweep(t, dir, nil, "validate", "whole/run/plan.yaml")
	for _, want := range []string{
		`unknown key "slo_window" in the plan`, "leave it out: objectives are over the plateau",
		"the column p50_ttft_ms_censored is called p50_ttft_ms now",
	} {
		if r.code != exitUsage || !strings.Contains(r.stderr+r.stdout, want) {
			t.Errorf("%q is missing (exit %d):\n%s%s", want, r.code, r.stdout, r.stderr)
		}
	}
	r = sweep(t, dir, nil, "validate", "--set", "slo={}", "--set", "sinks=[csv: {columns: [gpu, gpu_power_mean_w]}]", "run/plan.yaml")
	if want := `the column "gpu_power_mean_w" is called "mean_gpu_power_w" now`; r.code != exitUsage || !strings.Contains(r.stderr+r.stdout, want) {
		t.Errorf("%q is missing (exit %d):\n%s%s", want, r.code, r.stdout, r.stderr)
	}
}
