package rundir_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/rundir"
)

// playRacer opens the directory when it is told to, says how that went, and
// stays until its input ends.
func playRacer(dir string) error {
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	_, _, err := rundir.Open(nil, dir)
	var locked *rundir.LockedError
	switch {
	case err == nil:
		fmt.Println("won")
	case errors.As(err, &locked) && errors.Is(err, rundir.ErrLocked):
		fmt.Println("lost to", locked.Holder.PID, locked.Holder.Host, locked.Holder.Started.Unix())
	default:
		return err
	}
	_, _ = io.Copy(io.Discard, in)
	return nil
}

// Who asks for the holder of a lock is no holder to others that ask at the same time.
func TestLockHolder_asked(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	if err := (scenario{nil, dir, ignore}).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := must[*os.File](t)(os.Open(filepath.Join(dir, layout.Lock)))
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	if h, err := rundir.LockHolder(dir); h != nil || err != nil {
		t.Errorf("holder %v, %v", h, err)
	}
}

// Of 20 processes that start at once exactly one gets the directory, the others
// can say who; kill -9 of the one frees it.
func TestLock_race(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := (scenario{nil, dir, ignore}).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	type racer struct {
		pid  int
		in   io.WriteCloser
		out  *bufio.Reader
		kill func() error
		wait func() error
	}
	racers := make([]racer, 20)
	for i := range racers {
		cmd := child("racer", "", dir)
		in := must[io.WriteCloser](t)(cmd.StdinPipe())
		out := must[io.ReadCloser](t)(cmd.StdoutPipe())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		racers[i] = racer{cmd.Process.Pid, in, bufio.NewReader(out), cmd.Process.Kill, cmd.Wait}
	}
	for _, r := range racers {
		if line, err := r.out.ReadString('\n'); line != "ready\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
	for _, r := range racers {
		if _, err := io.WriteString(r.in, "go\n"); err != nil {
			t.Fatal(err)
		}
	}
	answers := make([]string, len(racers))
	winner := -1
	for i, r := range racers {
		answers[i] = must[string](t)(r.out.ReadString('\n'))
		if answers[i] == "won\n" {
			if winner >= 0 {
				t.Errorf("%d and %d have won", i, winner)
			}
			winner = i
		}
	}
	if winner < 0 {
		t.Fatal("nobody has won")
	}
	host := must[string](t)(os.Hostname())
	for i, answer := range answers {
		want := fmt.Sprintf("lost to %d %s ", racers[winner].pid, host)
		if i != winner && !strings.HasPrefix(answer, want) {
			t.Errorf("racer %d says %q, want %q", i, answer, want)
		}
	}

	_, _, err := rundir.Open(nil, dir)
	if !errors.Is(err, rundir.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d on %s since", racers[winner].pid, host)) {
		t.Errorf("while it is held: %v", err)
	}
	if _, err := rundir.Read(dir); err != nil {
		t.Errorf("read while it is held: %v", err)
	}
	_ = racers[winner].kill()
	_ = racers[winner].wait()
	d, _, err := rundir.Open(nil, dir)
	if err != nil {
		t.Fatalf("after kill -9 of the holder: %v", err)
	}
	if h, err := rundir.LockHolder(dir); err != nil || h == nil || h.PID != os.Getpid() {
		t.Errorf("holder %v, %v", h, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	for i, r := range racers {
		if i == winner {
			continue
		}
		_ = r.in.Close()
		if err := r.wait(); err != nil {
			t.Error(err)
		}
	}
}
