package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	allbackends "sweep.dev/sweep/backends/all"
	"sweep.dev/sweep/executor/rented"
	"sweep.dev/sweep/internal/effect"
)

// at runs the program in this process and gives it answer, from a terminal or from
// a pipe.
func (a *runpodAccount) at(terminal bool, answer string, args ...string) ran {
	a.t.Helper()
	var out, errs bytes.Buffer
	program := &app{
		out: &out, err: &errs, in: strings.NewReader(answer), inTTY: terminal, errTTY: terminal,
		outWidth: func() int { return 80 }, exe: executable(a.t),
		backends: func(fx *effect.Effects) []backends.Factory { return allbackends.Factories(fx) },
		env: func(name string) (string, bool) {
			if name == "TERM" {
				return "dumb", true // no live lines
			}
			for _, e := range a.env {
				if key, value, _ := strings.Cut(e, "="); key == name {
					return value, true
				}
			}
			return os.LookupEnv(name)
		},
	}
	code := program.main(append([]string{"sweep"}, args...))
	return ran{code, out.String(), errs.String()}
}

// settings make a plan find the account without the environment of the process,
// which tests share.
func (a *runpodAccount) settings(more ...string) (args []string) {
	for _, s := range append([]string{"backend.base_url=" + a.URL(), "backend.key=${RUNPOD_API_KEY}"}, more...) {
		args = append(args, "--set", s)
	}
	return args
}

func TestQuoteText(t *testing.T) {
	t.Parallel()
	quote := quoteText(rented.Quote{Pods: 1, Unknown: 1, Keep: time.Hour})
	if want := "rents 1 pod, at a price that is not known, no max_cost bounds it; --keep-pod 1h0m0s costs more, which no max_cost bounds"; quote != want {
		t.Errorf("got %q", quote)
	}
}

const prompted = "go on? [y/N] "

// On a terminal a person is shown the quote and asked, even if the cost has a bound;
// elsewhere --yes or a bound answers, and the quote is printed as well.
func TestAgree_run(t *testing.T) {
	t.Parallel()
	a := renting(t)
	plan := filepath.Join(a.dir, "rent.yaml")
	const quoted = "rent rents 1 pod, at up to $0.24/h: about $"
	for _, c := range []struct {
		name     string
		terminal bool
		answer   string
		args     []string
		code     int
		said     []string
		not      string
	}{
		{"a bound in the plan is no yes", true, "n\n", a.settings("budget.max_cost=1"), exitUsage, []string{quoted, "at most $1.00", prompted, "nothing was rented"}, ""},
		{"a bound on the command line is none either", true, "\n", append(a.settings(), "--max-cost=1"), exitUsage, []string{quoted, "at most $1.00", prompted}, ""},
		{"no bound", true, "no\n", a.settings(), exitUsage, []string{quoted, "no max_cost bounds it", prompted}, ""},
		{"the end of the input", true, "", a.settings(), exitUsage, []string{prompted, "not agreed"}, ""},
		{"kept pods are quoted too", true, "n\n", append(a.settings("budget.max_cost=1"), "--keep-pod=2h"), exitUsage, []string{"--keep-pod 2h0m0s costs up to $0.48 more", prompted}, ""},
		{"over the budget", true, "y\n", a.settings("budget.max_cost=0.0000001"), exitBudget, []string{"exceeds the budget"}, prompted},
		{"a pipe is no answer", false, "y\n", a.settings(), exitUsage, []string{quoted, "there is no terminal to ask on", "--max-cost"}, prompted},
	} {
		r := a.at(c.terminal, c.answer, append(append([]string{"run", "-o", filepath.Join(a.dir, "out")}, c.args...), plan)...)
		if r.code != c.code {
			t.Errorf("%s: exit %d, want %d\n%s", c.name, r.code, c.code, r.stderr)
		}
		for _, text := range c.said {
			if !strings.Contains(r.stderr, text) {
				t.Errorf("%s: %q is not said\n%s", c.name, text, r.stderr)
			}
		}
		if c.not != "" && strings.Contains(r.stderr, c.not) {
			t.Errorf("%s: %q is said\n%s", c.name, c.not, r.stderr)
		}
	}
	if n := a.Audit().Creates; n != 0 {
		t.Fatalf("%d pods were created", n)
	}
	if _, err := os.Stat(filepath.Join(a.dir, "out")); err == nil {
		t.Error("a run that was not agreed to has a directory")
	}
	for i, c := range []struct {
		terminal bool
		args     []string
		asks     bool
	}{
		{true, a.settings("budget.max_cost=1"), true},
		{true, append(a.settings(), "--yes"), false},
		{false, a.settings("budget.max_cost=1"), false},
	} {
		out := filepath.Join(a.dir, []string{"out", "second", "third"}[i])
		r := a.at(c.terminal, "y\n", append(append([]string{"run", "-o", out}, c.args...), plan)...)
		if r.code != exitOK || !strings.Contains(r.stderr, quoted) || strings.Contains(r.stderr, prompted) != c.asks {
			t.Errorf("%v: exit %d\n%s", c.args, r.code, r.stderr)
		}
		if n := a.Audit().Creates; n != i+1 {
			t.Errorf("%v: %d creates, want %d", c.args, n, i+1)
		}
	}
}

// A resume that has to rent again asks like a run. The pods of the earlier run are
// given back first, also if the answer is no.
func TestAgree_resume(t *testing.T) {
	t.Parallel()
	a := renting(t)
	env, out := a.env, filepath.Join(a.dir, "out")
	a.env = append(a.env, "SWEEP_FAULT=commit.journal:kill")
	if r := a.sweep(append(append([]string{"run", "-o", "out", "--yes"}, a.settings()...), "rent.yaml")...); r.code != -1 || len(a.alive()) != 1 {
		t.Fatalf("exit %d, alive %v\n%s%s", r.code, a.alive(), r.stdout, r.stderr)
	}
	a.env = env
	r := a.at(true, "n\n", "resume", out)
	if r.code != exitUsage || !strings.Contains(r.stderr, " more, $") || !strings.Contains(r.stderr, prompted) || !strings.Contains(r.stderr, "of an earlier run is gone") {
		t.Errorf("no: exit %d\n%s", r.code, r.stderr)
	}
	if len(a.alive()) != 0 {
		t.Errorf("alive after a no: %v", a.alive())
	}
	if r := a.at(false, "", "resume", out); r.code != exitUsage || !strings.Contains(r.stderr, "there is no terminal to ask on") {
		t.Errorf("without a terminal: exit %d\n%s", r.code, r.stderr)
	}
	if r := a.at(false, "", "resume", "--max-cost=0.0000001", out); r.code != exitBudget {
		t.Errorf("what is spent counts: exit %d\n%s", r.code, r.stderr)
	}
	if n := a.Audit().Creates; n != 1 {
		t.Fatalf("%d creates", n)
	}
	if r := a.at(true, "y\n", "resume", out); r.code != exitOK || !strings.Contains(r.stderr, prompted) || a.Audit().Creates != 2 {
		t.Errorf("yes: exit %d, %d creates\n%s", r.code, a.Audit().Creates, r.stderr)
	}
	if r := a.at(true, "", "resume", out); r.code != exitOK || strings.Contains(r.stderr, "rents") || a.Audit().Creates != 2 {
		t.Errorf("a complete run: exit %d, %d creates\n%s", r.code, a.Audit().Creates, r.stderr)
	}
}
