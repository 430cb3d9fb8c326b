package main

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// plan holds its estimates against the bounds of the plan, and its requests against what
// the percentiles of its objectives need; every line fits a terminal.
func TestPlan_advice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "p.yaml"), `version: 1
name: advice
model: sweep/tiny
matrix: {engine: vllm, gpu: a-gpu, concurrency: [1, 16], max_tokens: 64}
backend: {kind: endpoint, url: "http://127.0.0.1:9"}
prices: {a-gpu: {usd_per_hour: 3600}}
load: {requests: 128, prompts: {input_tokens: 20}}
slo: {responsive: p95_ttft_ms < 200}
`)
	for _, c := range []struct {
		set        []string
		want, none string
	}{
		{nil, "  p95 needs 130 requests, the plan sends 128 at concurrency=1: load.requests: 160\n", "budget:"},
		{[]string{"load.requests=130"}, "", "needs"},
		{[]string{"repeats=2"}, "", "needs"},
		{[]string{"load.requests=40", "repeats=2"}, "the plan sends 80 at concurrency=1: load.requests: 80\n", ""},
		{[]string{"slo={clean: error_rate == 0}", "load.requests=20"}, "", "needs"},
		{[]string{"load={duration: 20s, prompts: {input_tokens: 20}}"}, "", "needs"},
		{[]string{"budget={max_cost: 1000, max_time: 90m}"}, "  budget: max_cost $1000.00, max_time 1h30m: enough\n", "exit 5"},
		{[]string{"budget={max_cost: 1, max_time: 1h}"}, " is missing; the run ends there (exit 5)\n", "enough"},
		{[]string{"budget.max_time=1s"}, "  budget: max_time 1s: ", "enough"},
		{[]string{"prices={}", "budget.max_cost=1"}, "max_cost cannot be checked without a price", "enough"},
	} {
		args := []string{"plan", "p.yaml"}
		for _, set := range c.set {
			args = append(args, "--set", set)
		}
		r := sweep(t, dir, nil, args...)
		if r.code != exitOK || !strings.Contains(r.stdout, c.want) || c.none != "" && strings.Contains(r.stdout, c.none) {
			t.Errorf("%q: exit %d, want %q and not %q\n%s%s", c.set, r.code, c.want, c.none, r.stdout, r.stderr)
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	const text = "plan.yaml:3:1: this line is too long\n  3 | this line of a file is too long\n    = so is what was expected\nshort"
	const want = "plan.yaml:3:1: this\n    line is too long\n  3 | this line of a file is too long\n    = so is what was\n    expected\nshort"
	if got := fold(text, 22); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// sweep plan -v fits 80 columns in a pipe, for each plan that is given with the program,
// and has each cell once.
func TestPlan_verboseWidth(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../plans/*.yaml")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d plans: %v", len(paths), err)
	}
	for _, path := range paths {
		r := sweep(t, ".", nil, "plan", "-v", path)
		if r.code == exitUsage && strings.Contains(r.stderr, "--allow-env") {
			continue // it wants a variable
		}
		if r.code != exitOK || !strings.Contains(r.stdout, "deployment ") {
			t.Errorf("%s: exit %d\n%s%s", path, r.code, r.stdout, r.stderr)
		}
		for l := range strings.SplitSeq(r.stdout, "\n") {
			if n := utf8.RuneCountInString(l); n > 80 {
				t.Errorf("%s: a line of %d columns, bound 80: %s", path, n, l)
			}
		}
	}
}

// The last line of validate is what to do next: for one plan and for several, right and
// wrong ones.
func TestValidate_next(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const good = "version: 1\nname: good\nmodel: sweep/tiny\nmatrix: {engine: vllm, gpu: h100, concurrency: 1}\nbackend: {kind: sim}\nload: {requests: 40, max_tokens: 4, prompts: {input_tokens: 8}}\n"
	write(t, filepath.Join(dir, "a.yaml"), good)
	write(t, filepath.Join(dir, "b c.yaml"), good)
	write(t, filepath.Join(dir, "bad.yaml"), strings.Replace(good, "requests: 40", "request: 40", 1))
	write(t, filepath.Join(dir, "worse.yaml"), strings.Replace(good, "version: 1", "version: 7", 1))
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string // their last lines
	}{
		{[]string{"a.yaml"}, exitOK, "next: sweep plan a.yaml", ""},
		{[]string{"b c.yaml"}, exitOK, "next: sweep plan 'b c.yaml'", ""},
		{[]string{"a.yaml", "b c.yaml"}, exitOK, "2 of 2 plans ok\nnext: sweep plan a.yaml", ""},
		{[]string{"bad.yaml"}, exitUsage, "", "next: correct bad.yaml:6:8, then sweep validate bad.yaml"},
		{[]string{"a.yaml", "bad.yaml", "worse.yaml"}, exitUsage, "a.yaml: ok, 1 cell in 1 deployment", "1 of 3 plans ok\nnext: correct bad.yaml:6:8, then sweep validate bad.yaml worse.yaml"},
		{[]string{"none.yaml"}, exitUsage, "", "next: correct none.yaml, then sweep validate none.yaml"},
		{[]string{"--json", "bad.yaml"}, exitUsage, "]", ""},
	} {
		r := sweep(t, dir, nil, append([]string{"validate"}, c.args...)...)
		if r.code != c.code || !strings.HasSuffix("\n"+r.stdout, "\n"+c.stdout+"\n") && c.stdout != "" || !strings.HasSuffix("\n"+r.stderr, "\n"+c.stderr+"\n") && c.stderr != "" {
			t.Errorf("%q: exit %d, want %d, and at the end %q and %q\n%s%s", c.args, r.code, c.code, c.stdout, c.stderr, r.stdout, r.stderr)
		}
	}
}
