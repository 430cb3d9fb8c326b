package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/report"
)

// serverOf returns the process of the server that a run has started.
func serverOf(t *testing.T, run *exec.Cmd) int {
	t.Helper()
	// The guard is our child, the server is the guard's.
	tree := procfs.Descendants(run.Process.Pid)
	i := slices.IndexFunc(tree, func(pid int) bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // may have ended
		return strings.Contains(string(b), "\x00sim\x00")
	})
	if i < 0 {
		t.Fatalf("no server among %v", tree)
	}
	return tree[i]
}

func poke(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// A row whose server was stopped in mid-cell is INVALID by server_stopped, without
// the finding server_stalled.
func TestVerdict_serverStopped(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "run")
	run := underLoad(t, out, "1000")
	server := serverOf(t, run)
	poke(t, server, syscall.SIGSTOP)
	time.Sleep(3 * time.Second)
	poke(t, server, syscall.SIGCONT)
	if err := run.Wait(); run.ProcessState.ExitCode() != exitIncomplete {
		t.Fatalf("ended with %v, want exit %d", err, exitIncomplete)
	}
	got, err := report.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	row := got.Rows()[0]
	if reasons := fmt.Sprint(row["invalid_reasons"]); !strings.Contains(reasons, "server_stopped") {
		t.Errorf("invalid_reasons is %q, want server_stopped in it", reasons)
	}
	if findings := fmt.Sprint(row["findings"]); strings.Contains(findings, "server_stalled") {
		t.Errorf("findings are %q: server_stopped explains the silence", findings)
	}
}

// An interrupt does not wait for a server that is stopped: neither for what is in
// flight on it, nor for its grace, which is 2 minutes here.
func TestRun_interruptedWhileServerIsStopped(t *testing.T) {
	t.Parallel()
	run := underLoad(t, filepath.Join(t.TempDir(), "run"), "1000")
	server := serverOf(t, run)
	poke(t, server, syscall.SIGSTOP)
	began := time.Now()
	poke(t, run.Process.Pid, syscall.SIGINT)
	if err := run.Wait(); run.ProcessState.ExitCode() != exitInt {
		t.Errorf("ended with %v, want exit %d", err, exitInt)
	}
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("the run ended %v after the interrupt", took)
	}
	if p, ok := procfs.Stat(server); ok && p.Alive() {
		t.Errorf("the server is still there: %+v", p)
	}
}

// A signal while the tables are derived ends the run as one before does, and a
// resume builds them.
func TestRun_interruptedWhileTablesAreDerived(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "crash.yaml"), crashPlan)
	out := filepath.Join(dir, "run")
	cmd := exec.CommandContext(t.Context(), executable(t), "run", "-o", out, "crash.yaml")
	cmd.Dir = dir
	// The second file is late, so that the signal has come before the last.
	cmd.Env = append(os.Environ(), asSweep+"=1", "SWEEP_FAULT=derive.create:stop@1,derive.create:delay=3s@2")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the run comes to its tables", func() bool {
		p, ok := procfs.Stat(cmd.Process.Pid)
		return ok && p.State == 'T'
	})
	for _, args := range [][]string{{"logs", "-f", out}, {"runs", "--watch", out}} {
		follower := exec.CommandContext(t.Context(), executable(t), args...)
		follower.Env = append(os.Environ(), asSweep+"=1")
		said, err := follower.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := follower.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := said.Read(make([]byte, 1)); err != nil {
			t.Errorf("%s says nothing: %v", args[0], err)
		}
		poke(t, follower.Process.Pid, syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, said)
		if err := follower.Wait(); follower.ProcessState.ExitCode() != exitTerm {
			t.Errorf("%s ended with %v, want exit %d", args[0], err, exitTerm)
		}
	}
	poke(t, cmd.Process.Pid, syscall.SIGINT)
	poke(t, cmd.Process.Pid, syscall.SIGCONT)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitInt {
		t.Errorf("ended with %v, want exit %d\n%s", err, exitInt, errs.String())
	}
	if want := "sweep resume builds the tables"; !strings.Contains(errs.String(), want) {
		t.Errorf("stderr has no %q:\n%s", want, errs.String())
	}
	if got := sweep(t, dir, nil, "resume", out); got.code != exitOK {
		t.Errorf("resume: exit %d\n%s", got.code, got.stderr)
	}
	if _, err := os.Stat(filepath.Join(out, "samples.parquet")); err != nil {
		t.Error(err)
	}
}
