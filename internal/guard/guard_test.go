package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
)

// The limit of the promise is 2 s; the machine that tests may be busy.
const gone = 5 * time.Second

// startParent starts a process that starts a tree of four under a guard.
func startParent(t *testing.T) (parent *exec.Cmd, tree []int) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVar+"=parent:"+log)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, pidsIn(t, lines(t, log, 4))
}

func TestStart_parentKilled(t *testing.T) {
	cmd, pids := startParent(t)
	guards := procfs.Descendants(cmd.Process.Pid)
	if len(guards) != 5 {
		t.Fatalf("got tree %v, want a guard and four", guards)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	within(t, gone, "the tree of a killed parent is gone", noneAlive(append(pids, guards...)))
}

func TestStart_guardKilled(t *testing.T) {
	p, log := under(t, "tree")
	pids := pidsIn(t, lines(t, log, 4))
	if err := syscall.Kill(p.GuardPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-time.After(gone):
		t.Fatal("the death of the guard went unnoticed")
	}
	within(t, gone, "the tree of a killed guard is gone", noneAlive(pids))
	if e := p.Exit(); !e.Unguarded || e.Signal != syscall.SIGKILL || e.Code != -1 {
		t.Errorf("got %+v", e)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestStart_bothKilled: the kernel ends the command whose guard and parent are
// killed in the same instant. What it had started is found by the mark of its
// guard in its environment.
func TestStart_bothKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("PR_SET_PDEATHSIG is Linux's")
	}
	cmd, pids := startParent(t)
	guard := slices.DeleteFunc(procfs.Descendants(cmd.Process.Pid), func(pid int) bool { return slices.Contains(pids, pid) })
	if len(guard) != 1 {
		t.Fatalf("guards %v beside %v", guard, pids)
	}
	command := procfs.Descendants(guard[0])[0]
	id, ok := procfs.ReadEnviron(command).Lookup(GuardedVar)
	if !ok {
		t.Fatal("the command has no mark")
	}
	// The guard cannot act on the end of its parent while it is stopped.
	for _, kill := range []struct {
		pid int
		sig syscall.Signal
	}{{guard[0], syscall.SIGSTOP}, {cmd.Process.Pid, syscall.SIGKILL}, {guard[0], syscall.SIGKILL}} {
		if err := syscall.Kill(kill.pid, kill.sig); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait() // killed
	within(t, gone, "the command is gone", noneAlive([]int{command}))
	for _, p := range procfs.With(map[string]string{GuardedVar: id}) {
		if !slices.Contains(pids, p.PID) {
			t.Errorf("process %d has the mark", p.PID)
		}
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
	within(t, gone, "what had the mark is gone", noneAlive(pids))
}

func TestExit(t *testing.T) {
	for _, c := range []struct {
		script string
		want   Exit
	}{
		{"exit 0", Exit{}},
		{"exit 7", Exit{Code: 7}},
		{"exit 137", Exit{Code: 137}},
		{"kill -KILL $$", Exit{Code: -1, Signal: syscall.SIGKILL}},
		{"kill -SEGV $$", Exit{Code: -1, Signal: syscall.SIGSEGV}},
		{"kill -TERM $$", Exit{Code: -1, Signal: syscall.SIGTERM}},
	} {
		p, _ := under(t, "", func(s *Spec) { s.Argv = []string{"sh", "-c", c.script} })
		select {
		case <-p.Done():
		case <-time.After(time.Minute):
			t.Fatalf("%s: did not end", c.script)
		}
		if got := p.Exit(); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.script, got, c.want)
		}
	}
}

func TestDone_leavesNobodyBehind(t *testing.T) {
	p, log := under(t, "brood", func(s *Spec) { s.Grace = forever })
	<-p.Done()
	if e := p.Exit(); e.Code != 3 {
		t.Errorf("got %+v", e)
	}
	pids := pidsIn(t, lines(t, log, 1))
	within(t, gone, "what a command left behind is gone without Stop", noneAlive(pids))
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if pids := p.PIDs(); pids != nil {
		t.Errorf("got %v after the end", pids)
	}
}

func TestStart_errors(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		spec Spec
		want error
		text string
	}{
		{"not in PATH", Spec{Env: ourPath(), Argv: []string{"no-such-command"}}, exec.ErrNotFound, `no-such-command`},
		{"no such file", Spec{Argv: []string{"/no/such/file"}}, fs.ErrNotExist, "/no/such/file"},
		{"not executable", Spec{Argv: []string{plain}}, fs.ErrPermission, "plain"},
		{"no such folder", Spec{Env: ourPath(), Argv: []string{"true"}, Dir: "/no/such"}, fs.ErrNotExist, "chdir"},
		{"no such CPU", Spec{Env: ourPath(), Argv: []string{"true"}, CPUs: []int{0, 1000}}, syscall.EINVAL, "CPU"},
		{"negative CPU", Spec{Env: ourPath(), Argv: []string{"true"}, CPUs: []int{-1}}, syscall.EINVAL, "-1"},
		{"no folder for the log", Spec{Env: ourPath(), Argv: []string{"true"}, LogPath: "/no/such/log"}, fs.ErrNotExist, "log"},
		{"nothing", Spec{}, nil, "no command"},
	} {
		p, err := Start(t.Context(), nil, c.spec)
		if err == nil {
			_ = p.Stop(t.Context())
			t.Errorf("%s: no error", c.name)
			continue
		}
		if c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v is not %v", c.name, err, c.want)
		}
		if !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v does not say %q", c.name, err, c.text)
		}
	}
	if left := procfs.Descendants(os.Getpid()); len(left) != 0 {
		t.Errorf("failed starts left %v", left)
	}
}

func TestStart_cancelled(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := Start(ctx, nil, Spec{Env: ourPath(), Argv: []string{"sleep", "60"}}); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	// In the middle: some of these are cancelled before the guard answers.
	for i := range 20 {
		ctx, cancel := context.WithCancelCause(t.Context())
		timer := time.AfterFunc(time.Duration(i)*time.Millisecond, func() { cancel(cause) })
		p, err := Start(ctx, nil, Spec{Env: ourPath(), Argv: []string{"sleep", "60"}, Marks: map[string]string{"GUARD_TEST_MARK": "cancelled"}})
		timer.Stop()
		switch {
		case err == nil:
			if err := p.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		case !errors.Is(err, cause):
			t.Errorf("got %v", err)
		}
		cancel(nil)
	}
	if left := procfs.With(map[string]string{"GUARD_TEST_MARK": "cancelled"}); len(left) != 0 {
		t.Errorf("cancelled starts left %v", left)
	}
}

func TestStart_faults(t *testing.T) {
	for _, point := range []effect.Point{effect.SpawnGuard, effect.SpawnServer} {
		for _, phase := range []effect.Phase{effect.Before, effect.After} {
			fx, err := effect.New(fmt.Sprintf("%s:%s:err=EIO", point, phase))
			if err != nil {
				t.Fatal(err)
			}
			mark := map[string]string{"GUARD_TEST_MARK": string(point) + string(phase)}
			if _, err := Start(t.Context(), fx, Spec{Env: ourPath(), Argv: []string{"sleep", "60"}, Marks: mark}); !errors.Is(err, syscall.EIO) {
				t.Errorf("%s %s: got %v", point, phase, err)
			}
			if left := procfs.With(mark); len(left) != 0 {
				t.Errorf("%s %s: left %v", point, phase, left)
			}
		}
	}
}

func TestStop_politeThenFinal(t *testing.T) {
	p, log := under(t, "sleep")
	lines(t, log, 1)
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := p.Exit(); e.Signal != syscall.SIGTERM {
		t.Errorf("a listening command: got %+v", e)
	}

	p, log = under(t, "stubborn", func(s *Spec) { s.Grace = 200 * time.Millisecond })
	lines(t, log, 1)
	began := time.Now()
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := p.Exit(); e.Signal != syscall.SIGKILL || e.Unguarded {
		t.Errorf("a stubborn command: got %+v", e)
	}
	if d := time.Since(began); d < 200*time.Millisecond {
		t.Errorf("killed after %v, before its grace was over", d)
	}
}

// A process that is stopped ends as any other: it need not wait for its grace.
func TestStop_stoppedProcess(t *testing.T) {
	p, log := under(t, "sleep", func(s *Spec) { s.Grace = forever })
	lines(t, log, 1)
	if err := syscall.Kill(p.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if e := p.Exit(); e.Signal != syscall.SIGTERM {
		t.Errorf("got %+v", e)
	}
}

func TestStop_contextCutsGrace(t *testing.T) {
	p, log := under(t, "stubborn", func(s *Spec) { s.Grace = forever })
	lines(t, log, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if e := p.Exit(); e.Signal != syscall.SIGKILL {
		t.Errorf("got %+v", e)
	}
}

func TestStop_wholeTree(t *testing.T) {
	p, log := under(t, "tree", func(s *Spec) { s.Grace = 300 * time.Millisecond })
	pids := pidsIn(t, lines(t, log, 4))
	got := p.PIDs()
	if len(got) != 4 || got[0] != p.PID() {
		t.Errorf("got tree %v, want %d first", got, p.PID())
	}
	slices.Sort(pids)
	slices.Sort(got)
	if !slices.Equal(pids, got) {
		t.Errorf("got tree %v, want %v", got, pids)
	}
	var all sync.WaitGroup
	for range 8 { // concurrently, and each of them may rely on it
		all.Go(func() {
			if err := p.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if !noneAlive(pids)() {
				t.Error("Stop returned before the tree was gone")
			}
		})
	}
	all.Wait()
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

func TestGuard_signals(t *testing.T) {
	p, log := under(t, "sleep")
	lines(t, log, 1)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if err := syscall.Kill(p.GuardPID(), sig); err != nil {
			t.Fatal(err)
		}
	}
	polltest.Until(t, "the guard has the signals", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.GuardPID()))
		return err != nil || bytes.Contains(b, []byte("ShdPnd:\t0000000000000000\n"))
	})
	if !alive(p.GuardPID()) || !alive(p.PID()) {
		t.Error("the guard obeyed a signal that was not for it")
	}
	if err := syscall.Kill(p.GuardPID(), EndSignal); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-time.After(gone):
		t.Fatal("the guard did not obey the signal that is for it")
	}
	if e := p.Exit(); e.Signal != syscall.SIGTERM {
		t.Errorf("the command ended with %+v: it was passed a signal that was not for it", e)
	}
}

func TestCommand_sees(t *testing.T) {
	t.Setenv("GUARD_TEST_OURS", "ours")
	leak, err := os.Open(os.DevNull) // open to our children, as a careless library leaves it
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	if _, err := unix.FcntlInt(leak.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p, log := under(t, "show", func(s *Spec) {
		s.Dir = dir
		s.CPUs = []int{0}
		s.Env["GUARD_TEST_SECRET"] = "canary\xff"
		s.Marks = map[string]string{"GUARD_TEST_MARK": "mark"}
	})
	got := lines(t, log, 10)
	for _, want := range []string{
		"dir " + dir + "\n",
		`env GUARD_TEST_SECRET "canary\xff" true`,
		`env GUARD_TEST_MARK "mark" true`,
		`env GUARD_TEST_OURS "" false`,
		`env SWEEP_GUARD "" false`,
		"true\non stderr\nSigIgn:", // in the order of writing
		"Cpus_allowed_list:\t0\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the command does not see %q", want)
		}
	}
	if !regexp.MustCompile(`(?m)^env SWEEP_GUARDED_BY "\w{26}" true$`).MatchString(got) {
		t.Error("the command has no mark of its guard")
	}
	if !regexp.MustCompile(`(?m)^SigIgn:\s+0+$`).MatchString(got) {
		t.Error("the command ignores signals that it did not ask to ignore")
	}
	if strings.Contains(got, "\nopen ") {
		t.Error("the command has files open that it did not open")
	}
	if t.Failed() {
		t.Log(got)
	}
	for _, file := range []string{"environ", "cmdline"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.GuardPID(), file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "canary") {
			t.Errorf("the guard shows a secret in its %s", file)
		}
	}
	if v, _ := procfs.ReadEnviron(p.GuardPID()).Lookup("GUARD_TEST_MARK"); v != "mark" {
		t.Errorf("the guard's mark is %q", v)
	}
}

func TestStart_manyLeaveNoZombie(t *testing.T) {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 13 {
				p, err := Start(t.Context(), nil, Spec{Env: ourPath(), Argv: []string{"true"}})
				if err != nil {
					t.Error(err)
					return
				}
				if err := p.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, q := range procfs.All() {
		if q.Parent == os.Getpid() {
			t.Errorf("left: %+v", q)
		}
	}
}

func TestMain_returnsAtOnce(t *testing.T) {
	// Neither the name nor the variable alone makes a guard.
	t.Setenv(GuardVar, "x")
	Main()
}
