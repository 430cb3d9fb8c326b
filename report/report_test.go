package report_test

import (
	"errors"
	"strings"
	"testing"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/compare"
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
		want  compare.Verdict
	}{
		{"p95 at twice the p50", "ok ttft=100/200 tpot=5/6", compare.Acceptable},
		{"p95 above twice the p50 is no fault", "ok ttft=100/200.1 tpot=5/6", compare.Acceptable},
		{"an objective counts first", `ok ttft=100/900 tpot=5/6 miss="a|b|c=1"`, compare.Missed},
		{"an unchecked objective is no pass", `ok ttft=100/110 unchecked="a|b|not measured: c"`, compare.Undecided},
		{"a miss is one whatever else is not known", `ok ttft=100/110 unchecked="a|b|not measured: c" miss="d|e|f=1"`, compare.Missed},
		{"a warning is told only", `ok ttft=100/110 tpot=5/6 warn="a|b|c=1"`, compare.Acceptable},
		{"validity comes before objectives", `invalid reason="client_cpu|x" miss="a|b|c=1"`, compare.Invalid},
		{"a start failure", `failed start error="exit|x"`, compare.NoStart},
		{"a failure", `failed error="exit|x"`, compare.FailedRun},
		{"nothing", "pending", compare.Pending},
	} {
		run := reporttest.MadeUp(t, "axes engine! concurrency\ncell vllm 1\n  "+c.trial)
		if got := compare.Judge(run.Trials[0]); got != c.want {
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

func TestNext(t *testing.T) {
	t.Parallel()
	const head = "axes engine! concurrency\ncell vllm 1\n  "
	for run, want := range map[string]string{
		head + "ok tok=1":                                  "sweep report DIR",
		head + `ok tok=1 miss="a|b|c=1"`:                   "sweep report DIR",
		head + "pending":                                   "sweep resume DIR",
		head + `invalid reason="x|y"`:                      "sweep resume --retry invalid,failed DIR",
		head + `failed start error="x|y"`:                  "sweep resume --retry invalid,failed DIR",
		"record\n" + head + `failed start error="x|y"`:     "sweep report DIR",
		head + "invalid reason=\"x|y\"\nowed pod 1":        "sweep resume DIR",
		"record\n" + head + `failed error="signal|killed"`: "sweep resume --retry invalid,failed DIR",
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
		if c.Question == compare.AskSweetSpot && c.Answer != compare.Tied {
			t.Errorf("%+v", c)
		}
	}
}

// TestSamples holds the report to the floors of the figures.
func TestSamples(t *testing.T) {
	t.Parallel()
	if compare.P50Samples != figures.MinRequests(0.50) || compare.P95Samples != figures.MinRequests(0.95) {
		t.Errorf("a p50 needs %d requests and a p95 %d", figures.MinRequests(0.50), figures.MinRequests(0.95))
	}
}
