//go:build e2e || e2e_vllm || bench

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/result/store/storetest"
)

// program is the sweep that all tests run.
var program string

// programVar names a program that is built already.
const programVar = "SWEEP_E2E_PROGRAM"

func TestMain(m *testing.M) {
	os.Exit(func() int {
		// Plans name engines relative to the repository's root.
		if err := os.Chdir("../.."); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if program = os.Getenv(programVar); program != "" { // a process of TestLarge
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "sweep-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		// A calibration has a test of its own, and takes seconds.
		if err := os.Setenv("SWEEP_CALIBRATE", "never"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		program = filepath.Join(dir, "sweep")
		build := exec.Command("go", "build", "-o", program, "./cmd/sweep")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build sweep:", err)
			return 1
		}
		return m.Run()
	}())
}

// need fails the test where a file is missing, and says what makes it.
func need(t *testing.T, task string, files ...string) {
	t.Helper()
	for _, f := range files {
		if _, err := os.Stat(f); err != nil {
			t.Fatalf("%v\nrun: go tool -modfile=tools/go.mod task %s", err, task)
		}
	}
}

// markVar marks an invocation and its engines. A server gets few variables of the
// caller's environment; LC_* are among them.
const markVar = "LC_SWEEP_E2E"

// An invocation is one run of the program. Its engines carry its mark in their
// environment, from which the operating system can tell them.
type invocation struct {
	t              *testing.T
	cmd            *exec.Cmd
	mark           string
	stdout, stderr bytes.Buffer
	done           chan struct{}
	err            error
}

// start runs the program in the background. Whatever happens, it is gone at the
// end of the test, and it is asked politely first.
func start(t *testing.T, args ...string) *invocation {
	t.Helper()
	return launch(t, append([]string{program}, args...)...)
}

// launch runs a command that becomes the program.
func launch(t *testing.T, argv ...string) *invocation {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	s := &invocation{t: t, mark: fmt.Sprintf("%s-%d-%d", t.Name(), os.Getpid(), time.Now().UnixNano()), done: make(chan struct{})}
	s.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	s.cmd.Env = append(os.Environ(), markVar+"="+s.mark, "NO_COLOR=1")
	s.cmd.Stdout, s.cmd.Stderr = &s.stdout, &s.stderr
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.WaitDelay = time.Minute
	t.Logf("%s", strings.Join(argv, " "))
	if err := s.cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		s.err = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		<-s.done
		if t.Failed() {
			t.Logf("stdout:\n%s\nstderr:\n%s", s.stdout.String(), s.stderr.String())
		}
	})
	return s
}

// wait returns the exit code, -1 for a signal.
func (s *invocation) wait() int {
	s.t.Helper()
	<-s.done
	if s.cmd.ProcessState == nil {
		s.t.Fatal(s.err)
	}
	return s.cmd.ProcessState.ExitCode()
}

// until waits for an event that the run writes to its events file.
func (s *invocation) until(events string, want func(event) bool) event {
	s.t.Helper()
	var found event
	if !polltest.Within(5*time.Minute, func() bool {
		all := readEvents(s.t, events)
		if i := slices.IndexFunc(all, want); i >= 0 {
			found = all[i]
			return true
		}
		select {
		case <-s.done:
			s.t.Fatalf("sweep ended without the event: %v", s.err)
		default:
		}
		return false
	}) {
		s.t.Fatal("the event did not come")
	}
	return found
}

// An event is one line of --events, as far as the tests look at it.
type event struct {
	Type     string `json:"type"`
	Cell     string `json:"cell"`
	Attempt  int    `json:"attempt"`
	Step     string `json:"step"`
	Text     string `json:"text"`
	Progress *struct {
		OutputTokens int `json:"output_tokens"`
	}
}

func readEvents(t *testing.T, file string) []event {
	t.Helper()
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var events []event
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break // being written
		}
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v in %q", file, err, line)
		}
		events = append(events, e)
	}
	return events
}

// processes returns the processes that carry this invocation's mark, by their
// command lines. The program itself is not among them.
func (s *invocation) processes() map[int][]string {
	s.t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		s.t.Fatal(err)
	}
	found := map[int][]string{}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == s.cmd.Process.Pid {
			continue
		}
		// A process that is gone by now has no environment, and neither has a
		// zombie.
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if !bytes.Contains(env, []byte(markVar+"="+s.mark+"\x00")) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		found[pid] = strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	}
	return found
}

// engine returns the process of the server: the one that has its listening
// port on its command line, and is not the guard, which is a sweep.
func (s *invocation) engine() int {
	s.t.Helper()
	all := s.processes()
	for pid, argv := range all {
		if filepath.Base(argv[0]) != filepath.Base(program) && strings.Contains(strings.Join(argv, " "), "--port") {
			return pid
		}
	}
	s.t.Fatalf("no engine among the processes of this run: %v", all)
	return 0
}

// nothingLeft fails if a process of this run is alive. The exit of the program
// is a promise; after its death the guards get a moment.
func (s *invocation) nothingLeft(within time.Duration) {
	s.t.Helper()
	if polltest.Within(within, func() bool { return len(s.processes()) == 0 }) {
		return
	}
	left := s.processes()
	s.t.Errorf("left running: %v", left)
	for pid := range left {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// A row is one row of cells.parquet, as text.
type row map[string]string

func readRows(t *testing.T, dir string) []row {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "cells.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	columns, table, err := storetest.ReadTable(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for _, values := range table {
		r := row{}
		for _, c := range columns {
			if v := values[c.Name]; v != nil {
				r[c.Name] = fmt.Sprint(v)
			} else {
				r[c.Name] = ""
			}
		}
		rows = append(rows, r)
	}
	return rows
}

func (r row) String() string {
	return fmt.Sprintf("concurrency %s, max_tokens %s: %s %s %s", r["concurrency"], r["max_tokens"], r["status"], r["invalid_reasons"], r["error"])
}

// stolen reports whether the hypervisor took this machine's processors while the row
// was measured, and with them those of client and server.
func (r row) stolen() bool {
	return slices.Contains(strings.Split(r["invalid_reasons"], ","), "cpu_steal")
}

// sent returns how many requests a load of so many sends: each worker's first one comes on
// top.
func (r row) sent(t *testing.T, requests int) int {
	t.Helper()
	return requests + int(r.number(t, "concurrency"))
}

// number returns a column that must have been measured.
func (r row) number(t *testing.T, column string) float64 {
	t.Helper()
	text, ok := r[column]
	if !ok {
		t.Errorf("%s: there is no column %s", r, column)
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Errorf("%s: %s is %q, want a number", r, column, text)
	}
	return v
}
