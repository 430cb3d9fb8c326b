package runpod

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/bootstrap"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
)

// several returns a spec of a frontend and two workers, of which each says which it is.
func several(t *testing.T) backends.Spec {
	t.Helper()
	s := spec(t)
	s.Digest, s.GPUs = "digest", 3
	dir, base := t.TempDir(), s.Roles[0]
	s.Roles = nil
	for _, name := range []string{"worker", "server"} {
		role := base
		role.Name, role.Replicas, role.GPUs = name, 1, 1
		role.LogPath = func(n int) string { return filepath.Join(dir, fmt.Sprintf("%s-%d.log", name, n)) }
		role.Argv = func(a backends.Address) ([]string, error) {
			inner, err := base.Argv(a)
			return append([]string{"/bin/sh", "-c", `echo "GPUs $CUDA_VISIBLE_DEVICES"; exec "$@"`, fmt.Sprintf("%s-%d", name, a.Replica)}, inner...), err
		}
		s.Roles = append(s.Roles, role)
	}
	s.Roles[0].Replicas, s.Entry = 2, "server"
	return s
}

// A pod of several servers is taken over with all of them, and says which of them
// has ended.
func TestAdopt_several(t *testing.T) {
	t.Parallel()
	e := emulator(t)
	s := several(t)
	var l backendtest.Ledger
	d, err := backend(t, e).Launch(t.Context(), s, &l)
	if err != nil {
		t.Fatal(err)
	}
	reaches(t, d)
	if err := d.(backends.Keeper).Keep(t.Context(), time.Now().Add(time.Minute)); err != nil {
		t.Fatalf("Keep: %v", err)
	}
	again, err := backend(t, e).Adopt(t.Context(), s, d.(backends.Rental).Terms().Ref)
	if err != nil {
		t.Fatalf("Adopt: %v", err)
	}
	t.Cleanup(func() {
		stop(t, again)
		clean(t, e, &l)
	})
	reaches(t, again)
	if got, want := again.Host("worker", 1).URL(), d.Host("worker", 1).URL(); got != want || got == again.Host("worker", 0).URL() {
		t.Errorf("the second worker is at %s, was at %s", got, want)
	}
	polltest.Until(t, "the second worker's GPUs in its log", func() bool { // of which the new copy may not be there yet
		worker, err := os.ReadFile(s.Roles[0].LogPath(1))
		return err == nil && strings.HasPrefix(string(worker), "GPUs 1\n")
	})

	_, address, _ := strings.Cut(again.Host("worker", 1).URL(), "://")
	for _, p := range procfs.With(map[string]string{backends.MarkRun: s.RunID}) {
		argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if err == nil && bytes.Contains(argv, []byte("\x00backendtest-server\x00"+address+"\x00")) {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	select {
	case <-again.Done():
	case <-time.After(time.Minute):
		t.Fatal("nobody noticed")
	}
	if exit, ok := errors.AsType[*backends.Exit](again.Err()); !ok || exit.Role != "worker" || exit.Replica != 1 || exit.Signal != "killed" {
		t.Errorf("it ended with %v", again.Err())
	}
}

// An image that cannot start several servers says so.
func TestLine_noPython(t *testing.T) {
	t.Parallel()
	r := &remote{unit: &provision.Unit{Replicas: make([]*provision.Replica, 2)}}
	const said = "sweep-bootstrap: no python3: no agent and no heartbeat, the lifetime alone ends this pod"
	err := r.line(0, said)
	if f, ok := errors.AsType[*backends.Failure](err); !ok || f.Class != "image" {
		t.Errorf("got %v", err)
	}
	argv, _ := bootstrap.Command(bootstrap.Options{Argv: []string{"x"}})
	if !strings.Contains(argv[2], strings.TrimPrefix(said, "sweep-bootstrap: ")) {
		t.Error("the script has other words for it")
	}
	r.unit.Replicas = r.unit.Replicas[:1]
	if err := r.line(0, said); err != nil {
		t.Errorf("one server alone: %v", err)
	}
}
