package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"hash/crc32"
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

// before is a copy of testdata/before: a run of three cells that was interrupted
// after two, by a program whose columns had the names of before, and the cells.csv
// that it wrote.
func before(t *testing.T) (dir, run string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "before"))); err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(dir, "run")
}

// started makes a run one that was started here and by this program, which
// resume asks for. values are of the keys of the journal's first line.
func started(t *testing.T, run string, values map[string]string) {
	t.Helper()
	path := filepath.Join(run, "journal.jsonl")
	journal, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := bytes.Cut(journal, []byte("\n"))
	line := string(first)
	for key, value := range values {
		line = regexp.MustCompile(`"`+key+`":"[^"]*"`).ReplaceAllLiteralString(line, fmt.Sprintf("%q:%q", key, value))
	}
	const prefix = `{"crc":"........",`
	sum := crc32.Checksum([]byte(line[len(prefix):]), crc32.MakeTable(crc32.Castagnoli))
	line = fmt.Sprintf(`{"crc":"%08x",%s`, sum, line[len(prefix):])
	if err := os.WriteFile(path, append([]byte(line+"\n"), rest...), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A table that is built again has every value of the one that was written then, in
// the column's name of today.
func TestBefore_sameNumbers(t *testing.T) {
	dir, run := before(t)
	r, err := report.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	sink, err := csvsink.New(csvsink.Config{Columns: csvsink.Columns{"full"}}, r.Resolved.Columns)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "again.csv")
	err = sink.Build(t.Context(), sinks.Table{Columns: r.Resolved.Columns, Rows: r.Rows()}, func(name string, write func(sinks.Writer) error) error {
		var b bytes.Buffer
		if err := write(&b); err != nil || name != "cells.csv" {
			return err
		}
		return os.WriteFile(path, b.Bytes(), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	then := filepath.Join(dir, "cells.csv")
	renamed := 0
	for _, name := range head(t, then) {
		if result.Today(name) != name {
			renamed++
		}
		want := column(t, then, name)
		if name == col.ServerPercentileBounds {
			for i := range want {
				want[i] = regexp.MustCompile(`server_(p\d\d)_`).ReplaceAllString(want[i], "${1}_server_")
			}
		}
		if got := column(t, path, result.Today(name)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if renamed != len(result.Renamings()) {
		t.Errorf("%d columns had another name, want %d", renamed, len(result.Renamings()))
	}
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

func TestBefore_cells(t *testing.T) {
	dir, _ := before(t)
	r := sweep(t, dir, nil, "cells", "run")
	for _, want := range []string{
		"3 cells: 2 acceptable, 1 pending", "+ 120  17.6/7.77 (10)", "+ 214  34.5/8.39 (10)",
		"vllm a100-80gb max_tokens=16: not decided: concurrency 4 pending",
	} {
		if r.code != exitOK || !strings.Contains(r.stdout, want) {
			t.Errorf("%q is missing (exit %d):\n%s%s", want, r.code, r.stdout, r.stderr)
		}
	}
	r = sweep(t, dir, nil, "cells", "run", "f5db3fd50079")
	if !regexp.MustCompile(`(?m)^  max_kv_cache_usage +0\.000`).MatchString(r.stdout) || strings.Contains(r.stdout, "kv_cache_usage_max ") {
		t.Errorf("exit %d:\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// What is left of such a run is measured, and held against the objectives of its
// plan by the names that they have there.
func TestBefore_resume(t *testing.T) {
	dir, run := before(t)
	here := map[string]string{"host": hostname(), "version": version()}
	started(t, run, here)
	// The digest of a plan has the defaults of the program that read it.
	r := sweep(t, dir, nil, "resume", "run")
	if m := regexp.MustCompile(`digest \w+, now (\w+)`).FindStringSubmatch(r.stderr); m != nil {
		here["plan_digest"] = m[1]
		started(t, run, here)
		r = sweep(t, dir, nil, "resume", "run")
	}
	if !slices.Contains([]int{exitOK, exitIncomplete}, r.code) { // a busy machine may make a trial INVALID
		t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	path := filepath.Join(run, "cells.csv")
	if got := column(t, path, "slo_roomy"); !slices.Equal(got, []string{"true", "true", "true"}) {
		t.Errorf("slo_roomy is %v", got)
	}
	if got := column(t, path, "slo_served"); !slices.Equal(got, []string{"true", "true", "true"}) {
		t.Errorf("slo_served is %v", got)
	}
	if got := column(t, path, col.MaxKVCacheUsage); len(got) != 3 || slices.Contains(got, "") {
		t.Errorf("%s is %v", col.MaxKVCacheUsage, got)
	}
}

// A plan with names of before is told those of today.
func TestBefore_plan(t *testing.T) {
	dir, _ := before(t)
	r := sweep(t, dir, nil, "validate", "run/plan.yaml")
	for _, want := range []string{
		"the column kv_cache_usage_max is called max_kv_cache_usage now", `did you mean "max_kv_cache_usage"?`,
		"the column server_p95_ttft_ms is called p95_server_ttft_ms now", "the column requests_running_max is called max_requests_running now",
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
