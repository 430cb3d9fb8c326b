package ssh_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/ssh"
	"sweep.dev/sweep/backends/ssh/sshtest"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/internal/slow"
)

// A connection that is cut is made again: the pod lives, the log goes on where
// it was, and a request waits.
func TestConnection_cut(t *testing.T) {
	t.Parallel()
	s := server(t)
	wire := sshtest.Between(t, s)
	b := configure(t, s, func(c *ssh.Config) { through(t, s, wire, c) })
	sp := spec(t)
	sp.Roles[0].Argv = func(a backends.Address) ([]string, error) {
		self, err := os.Executable()
		return []string{
			"/bin/sh", "-c", `"$@" & i=0; while sleep 0.1; do i=$((i + 1)); echo "line $i"; done`, "engine",
			self, "backendtest-server", a.String(),
		}, err
	}
	d, _ := launch(t, b, sp)
	ready(t, d)
	for range 3 {
		before := len(logOf(t, d))
		polltest.Until(t, "the log goes on", func() bool { return len(logOf(t, d)) > before })
		flying, err := d.Host("server", 0).Dial(t.Context(), "tcp", strings.TrimPrefix(d.Host("server", 0).URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := flying.Read(make([]byte, 1))
			ended <- err
		}()
		wire.Down(true)
		select {
		case err := <-ended:
			if err == nil {
				t.Error("a connection read something out of nothing")
			}
		case <-time.After(patience):
			t.Fatal("a connection of a lost tunnel hangs")
		}
		flying.Close()
		back := time.AfterFunc(300*time.Millisecond, func() { wire.Down(false) })
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if _, err := get(ctx, d.Host("server", 0), ""); err != nil {
			t.Errorf("a request while the connection is lost: %v", err)
		}
		cancel()
		back.Stop()
	}
	if err := d.Err(); err != nil {
		t.Fatalf("the deployment ended: %v", err)
	}
	n := 0
	for line := range strings.Lines(logOf(t, d)) {
		if rest, ok := strings.CutPrefix(line, "line "); ok && strings.HasSuffix(rest, "\n") {
			n++
			if rest != strconv.Itoa(n)+"\n" {
				t.Fatalf("line %d of the log is %q", n, line)
			}
		}
	}
	if n == 0 {
		t.Error("the log is empty")
	}
	stop(t, d)
}

// through leads a backend over a wire, with patience for a test.
func through(t *testing.T, s *sshtest.Server, wire *sshtest.Proxy, c *ssh.Config) {
	t.Helper()
	known, err := os.ReadFile(s.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	_, key, _ := strings.Cut(string(known), " ")
	c.KnownHosts = filepath.Join(t.TempDir(), "known_hosts")
	line := fmt.Sprintf("[127.0.0.1]:%d %s", wire.Port, key)
	if err := os.WriteFile(c.KnownHosts, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Port = wire.Port
}

// A connection that stays lost ends the deployment, not the pod; when the host
// is back, Stop ends that.
func TestConnection_lostForGood(t *testing.T) {
	t.Parallel()
	s := server(t)
	wire := sshtest.Between(t, s)
	b := configure(t, s, func(c *ssh.Config) {
		through(t, s, wire, c)
		c.Reconnect = 500 * time.Millisecond
	})
	d, ref := launch(t, b, spec(t))
	ready(t, d)
	wire.Down(true)
	select {
	case <-d.Done():
	case <-time.After(patience):
		t.Fatal("nobody noticed")
	}
	var exit *backends.Exit
	if err := d.Err(); err == nil || errors.As(err, &exit) || !strings.Contains(err.Error(), "connection is lost") {
		t.Errorf("Err: %v", err)
	}
	if _, err := d.Host("server", 0).Dial(t.Context(), "tcp", "127.0.0.1:1"); err == nil {
		t.Error("a dial into nowhere")
	}
	if len(pod(ref.Name)) == 0 {
		t.Error("the pod ended with the connection")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := d.Stop(ctx); err == nil {
		t.Error("Stop of what cannot be reached: no error")
	}
	wire.Down(false)
	stop(t, d)
	if left := pod(ref.Name); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Where a start is cut off anywhere, the pod is there as a whole or not at all.
func TestLaunch_cutAnywhere(t *testing.T) {
	t.Parallel()
	s := server(t)
	wire := sshtest.Between(t, s)
	workdir := t.TempDir()
	b := configure(t, s, func(c *ssh.Config) {
		through(t, s, wire, c)
		c.Workdir = workdir
	})
	started, failed := 0, 0
	cuts := []int64{0, 3000, 25000, 36000, 60000}
	if slow.Tests {
		cuts = []int64{0, 900, 3000, 12000, 20000, 25000, 30000, 36000, 42000, 48000, 54000, 60000}
	}
	for _, after := range cuts {
		sp := spec(t)
		sp.RunID = "run-of-cuts-" + rand.Text()
		wire.CutAfter(after)
		var l backendtest.Ledger
		d, err := b.Launch(t.Context(), sp, &l)
		wire.CutAfter(-1)
		states := l.States()
		if err != nil {
			failed++
			if len(states) > 0 && states[len(states)-1] != backends.Gone {
				t.Errorf("cut after %d: the ledger has %v, and %v", after, states, err)
			}
		} else {
			started++
			ready(t, d)
			stop(t, d)
		}
		if left := procfs.With(map[string]string{"SWEEP_RUN_ID": sp.RunID}); len(left) != 0 {
			t.Errorf("cut after %d: left running %v", after, left)
		}
	}
	t.Logf("%d started, %d failed", started, failed)
	if started == 0 || failed == 0 {
		t.Error("the cuts were all on one side of the start")
	}
	// Only names that are used up are left.
	err := filepath.WalkDir(workdir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != "gone" {
			t.Errorf("left: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A deadline that passes ends a connection through the tunnel, and says so.
func TestDial_deadline(t *testing.T) {
	t.Parallel()
	d, _ := launch(t, configure(t, server(t)), spec(t))
	ready(t, d)
	h := d.Host("server", 0)
	conn, err := h.Dial(t.Context(), "tcp", strings.TrimPrefix(h.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("got %v", err)
	}
	if _, err := h.Dial(t.Context(), "tcp", "127.0.0.1:1"); err == nil {
		t.Error("a port that nobody listens on")
	}
	if err := d.Err(); err != nil {
		t.Errorf("the deployment ended: %v", err)
	}
}
