package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/executor/serving/budget"
	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/rundir"
)

// TestVerdict holds the precedence of exit codes, and that what decides one
// does not silence the rest.
func TestVerdict(t *testing.T) {
	t.Parallel()
	var (
		pod     = errors.New("pod p is still there")
		full    = fmt.Errorf("append trial_begun: %w", syscall.ENOSPC)
		refused = fmt.Errorf("backend x: %w", backends.ErrRefused)
		late    = fmt.Errorf("%w (1m)", executor.ErrMaxTime)
		dear    = fmt.Errorf("%w: $4 of $4", budget.ErrMaxCost)
		old     = fmt.Errorf("%w: pod p", budget.ErrLifetime)
		hit     = signalled{syscall.SIGINT}
		panics  = &serving.Panic{Value: "ours"}
		drift   = fmt.Errorf("deployment d: %w", executor.ErrDrift)
		locked  = fmt.Errorf("dir: %w", rundir.ErrLocked)
	)
	for _, c := range []struct {
		name string
		rep  executor.Report
		err  error
		code int
		said []error
	}{
		{"nothing wrong", executor.Report{}, nil, exitOK, nil},
		{"missing", executor.Report{Missing: 1}, nil, exitIncomplete, nil},
		{"own error", executor.Report{Missing: 1}, full, exitIncomplete, []error{full}},
		{"panic", executor.Report{Missing: 1}, panics, exitInternal, []error{panics}},
		{"late", executor.Report{Interrupted: late}, nil, exitBudget, []error{late}},
		{"late and own error", executor.Report{Interrupted: late}, full, exitBudget, []error{late, full}},
		{"refused", executor.Report{Interrupted: refused}, refused, exitProvider, []error{refused}},
		{"late and refused", executor.Report{Interrupted: late}, refused, exitProvider, []error{refused}},
		{"too dear", executor.Report{Interrupted: dear}, nil, exitBudget, []error{dear}},
		{"too old", executor.Report{Interrupted: old}, nil, exitBudget, []error{old}},
		{"signal", executor.Report{Interrupted: hit}, nil, exitInt, nil},
		{"SIGTERM", executor.Report{Interrupted: signalled{syscall.SIGTERM}}, nil, exitTerm, nil},
		{"signal and own error", executor.Report{Interrupted: hit}, full, exitInt, []error{full}},
		{"signal and refused", executor.Report{Interrupted: hit}, refused, exitInt, []error{refused}},
		{"signal told twice", executor.Report{Interrupted: hit}, fmt.Errorf("backend x: %w", hit), exitInt, nil},
		{"clean-up", executor.Report{Left: serving.Left{Cleanup: pod}}, nil, exitCleanup, []error{pod}},
		{"clean-up told twice", executor.Report{Left: serving.Left{Cleanup: pod}}, pod, exitCleanup, []error{pod}},
		{"clean-up and signal and own error", executor.Report{Left: serving.Left{Cleanup: pod}, Interrupted: hit}, full, exitCleanup, []error{pod, full}},
		{"clean-up and panic", executor.Report{Left: serving.Left{Cleanup: pod}}, panics, exitCleanup, []error{pod, panics}},
		{"signal and panic", executor.Report{Interrupted: hit}, panics, exitInt, []error{panics}},
		{"late and panic", executor.Report{Interrupted: late}, panics, exitInternal, []error{panics}},
		{"late and drift", executor.Report{Interrupted: late}, drift, exitResume, []error{drift}},
		{"refused and locked", executor.Report{}, errors.Join(refused, locked), exitLocked, []error{refused, locked}},
	} {
		var out strings.Builder
		a := &app{err: &out}
		err := a.verdict(madeUp(backends.Factory{}), &report.Run{State: &rundir.State{}}, c.rep, c.err)
		if got := exitCode(err); got != c.code {
			t.Errorf("%s: exit %d, want %d", c.name, got, c.code)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if last := lines[len(lines)-1]; !strings.Contains(last, "next: sweep ") {
			t.Errorf("%s: the last line is %q, want the next command", c.name, last)
		}
		for _, e := range c.said {
			if n := strings.Count(out.String(), e.Error()); n != 1 {
				t.Errorf("%s: %v is said %d times\n%s", c.name, e, n, out.String())
			}
		}
		if len(c.said) == 0 && len(lines) > 1 {
			t.Errorf("%s: more is said than the next command\n%s", c.name, out.String())
		}
	}
}

// madeUp returns a job whose run is over.
func madeUp(f backends.Factory) job {
	return job{path: "dir", plugins: &plugins{factory: f}, state: &rundir.State{Manifest: rundir.Manifest{RunID: "0a1b2c3d4e"}}}
}

// TestVerdict_owed: who may have to pay is told for what, how much, and how to
// end it.
func TestVerdict_owed(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	a := &app{err: &out}
	err := a.verdict(madeUp(backends.Factory{Outlives: true}), &report.Run{}, executor.Report{Left: serving.Left{
		Cleanup: errors.New("DELETE answered 500"),
		Owed: []rundir.Owed{
			{Pod: "d-l01", Kind: "runpod", Name: "sw-a", State: backends.DeleteSent, USDPerHour: 2.5, Ref: &backends.Ref{ID: "xyz"}},
			{Pod: "d-l02", Kind: "runpod", Name: "sw-b", State: backends.Sent, USDPerHour: 0.25},
		},
	}}, nil)
	if exitCode(err) != exitCleanup {
		t.Errorf("exit %d", exitCode(err))
	}
	for _, want := range []string{"xyz (sw-a), delete_sent", "sw-b, create_sent", "$2.75/h", "sweep gc --run 0a1b2c3d4e --yes", "DELETE answered 500"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("not said: %s\n%s", want, out.String())
		}
	}
}

// TestVerdict_noTables lets the tables fail that are made at the end of a run:
// that hides neither the state of the run nor that of its servers.
func TestVerdict_noTables(t *testing.T) {
	t.Parallel()
	faults := map[string]int{
		"derive.create:err=ENOSPC@1+,kill.server:err=EACCES@1+": exitCleanup,
		"derive.create:panic,kill.server:err=EACCES@1+":         exitCleanup,
	}
	if slow.Tests {
		faults["derive.create:panic@3,kill.server:err=EACCES@1+"] = exitCleanup // in another sink
		faults["derive.create:err=ENOSPC@1+"] = exitIncomplete
		faults["derive.create:err=ENOSPC@1+,begin.journal:panic"] = exitInternal
		faults["derive.create:err=ENOSPC@1+,begin.journal:err=ENOSPC@1+"] = exitIncomplete
	}
	for fault, want := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "crash.yaml"), crashPlan)
			out := filepath.Join(dir, "run")
			got := sweep(t, dir, []string{"SWEEP_FAULT=" + fault}, "run", "-o", out, "crash.yaml")
			why := "no space left on device"
			if strings.Contains(fault, "derive.create:panic") {
				why = "panic: "
			}
			if got.code != want || !strings.Contains(got.stderr, why) {
				t.Errorf("exit %d, want %d and the reason\n%s", got.code, want, got.stderr)
			}
			if !strings.Contains(got.stderr, "next: sweep resume ") {
				t.Errorf("no next command\n%s", got.stderr)
			}
			if again := sweep(t, dir, nil, "resume", out); again.code != exitOK {
				t.Errorf("resume ended with %d\n%s", again.code, again.stderr)
			}
			alone(t, out)
		})
	}
}
