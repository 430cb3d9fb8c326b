package guard

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
)

// helperVar makes this test binary one of the processes below.
const helperVar = "GUARD_TEST_HELPER"

func TestMain(m *testing.M) {
	Main()
	switch mode, arg, _ := strings.Cut(os.Getenv(helperVar), ":"); mode {
	case "":
		// The race detector has every process wait a second before it exits.
		_ = os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
		goleak.VerifyTestMain(m)
	case "exit":
		code, _ := strconv.Atoi(arg)
		os.Exit(code)
	case "sleep":
		sleep()
	case "stubborn":
		stubborn()
	case "tree":
		tree4()
	case "brood":
		brood()
	case "parent":
		parent(arg)
	case "show":
		show()
	default:
		panic("no helper " + mode)
	}
}

// forever is longer than any test and short enough for a forgotten process.
const forever = 60 * time.Second

func say(name string) { fmt.Printf("%s %d\n", name, os.Getpid()) }

// sleep ends by any signal.
func sleep() {
	say("sleep")
	time.Sleep(forever)
}

// stubborn ignores every signal that can be ignored.
func stubborn() {
	signal.Ignore()
	say("stubborn")
	time.Sleep(forever)
}

// child starts this binary again as another helper.
func child(mode string, attr *syscall.SysProcAttr) (pid int) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVar+"="+mode)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd.Process.Pid
}

// tree4 is a command with a child, one in a process group of its own, and one
// in a session of its own that does not listen.
func tree4() {
	child("sleep", nil)
	child("sleep", &syscall.SysProcAttr{Setpgid: true})
	child("stubborn", &syscall.SysProcAttr{Setsid: true})
	say("tree")
	time.Sleep(forever)
}

// brood leaves an orphan in another session behind and goes.
func brood() {
	fmt.Println("orphan", child("stubborn", &syscall.SysProcAttr{Setsid: true}))
	os.Exit(3)
}

// parent starts a tree under guard and waits to be killed.
func parent(log string) {
	p, err := Start(context.Background(), nil, Spec{
		Argv: []string{os.Args[0]}, Env: map[string]string{helperVar: "tree"}, LogPath: log, Grace: forever,
	})
	if err != nil {
		panic(err)
	}
	<-p.Done()
}

// show prints what the command sees: its environment, files, CPUs and signals.
func show() {
	dir, _ := os.Getwd()
	fmt.Println("dir", dir)
	for _, name := range []string{"GUARD_TEST_SECRET", "GUARD_TEST_MARK", "GUARD_TEST_OURS", GuardVar, GuardedVar} {
		value, set := os.LookupEnv(name)
		fmt.Printf("env %s %q %v\n", name, value, set)
	}
	fmt.Fprintln(os.Stderr, "on stderr")
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "Cpus_allowed_list:") || strings.HasPrefix(line, "SigIgn:") {
			fmt.Print(line)
		}
	}
	// Files that this program opened itself are closed on exec.
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		fd, _ := strconv.Atoi(e.Name())
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if fd > 2 && err == nil && flags&unix.FD_CLOEXEC == 0 {
			fmt.Println("open", fd)
		}
	}
	fmt.Println("end")
	time.Sleep(forever)
}

// ourPath returns the one variable that a command needs to be found by its name.
func ourPath() map[string]string { return map[string]string{"PATH": os.Getenv("PATH")} }

// under starts a helper of this binary under guard and stops it in the end.
func under(t *testing.T, mode string, change ...func(*Spec)) (*Process, string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	spec := Spec{
		Argv:    []string{os.Args[0]},
		Env:     map[string]string{helperVar: mode, "PATH": os.Getenv("PATH")},
		LogPath: log,
		Grace:   5 * time.Second,
	}
	for _, f := range change {
		f(&spec)
	}
	p, err := Start(t.Context(), nil, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := p.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return p, log
}

// lines waits until the log has n lines and returns it.
func lines(t *testing.T, log string, n int) string {
	t.Helper()
	var text []byte
	within(t, 20*time.Second, fmt.Sprintf("%d lines in the log", n), func() bool {
		text, _ = os.ReadFile(log)
		return bytes.Count(text, []byte("\n")) >= n
	})
	return string(text)
}

// pidsIn reads the pids that helpers said.
func pidsIn(t *testing.T, text string) []int {
	t.Helper()
	var pids []int
	for line := range strings.Lines(text) {
		_, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		pid, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("log says %q", line)
		}
		pids = append(pids, pid)
	}
	return pids
}

func within(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	if !polltest.Within(limit, done) {
		t.Fatalf("not within %v: %s", limit, what)
	}
}

func alive(pid int) bool {
	p, ok := procfs.Stat(pid)
	return ok && p.Alive()
}

func noneAlive(pids []int) func() bool {
	return func() bool { return !slices.ContainsFunc(pids, alive) }
}
