package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/nightly"
	"sweep.dev/sweep/nightly/gate"
)

// A slip of the command line is exit 2 and never an internal error.
func TestExit_usage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plan := filepath.Join("..", "..", "plans", "quickstart.yaml")
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"run", "."},
		{"run", "file"},
		{"run", "nosuch"},
		{"run", "-o", "file", here},
		{"run", "-o", "file/below", here},
		{"run", "--parallel", "0", here},
		{"run", "--parallel", "x", here},
		{"run", "--max-time", "0s", here},
		{"run", "--max-cells", "-1", here},
		{"run", "--events", "nosuch/events", here},
		{"validate", "--set", "=1", here},
		{"plan", "--only", "nosuch == 1", here},
		{"resume", "file"},
		{"resume", "."},
		{"cells", "file"},
		{"runs", "--watch", "."},
		{"logs", "nosuch"},
		{"probe", "localhost"},
		{"probe", "--max-tokens", "0", "http://localhost"},
		{"probe", "--key-env", "SWEEP_TEST_NOSUCH", "http://localhost"},
		{"sim", "--port", "99999", "sweep/tiny"},
	} {
		got := sweep(t, dir, nil, args...)
		if got.code != exitUsage || got.stderr == "" {
			t.Errorf("sweep %q: exit %d, want %d\n%s", args, got.code, exitUsage, got.stderr)
		}
	}
}

// A reader of stdout that has left is no error of any command.
func TestExit_readerGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "crash.yaml"), crashPlan)
	if got := sweep(t, dir, nil, "run", "-o", "out", "crash.yaml"); got.code != exitOK {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	for _, args := range [][]string{
		{"cells", "out"},
		{"cells", "--json", "out"},
		{"cells", "--status", "ok", "out"},
		{"runs", "--json", "out"},
		{"logs", "out"},
		{"runs", "."},
		{"plan", "crash.yaml"},
		{"plan", "--json", "crash.yaml"},
		{"list", "engines"},
		{"list", "engines", "vllm"},
		{"list", "gpus"},
		{"list", "schema"},
		{"completion", "bash"},
		{"completion", "zsh"},
		{"--help"},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		cmd := exec.CommandContext(t.Context(), executable(t), args...)
		var errs bytes.Buffer
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), asSweep+"=1", "SWEEP_CALIBRATE=never"), w, &errs
		err = cmd.Run()
		w.Close()
		if err != nil || errs.Len() > 0 {
			t.Errorf("sweep %q: %v\n%s", args, err, errs.String())
		}
	}
}

// The order in which exit codes win is that of the contract, whoever has several.
func TestExit_order(t *testing.T) {
	t.Parallel()
	order := []int{exitCleanup, exitInt, exitTerm, exitInternal, exitUsage, exitLocked, exitResume, exitProvider, exitBudget, exitIncomplete, exitRegression, exitSLO, exitOK}
	for i, high := range order {
		for _, low := range order[i:] {
			for _, pair := range [][]int{{high, low}, {low, high}} {
				want, judged := high, high
				if high == exitIncomplete && low == exitRegression {
					judged = low
				}
				if got := worst(pair...); got != want {
					t.Errorf("worst of %v is %d, want %d", pair, got, want)
				}
				if got := worstJudged(pair...); got != judged {
					t.Errorf("worst of %v where a regression is judged is %d, want %d", pair, got, judged)
				}
				if high == exitOK || low == exitOK {
					continue
				}
				err := errors.Join(fmt.Errorf("one: %w", &statusError{pair[0], nil}), &hinted{&statusError{pair[1], errors.New("two")}, "hint"})
				if got := exitCode(err); got != want {
					t.Errorf("exit %d of an error of %v, want %d", got, pair, want)
				}
			}
		}
	}
	if len(order) != len(exitDocs) {
		t.Errorf("%d of %d codes have a rank", len(order), len(exitDocs))
	}
	refused := fmt.Errorf("backend x: %w: %w", executor.ErrUnreachable, backends.ErrRefused)
	for want, err := range map[int]error{
		exitProvider: refused, exitInternal: errors.New("x"), exitInt: fmt.Errorf("fetch: %w", signalled{syscall.SIGINT}),
		exitCleanup: errors.Join(refused, signalled{syscall.SIGINT}, &statusError{exitCleanup, nil}), exitUsage: errors.Join(refused, &usage{errors.New("x")}),
	} {
		if got := exitCode(err); got != want {
			t.Errorf("exit %d of %v, want %d", got, err, want)
		}
	}
}

// A regression is exit 98 whatever else the cells are: a hole does not hide it.
func TestExit_regression(t *testing.T) {
	t.Parallel()
	of := func(states ...gate.State) *nightly.Board {
		b := &nightly.Board{}
		for _, s := range states {
			b.Series = append(b.Series, nightly.Series{Verdicts: []gate.Verdict{{State: s}}})
		}
		return b
	}
	hole := []string{"a cell: none of 3 trials is valid"}
	for _, c := range []struct {
		board         *nightly.Board
		holes         []string
		strict, allow bool
		want          int
	}{
		{of(gate.Regression), nil, false, false, exitRegression},
		{of(gate.Regression), hole, false, true, exitRegression},
		{of(gate.Regression, gate.Missing), nil, false, false, exitRegression},
		{of(gate.Regression, gate.Learning, gate.TooNoisy), hole, true, false, exitRegression},
		{of(gate.Learning), hole, false, false, exitIncomplete},
		{of(gate.OK, gate.Missing), hole, false, false, exitIncomplete},
		{of(gate.OK, gate.Missing), hole, false, true, exitOK},
		{of(gate.Learning), nil, true, true, exitIncomplete},
		{of(gate.Learning), nil, false, false, exitOK},
		{of(), nil, false, true, exitIncomplete},
	} {
		if got := gateCode(c.board, c.holes, c.strict, c.allow); got != c.want {
			t.Errorf("%+v: exit %d, want %d", c, got, c.want)
		}
	}
}
