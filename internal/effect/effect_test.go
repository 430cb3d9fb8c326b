package effect_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
)

// TestMain lets this test binary play the program that a fault ends.
func TestMain(m *testing.M) {
	if spec, ok := os.LookupEnv("EFFECT_TEST_CHILD"); ok {
		child(spec, os.Args[1])
		os.Exit(0)
	}
	if path, ok := os.LookupEnv("EFFECT_TEST_RUN"); ok {
		var fx *effect.Effects
		fmt.Println(fx.Run(context.Background(), effect.SpawnTool, effect.KillTool, []string{"/bin/sh", "-c", script}, strings.NewReader(path), io.Discard))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// script writes its pid to the file that stdin names, and stays.
const script = `read -r path; echo $$ >"$path.new"; mv "$path.new" "$path"; sleep 1000; :`

func child(spec, path string) {
	fx, err := effect.New(spec)
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	err = fx.WriteFileAtomic(effect.DeriveCreate, path, func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return err
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
}

func mustNew(t *testing.T, spec string, o ...effect.Option) *effect.Effects {
	t.Helper()
	fx, err := effect.New(spec, o...)
	if err != nil {
		t.Fatal(err)
	}
	return fx
}

func TestNew_rejects(t *testing.T) {
	for _, tc := range []struct{ spec, want string }{
		{"kill", "want POINT"},
		{"journal.sync:kill:before", "want before or after"},
		{"journal.sink:kill", `no point has the name "journal.sink"`},
		{"journal.sync:kill@0", "want a count"},
		{"journal.sync:kill@x", "want a count"},
		{"journal.sync:err=ENOENT", "no error has the name"},
		{"journal.sync:err", "no error has the name"},
		{"journal.sync:delay=-1s", "want a positive duration"},
		{"journal.sync:explode", "want kill, stop"},
		{"journal.sync:kill=9", "want kill, stop"},
		{"journal.sync:kill,,", "want POINT"},
		{"a:b:c:d", "want POINT"},
	} {
		if _, err := effect.New(tc.spec); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("New(%q) = %v, want an error with %q", tc.spec, err, tc.want)
		}
	}
}

func TestDo_phaseAndCount(t *testing.T) {
	for _, tc := range []struct {
		spec string
		want string // one letter an operation: . done, b failed and not done, a done and failed
	}{
		{"", "....."},
		{"event.journal:err=EIO", "b...."},
		{"event.journal:after:err=EIO", "a...."},
		{"event.journal:err=EIO@3", "..b.."},
		{"event.journal:err=EIO@3+", "..bbb"},
		{"event.journal:before:err=EIO@1,event.journal:after:err=ENOSPC@4", "b...a"},
		{"op:err=EIO@2", ".b..."},
		{"op:after:err=EIO@4+", "...aa"},
		{"begin.journal:err=EIO", "....."},
	} {
		fx := mustNew(t, tc.spec)
		var got strings.Builder
		for range 5 {
			done := false
			err := fx.Do(effect.EventJournal, func() error { done = true; return nil })
			var fault *effect.Fault
			switch {
			case err == nil && done:
				got.WriteByte('.')
			case errors.As(err, &fault) && done && fault.Phase == effect.After:
				got.WriteByte('a')
			case errors.As(err, &fault) && !done && fault.Phase == effect.Before:
				got.WriteByte('b')
			default:
				got.WriteByte('?')
			}
		}
		if got.String() != tc.want {
			t.Errorf("%q: got %s, want %s", tc.spec, &got, tc.want)
		}
	}
}

// An After fault does not hide the error of the operation itself.
func TestDo_ownErrorFirst(t *testing.T) {
	fx := mustNew(t, "event.journal:after:err=EIO")
	own := errors.New("own")
	if err := fx.Do(effect.EventJournal, func() error { return own }); !errors.Is(err, own) {
		t.Errorf("got %v, want %v", err, own)
	}
}

// A new file is its owner's alone, and one that is there is not opened, wherever
// its name leads.
func TestCreateNew(t *testing.T) {
	dir := t.TempDir()
	fx, err := effect.New("")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "new")
	f, err := fx.CreateNew(effect.LogCreate, path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "nothing"), link); err != nil {
		t.Fatal(err)
	}
	for _, taken := range []string{path, link, dir} {
		if _, err := fx.CreateNew(effect.LogCreate, taken); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", taken, err)
		}
	}
}

func TestNil(t *testing.T) {
	var fx *effect.Effects
	dir := t.TempDir()
	if err := fx.MkdirAll(effect.RunMkdir, filepath.Join(dir, "a/b")); err != nil {
		t.Fatal(err)
	}
	f, err := fx.Create(effect.AttemptCreate, filepath.Join(dir, "a/b/f"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(4), f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	f, err = fx.OpenAppend(effect.AttemptCreate, filepath.Join(dir, "a/b/f"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("!")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := fx.Rename(effect.AttemptRename, filepath.Join(dir, "a/b"), filepath.Join(dir, "c")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "c/f")); err != nil || string(got) != "hell!" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := fx.RemoveAll(effect.AttemptRemove, filepath.Join(dir, "c")); err != nil {
		t.Fatal(err)
	}
	if err := fx.Remove(effect.AttemptRemove, filepath.Join(dir, "c")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want not exist", err)
	}
	if fx.Ops() != 0 {
		t.Errorf("a nil Effects counted %d operations", fx.Ops())
	}
}

// A full disk takes a part of a write: a caller that believes otherwise must fail its tests.
func TestWrite_fullDiskIsShort(t *testing.T) {
	for name, errno := range map[string]syscall.Errno{"ENOSPC": syscall.ENOSPC, "EDQUOT": syscall.EDQUOT} {
		path := filepath.Join(t.TempDir(), "f")
		f, err := mustNew(t, "attempt.write:err="+name+"@2").Create(effect.AttemptCreate, path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write([]byte("12345678")); err != nil {
			t.Fatal(err)
		}
		n, err := f.Write([]byte("abcdefgh"))
		if n != 4 || !errors.Is(err, errno) {
			t.Errorf("got %d, %v; want 4 and %s", n, err, name)
		}
		if got, _ := os.ReadFile(path); string(got) != "12345678abcd" {
			t.Errorf("file holds %q", got)
		}
	}
}

func TestRoot_cannotLeave(t *testing.T) {
	outside, inside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(inside, "link")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(inside)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	r := mustNew(t, "").In(root)
	for name, err := range map[string]error{
		"create":  second(r.Create(effect.AttemptCreate, "link/f")),
		"append":  second(r.OpenAppend(effect.AttemptCreate, "../f")),
		"mkdir":   r.MkdirAll(effect.AttemptMkdir, "link/d/e"),
		"atomic":  r.WriteFileAtomic(effect.DeriveCreate, "link/f", func(io.Writer) error { return nil }),
		"rename":  r.Rename(effect.AttemptRename, "link", "../x"),
		"remove":  r.RemoveAll(effect.AttemptRemove, "link/f"),
		"dirsync": r.SyncDir(effect.AttemptDirsync, "link"),
	} {
		if err == nil {
			t.Errorf("%s left the directory", name)
		}
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 0 {
		t.Errorf("outside now holds %v", entries)
	}
}

func second(_ *effect.File, err error) error { return err }

// kill -9 at any point of an atomic write leaves the old file or the new one.
func TestWriteFileAtomic_killedAnywhere(t *testing.T) {
	died := 0
	for n := 1; ; n++ {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		killed, out := runChild(t, fmt.Sprintf("op:kill@%d", n), path)
		got, err := os.ReadFile(path)
		if err != nil || (string(got) != "old" && string(got) != "new") {
			t.Errorf("killed at %d: %q, %v", n, got, err)
		}
		if !killed {
			if string(got) != "new" || out != "" {
				t.Errorf("no fault: %q, output %q", got, out)
			}
			break
		}
		died++
	}
	if died != 6 { // create, write, sync, close, rename, dirsync
		t.Errorf("died at %d operations, want 6", died)
	}
}

func runChild(t *testing.T, spec, path string) (killed bool, out string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], path)
	cmd.Env = append(os.Environ(), "EFFECT_TEST_CHILD="+spec)
	b, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		killed = exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	}
	return killed, string(b)
}

// A command ends with the process that runs it, also by kill -9.
func TestRun_killed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pid")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "EFFECT_TEST_RUN="+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	pid := 0
	polltest.Until(t, "the command runs", func() bool {
		text, err := os.ReadFile(path)
		if err == nil {
			_, err = fmt.Sscan(string(text), &pid)
		}
		return err == nil
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the command ends", func() bool {
		p, ok := procfs.Stat(pid)
		return !ok || !p.Alive()
	})
}

// A command that has ended leaves what it has started, and how it ended is told.
func TestRun(t *testing.T) {
	var fx *effect.Effects
	run := func(script, stdin string) (string, error) {
		var out strings.Builder
		err := fx.Run(t.Context(), effect.SpawnTool, effect.KillTool, []string{"/bin/sh", "-c", script}, strings.NewReader(stdin), &out)
		return out.String(), err
	}
	out, err := run(`cat; sleep 1000 >/dev/null 2>&1 & echo $!`, "said\n")
	pid := 0
	if _, scan := fmt.Sscanf(out, "said\n%d", &pid); scan != nil || err != nil {
		t.Fatalf("got %q, %v", out, err)
	}
	if err := fx.Kill(effect.KillTool, pid, syscall.SIGKILL); err != nil {
		t.Errorf("what was to go on: %v", err)
	}
	if _, err := run(`echo why >&2; exit 3`, ""); err == nil || err.Error() != "exit status 3: why" {
		t.Errorf("got %v", err)
	}
	if _, err := run(`kill -9 $$`, ""); err == nil || err.Error() != "signal: killed" {
		t.Errorf("got %v", err)
	}
	err = fx.Run(t.Context(), effect.SpawnTool, effect.KillTool, []string{"/no/such/command"}, nil, io.Discard)
	if !errors.Is(err, effect.ErrNotStarted) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	for rule, ran := range map[string]bool{"spawn.tool:before:err=EIO": false, "spawn.tool:after:err=EIO": true} {
		var out strings.Builder
		err := mustNew(t, rule).Run(t.Context(), effect.SpawnTool, effect.KillTool, []string{"echo", "here"}, nil, &out)
		if !errors.Is(err, syscall.EIO) || errors.Is(err, effect.ErrNotStarted) == ran || (out.String() == "here\n") != ran {
			t.Errorf("%s: got %q, %v", rule, &out, err)
		}
	}
}

func TestActions_inAChild(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if killed, out := runChild(t, "derive.rename:after:panic", path); killed || !strings.Contains(out, "fault after derive.rename") {
		t.Errorf("panic: killed %v, output %q", killed, out)
	}

	cmd := exec.Command(os.Args[0], path)
	cmd.Env = append(os.Environ(), "EFFECT_TEST_CHILD=derive.sync:stop")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Errorf("stop: status %v, %v", status, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func TestCall_delayEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	cancel(over)
	err := mustNew(t, "spawn.tool:delay=1h").Call(ctx, effect.SpawnTool, func(ctx context.Context) error {
		return context.Cause(ctx)
	})
	if !errors.Is(err, over) {
		t.Errorf("got %v, want %v", err, over)
	}
}

func TestStartAndKill(t *testing.T) {
	fx := mustNew(t, "kill.tool:delay=1ms")
	cmd := exec.Command("sleep", "60")
	if err := fx.Start(effect.SpawnTool, cmd); err != nil {
		t.Fatal(err)
	}
	if err := fx.Kill(effect.KillTool, cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if err := fx.Kill(effect.KillTool, cmd.Process.Pid, syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("got %v, want %v", err, os.ErrProcessDone)
	}
	for _, pid := range []int{-1, 0, 1} {
		if err := fx.Kill(effect.KillTool, pid, 0); err == nil {
			t.Errorf("kill %d was not refused", pid)
		}
	}
}

func TestPoints_unique(t *testing.T) {
	points := effect.Points()
	sorted := slices.Compact(slices.Sorted(slices.Values(points)))
	if len(sorted) != len(points) {
		t.Errorf("%d points, %d names", len(points), len(sorted))
	}
	for _, p := range points {
		if _, err := effect.New(string(p) + ":delay=1ns"); err != nil {
			t.Error(err)
		}
	}
}

// Every constant of point.go stands in the list: one that does not could not be struck.
func TestPoints_complete(t *testing.T) {
	src, err := os.ReadFile("point.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	for line := range bytes.Lines(src) {
		_, name, ok := bytes.Cut(line, []byte(` Point = "`))
		if !ok {
			continue
		}
		declared++
		name, _, _ = bytes.Cut(name, []byte(`"`))
		if !slices.Contains(effect.Points(), effect.Point(name)) {
			t.Errorf("%s is declared and not listed", name)
		}
	}
	if declared != len(effect.Points()) {
		t.Errorf("%d declared, %d listed", declared, len(effect.Points()))
	}
}

func TestDelay(t *testing.T) {
	start := time.Now()
	_ = mustNew(t, "op:delay=30ms").Do(effect.EventJournal, func() error { return nil })
	if took := time.Since(start); took < 30*time.Millisecond {
		t.Errorf("took %v", took)
	}
}
