//go:build honesty

package honesty

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/internal/polltest"
)

// program is the sweep that all tests run: one that is built for them, or that of -sweep.
var program string

var sweepFlag = flag.String("sweep", "", "a sweep to test in place of this one")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		if program = *sweepFlag; program != "" {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "sweep-honesty-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "sweep")
		build := exec.Command("go", "build", "-o", program, "sweep.dev/sweep/cmd/sweep")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build sweep:", err)
			return 1
		}
		return m.Run()
	}())
}

// An invocation is one run of the program.
type invocation struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    bytes.Buffer // stdout and stderr
	events string
	done   chan struct{}
}

// start runs the program in the background, behind a prefix like taskset. It is
// gone at the end of the test.
func start(t *testing.T, prefix []string, args ...string) *invocation {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	argv := append(slices.Clone(prefix), program)
	argv = append(argv, args...)
	s := &invocation{t: t, done: make(chan struct{})}
	if args[0] == "run" || args[0] == "resume" {
		s.events = filepath.Join(t.TempDir(), "events.jsonl")
		argv = append(argv, "--events", s.events)
	}
	s.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	s.cmd.Env = append(os.Environ(), "NO_COLOR=1", "SWEEP_CALIBRATE=never")
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.WaitDelay = time.Minute
	if err := s.cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait() // its status is asked for
	}()
	t.Cleanup(func() {
		cancel()
		<-s.done
		if t.Failed() {
			t.Logf("%s\n%s", strings.Join(argv, " "), s.out.String())
		}
	})
	return s
}

// wait returns the exit code, -1 for a signal.
func (s *invocation) wait() int {
	<-s.done
	return s.cmd.ProcessState.ExitCode()
}

// measuring waits until the load that is measured has brought tokens.
func (s *invocation) measuring() {
	s.t.Helper()
	polltest.Until(s.t, "tokens come", func() bool {
		text, _ := os.ReadFile(s.events)
		for line := range strings.Lines(string(text)) {
			var e struct {
				Type     string `json:"type"`
				Progress *struct {
					OutputTokens int `json:"output_tokens"`
				} `json:"progress"`
			}
			if json.Unmarshal([]byte(line), &e) == nil && e.Type == "trial_progress" && e.Progress != nil && e.Progress.OutputTokens > 0 {
				return true
			}
		}
		select {
		case <-s.done:
			s.t.Fatal("the run ended before it measured")
		default:
		}
		return false
	})
}

// An outcome is the result.json of one attempt at one trial.
type outcome struct {
	Cell     string         `json:"cell_id"`
	Attempt  int            `json:"attempt"`
	Begin    time.Time      `json:"started_at"`
	End      time.Time      `json:"finished_at"`
	Invalid  []finding      `json:"invalid"`
	Findings []finding      `json:"findings"`
	Row      map[string]any `json:"row"`
}

type finding struct{ Code, Text string }

// outcomes returns the last attempts of all cells of a run.
func outcomes(t *testing.T, dir string) []outcome {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "cells", "*", "t01", "a*", "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]outcome{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var o outcome
		if err := json.Unmarshal(text, &o); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if o.Attempt > last[o.Cell].Attempt {
			last[o.Cell] = o
		}
	}
	var all []outcome
	for _, o := range last {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b outcome) int { return a.Begin.Compare(b.Begin) })
	return all
}

// has reports whether the outcome is flagged for a code, as a reason or a finding.
func (o outcome) has(code string) bool {
	is := func(f finding) bool { return f.Code == code }
	return slices.ContainsFunc(o.Invalid, is) || slices.ContainsFunc(o.Findings, is)
}

func (o outcome) text(column string) string {
	s, _ := o.Row[column].(string)
	return s
}

// number returns a column; NaN-like -1 if it is null, which none of those asked
// for ever is.
func (o outcome) number(column string) float64 {
	if v, ok := o.Row[column].(float64); ok {
		return v
	}
	return -1
}

func (o outcome) String() string {
	var parts []string
	for _, f := range o.Invalid {
		parts = append(parts, "INVALID "+f.Code+": "+f.Text)
	}
	for _, f := range o.Findings {
		parts = append(parts, "finding "+f.Code+": "+f.Text)
	}
	return fmt.Sprintf("%s %s %s\n\t%s", o.text("status"), o.text("error_class"), o.text("error"), strings.Join(parts, "\n\t"))
}
