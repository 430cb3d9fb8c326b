package report_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/reporttest"
	figures "sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/rundir"
)

// TestJudge holds the bounds of the rules, on both of their sides.
func TestJudge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		trial string
		want  conclude.Verdict
	}{
		{"p95 at twice the p50", "ok ttft=100/200 tpot=5/6", conclude.Acceptable},
		{"p95 above twice the p50 is no fault", "ok ttft=100/200.1 tpot=5/6", conclude.Acceptable},
		{"an objective counts first", `ok ttft=100/900 tpot=5/6 miss="a|b|c=1"`, conclude.Missed},
		{"an unchecked objective is no pass", `ok ttft=100/110 unchecked="a|b|not measured: c"`, conclude.Undecided},
		{"a miss is one whatever else is not known", `ok ttft=100/110 unchecked="a|b|not measured: c" miss="d|e|f=1"`, conclude.Missed},
		{"a warning is told only", `ok ttft=100/110 tpot=5/6 warn="a|b|c=1"`, conclude.Acceptable},
		{"validity comes before objectives", `invalid reason="client_cpu|x" miss="a|b|c=1"`, conclude.Invalid},
		{"a start failure", `failed start error="exit|x"`, conclude.NoStart},
		{"a failure", `failed error="exit|x"`, conclude.FailedRun},
		{"nothing", "pending", conclude.Pending},
	} {
		run := reporttest.MadeUp(t, "axes engine! concurrency\ncell vllm 1\n  "+c.trial)
		if got := conclude.Judge(run.Trials[0]); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	if _, err := report.Open(t.TempDir()); !errors.Is(err, rundir.ErrNoRun) {
		t.Errorf("Open of an empty folder: %v, want ErrNoRun", err)
	}
	run := reporttest.MadeUp(t, "repeats 2\naxes engine! concurrency\ncell vllm 1\n  ok tok=1\n  pending\ncell vllm 2\n  pending\n  ok tok=2")
	if got := len(run.Trials); got != 4 {
		t.Errorf("%d trials, want the planned 4", got)
	}
	if got := len(run.Rows()); got != 2 {
		t.Errorf("%d rows, want 2", got)
	}
	if got := run.Attempts(); len(got) != 2 || !strings.HasSuffix(got[1], "cells/c001/t02/a01") {
		t.Errorf("attempts %q", got)
	}
}

// A run whose manifest says no method is of the first one, whose columns had other names.
func TestOpen_firstMethod(t *testing.T) {
	t.Parallel()
	fx, err := effect.New("")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	d, err := rundir.Create(fx, dir, rundir.Manifest{RunID: "3f2a", Plan: "old"}, nil, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := report.Open(dir); err == nil || !strings.Contains(err.Error(), "is of method 1, whose columns had other names") {
		t.Errorf("%v, want that it is not read", err)
	}
}

// TestTied_list holds that a plan whose load has a list under the name of an axis is concluded.
func TestTied_list(t *testing.T) {
	t.Parallel()
	run := reporttest.MadeUp(t, "axes gpu! concurrency\ncell l4 1\n  ok tok=1\ncell h100 1\n  ok tok=2")
	run.Resolved.Plan = json.RawMessage(`{"load": {"engine": ["vllm"]}}`)
	if tied := run.Conclude().Tied(); len(tied) != 0 {
		t.Errorf("%q, want none", tied)
	}
}

// TestParseResolved_searches holds that a search without a cell for each level is refused.
func TestParseResolved_searches(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"searches": [{"levels": [1, 2], "cells": ["a"]}]}`: "search 1 has 2 levels and 1 cells",
		`{"searches": [{"levels": [], "cells": []}]}`:        "search 1 has 0 levels",
	} {
		if _, err := report.ParseResolved([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	const head = "axes engine! concurrency\ncell vllm 1\n  "
	for run, want := range map[string]string{
		head + "ok tok=1":                                                                  "sweep report DIR",
		head + `ok tok=1 miss="a|b|c=1"`:                                                   "sweep report DIR",
		head + "pending":                                                                   "sweep resume DIR",
		head + `invalid reason="x|y"`:                                                      "sweep resume --retry invalid,failed DIR",
		head + `failed start error="x|y"`:                                                  "sweep resume --retry invalid,failed DIR",
		"record\n" + head + `failed start error="x|y"`:                                     "sweep report DIR",
		head + "invalid reason=\"x|y\"\nowed pod 1":                                        "sweep resume DIR",
		head + `ok tok=1 undecided="a|b|c=1|300"`:                                          "sweep resume --retry undecided DIR",
		head + `ok tok=1 undecided="a|b|c=1|0"`:                                            "sweep report DIR", // at its limit
		head + `ok tok=1 undecided="a|b|c=1|5000"`:                                         "sweep report DIR", // too many
		head + "ok tok=1 undecided=\"a|b|c=1|300\"\ncell vllm 2\n  pending":                "sweep resume DIR",
		head + "ok tok=1 undecided=\"a|b|c=1|300\"\ncell vllm 2\n  invalid reason=\"x|y\"": "sweep resume --retry invalid,failed DIR",
		"record\n" + head + `failed error="signal|killed"`:                                 "sweep resume --retry invalid,failed DIR",
	} {
		r := reporttest.MadeUp(t, run)
		if got := strings.ReplaceAll(r.Next(), r.Dir, "DIR"); got != want {
			t.Errorf("%s\n next %q, want %q", run, got, want)
		}
	}
}

// TestNextOf holds that a command for one cell can be pasted whatever the run is called.
func TestNextOf(t *testing.T) {
	t.Parallel()
	r := reporttest.MadeUp(t, "axes engine! concurrency\ncell vllm 1\n  ok tok=1")
	r.Dir = "runs/two words"
	p := r.Conclude().Points[0]
	if got, want := r.NextOf(p), "sweep logs 'runs/two words' "+p.Cell.ID; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestClaims_zeroRate holds that no load is chosen of those that carry nothing.
func TestClaims_zeroRate(t *testing.T) {
	t.Parallel()
	run := reporttest.MadeUp(t, "axes engine! concurrency\ncell vllm 1\n  ok req=0\ncell vllm 4\n  ok req=0")
	for _, c := range run.Conclude().Claims {
		if c.Question == conclude.AskSweetSpot && c.Answer != conclude.Tied {
			t.Errorf("%+v", c)
		}
	}
}

// TestSamples holds the report to the floors of the figures.
func TestSamples(t *testing.T) {
	t.Parallel()
	if conclude.P50Samples != figures.MinRequests(0.50) || conclude.P95Samples != figures.MinRequests(0.95) {
		t.Errorf("a p50 needs %d requests and a p95 %d", figures.MinRequests(0.50), figures.MinRequests(0.95))
	}
}
