package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/local"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/guard"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
)

// parentVar makes this test binary a sweep that launches a pod, prints its ref
// and waits to be killed.
const parentVar = "LOCAL_TEST_PARENT"

func TestMain(m *testing.M) {
	guard.Main()
	if log := os.Getenv(parentVar); log != "" {
		parent(log)
	}
	backendtest.Main(m)
}

func machine() *local.Machine { return &local.Machine{Kind: "process"} }

func shell(script string) func(backends.Address) ([]string, error) {
	return func(backends.Address) ([]string, error) { return []string{"sh", "-c", script}, nil }
}

func parent(log string) {
	spec := backends.Spec{
		Owner: "owner-of-parent", RunID: "run-of-parent", Pod: "pod", Grace: time.Minute,
		Roles: []backends.Role{{
			Name: "server", Replicas: 1, LogPath: func(int) string { return log },
			// One listens, one does not and has forgotten its marks.
			Argv: shell(`trap "" TERM; env -i sh -c 'trap "" TERM; while :; do sleep 1; done' & echo up; while :; do sleep 1; done`),
		}},
	}
	if _, err := machine().Launch(context.Background(), spec, &backendtest.Ledger{}); err != nil {
		panic(err)
	}
	time.Sleep(time.Minute)
}

func launch(t *testing.T, m *local.Machine, spec backends.Spec) (backends.Deployment, backends.Ref) {
	t.Helper()
	var l backendtest.Ledger
	d, err := m.Launch(t.Context(), spec, &l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return d, *l.Transitions()[len(l.Transitions())-1].Ref
}

func TestExec(t *testing.T) {
	d, _ := launch(t, machine(), backendtest.Spec(t))
	h := d.Host("server", 0)
	if out, err := h.Exec(t.Context(), "sh", "-c", "echo out; echo err >&2"); err != nil || string(out) != "out\n" {
		t.Errorf("got %q, %v", out, err)
	}
	_, err := h.Exec(t.Context(), "sh", "-c", "echo why >&2; exit 3")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(err.Error(), "why") {
		t.Errorf("got %v", err)
	}
	if _, err := h.Exec(t.Context(), "no-such-command"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if _, err := h.Exec(t.Context()); err == nil {
		t.Error("nothing was run")
	}
	out, err := h.Exec(t.Context(), "sh", "-c", "while :; do echo 0123456789abcdef; done")
	if err == nil || !strings.Contains(err.Error(), "more than 4 MiB") || len(out) != 4<<20 {
		t.Errorf("endless output: got %d bytes, %v", len(out), err)
	}
}

func TestExec_context(t *testing.T) {
	d, _ := launch(t, machine(), backendtest.Spec(t))
	cause := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, cause)
	defer cancel()
	before := len(procfs.Descendants(os.Getpid()))
	// The grandchild holds stdout open.
	_, err := d.Host("server", 0).Exec(ctx, "sh", "-c", "sleep 60 & sleep 60")
	if !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	polltest.Until(t, "the command's child to end", func() bool { return len(procfs.Descendants(os.Getpid())) <= before })
}

func TestLogs_order(t *testing.T) {
	spec := backendtest.Spec(t)
	spec.Roles[0].Argv = shell("for i in 1 2 3; do echo o$i; echo e$i >&2; done; exit 7")
	d, _ := launch(t, machine(), spec)
	<-d.Done()
	var exit *backends.Exit
	if !errors.As(d.Err(), &exit) || exit.Code != 7 || exit.Signal != "" || exit.OOMKilled {
		t.Errorf("got %v", d.Err())
	}
	r, err := d.Host("server", 0).Logs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if text, _ := io.ReadAll(r); string(text) != "o1\ne1\no2\ne2\no3\ne3\n" {
		t.Errorf("got %q", text)
	}
	spec.Roles[0].LogPath = nil
	d, _ = launch(t, machine(), spec)
	if _, err := d.Host("server", 0).Logs(t.Context()); !errors.Is(err, host.ErrNotSupported) {
		t.Errorf("without a log: got %v", err)
	}
}

func TestLaunch_replicasAndRoles(t *testing.T) {
	spec := backendtest.Spec(t)
	other := spec.Roles[0]
	other.Name = "router"
	spec.Roles[0].Replicas = 2
	spec.Roles = append(spec.Roles, other)
	d, ref := launch(t, machine(), spec)
	seen := map[string]bool{}
	for _, h := range []host.Host{d.Host("server", 0), d.Host("server", 1), d.Host("router", 0)} {
		seen[h.URL()] = true
		if pids := h.(host.Processor).PIDs(); len(pids) != 1 {
			t.Errorf("got processes %v", pids)
		}
	}
	if len(seen) != 3 {
		t.Errorf("got %v", seen)
	}
	if ref.Name == "" || ref.Units[ref.Name+".server.1"] == "" || ref.Units[ref.Name+".router.0"] == "" {
		t.Errorf("got %+v", ref)
	}
	// The end of any is the end of the deployment; who it was is said.
	if err := syscall.Kill(d.Host("server", 1).(host.Processor).PIDs()[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-d.Done()
	var exit *backends.Exit
	if !errors.As(d.Err(), &exit) || exit.Role != "server" || exit.Replica != 1 || exit.Signal != "killed" {
		t.Errorf("got %+v", d.Err())
	}
}

// The second of two roles fails: the first is released. A command line that cannot
// be made is found before anything is owed.
func TestLaunch_halfway(t *testing.T) {
	for _, test := range []struct {
		argv func(backends.Address) ([]string, error)
		want string // in the ledger
	}{
		{func(backends.Address) ([]string, error) { return []string{"/no/such/server"}, nil }, "[intent create_sent created gone_verified]"},
		{func(backends.Address) ([]string, error) { return nil, errors.New("no port in the command") }, "[]"},
	} {
		spec := backendtest.Spec(t)
		spec.RunID = "run-halfway"
		bad := spec.Roles[0]
		bad.Name, bad.Argv = "bad", test.argv
		spec.Roles = append(spec.Roles, bad)
		var l backendtest.Ledger
		_, err := machine().Launch(t.Context(), spec, &l)
		if !errors.Is(err, backends.ErrSpec) || !strings.Contains(err.Error(), "bad 0: ") && !strings.Contains(err.Error(), "bad: ") {
			t.Errorf("got %v", err)
		}
		if left := procfs.With(map[string]string{backends.MarkRun: spec.RunID}); len(left) != 0 {
			t.Errorf("left %v", left)
		}
		if ops := fmt.Sprint(l.States()); ops != test.want {
			t.Errorf("the ledger has %s, want %s", ops, test.want)
		}
	}
}

func TestLaunch_refuses(t *testing.T) {
	for name, change := range map[string]func(*backends.Spec){
		"no role":    func(s *backends.Spec) { s.Roles = nil },
		"no command": func(s *backends.Spec) { s.Roles[0].Argv = nil },
		"no replica": func(s *backends.Spec) { s.Roles[0].Replicas = 0 },
		"no run":     func(s *backends.Spec) { s.RunID = "" },
		"no pod":     func(s *backends.Spec) { s.Pod = "" },
		"no CPU":     func(s *backends.Spec) { s.Roles[0].CPUs = []int{100000} },
		"no folder":  func(s *backends.Spec) { s.Roles[0].Dir = "/no/such/folder" },
	} {
		spec := backendtest.Spec(t)
		change(&spec)
		d, err := machine().Launch(t.Context(), spec, &backendtest.Ledger{})
		if err == nil {
			_ = d.Stop(t.Context())
		}
		if !errors.Is(err, backends.ErrSpec) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestLaunch_portInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	spec := backendtest.Spec(t)
	spec.Roles[0].Port = l.Addr().(*net.TCPAddr).Port
	d, err := machine().Launch(t.Context(), spec, &backendtest.Ledger{})
	if err == nil {
		_ = d.Stop(t.Context())
	}
	if err == nil || errors.Is(err, backends.ErrSpec) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v", err)
	}
}

// A port is taken from when it is chosen, not from when somebody listens, and
// free again after the stop.
func TestLaunch_portHeld(t *testing.T) {
	m := machine()
	spec := backendtest.Spec(t)
	spec.Roles[0].Argv = shell("sleep 60")
	first, _ := launch(t, m, spec)
	_, text, _ := strings.Cut(first.Host("server", 0).URL(), "127.0.0.1:")
	if _, err := fmt.Sscan(text, &spec.Roles[0].Port); err != nil {
		t.Fatal(err)
	}
	if d, err := m.Launch(t.Context(), spec, &backendtest.Ledger{}); err == nil {
		_ = d.Stop(t.Context())
		t.Fatal("two servers got the same port")
	}
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, _ := launch(t, m, spec)
	if err := first.Stop(t.Context()); err != nil { // gives nothing a second time
		t.Fatal(err)
	}
	if d, err := m.Launch(t.Context(), spec, &backendtest.Ledger{}); err == nil {
		_ = d.Stop(t.Context())
		t.Fatal("a second Stop gave the port of another server")
	}
	if second.Host("server", 0).URL() != first.Host("server", 0).URL() {
		t.Error("the port asked for is not the port got")
	}
}

// A crash of sweep between launch and stop: another one finds what is left by
// the ledger's ref. Here the first sweep is alive, so that its guard does not
// end the pod before.
func TestTerminate_ofAnotherProcess(t *testing.T) {
	log := t.TempDir() + "/log"
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentVar+"="+log)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	polltest.Until(t, "the pod of another process", func() bool {
		text, _ := os.ReadFile(log)
		return bytes.Contains(text, []byte("up"))
	})
	tree := procfs.Descendants(cmd.Process.Pid)
	m := machine()
	refs, err := m.List(t.Context(), "owner-of-parent")
	if err != nil || len(refs) != 1 || refs[0].RunID != "run-of-parent" || refs[0].Pod != "pod" {
		t.Fatalf("List: %v, %v", refs, err)
	}
	// They ignore SIGTERM, so the end of the context ends them.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := m.Terminate(ctx, refs[0].Ref); err != nil {
		t.Fatal(err)
	}
	for _, pid := range tree {
		if p, ok := procfs.Stat(pid); ok && p.Alive() {
			t.Errorf("left: %+v", p)
		}
	}
	if p, ok := procfs.Stat(cmd.Process.Pid); !ok || !p.Alive() {
		t.Error("the other process was ended with its pod")
	}
}

// A ref whose marks no process carries is of something that is gone; another backend's
// ref, and one that names nothing, is refused.
func TestTerminate_refs(t *testing.T) {
	ref := backends.Ref{Kind: "process", RunID: "r", Pod: "p", ID: "r/p"}
	if err := machine().Terminate(t.Context(), ref); err != nil {
		t.Error(err)
	}
	if err := machine().Terminate(t.Context(), backends.Ref{Kind: "process"}); !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("a ref of nothing: got %v", err)
	}
	ref.Kind = "sim"
	if err := machine().Terminate(t.Context(), ref); !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("another backend's: got %v", err)
	}
}

func TestLaunch_faults(t *testing.T) {
	for _, point := range []effect.Point{effect.LogCreate, effect.SpawnGuard, effect.SpawnServer} {
		for _, phase := range []effect.Phase{effect.Before, effect.After} {
			fx, err := effect.New(fmt.Sprintf("%s:%s:err=EIO", point, phase))
			if err != nil {
				t.Fatal(err)
			}
			spec := backendtest.Spec(t)
			spec.RunID = fmt.Sprintf("run-%s-%s", point, phase)
			var l backendtest.Ledger
			d, err := (&local.Machine{Kind: "process", Effects: fx}).Launch(t.Context(), spec, &l)
			if err == nil {
				_ = d.Stop(t.Context())
			}
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("%s %s: got %v", point, phase, err)
			}
			if left := procfs.With(map[string]string{backends.MarkRun: spec.RunID}); len(left) != 0 {
				t.Errorf("%s %s: left %v", point, phase, left)
			}
			if ops := fmt.Sprint(l.States()); ops != "[intent create_sent gone_verified]" {
				t.Errorf("%s %s: the ledger has %s", point, phase, ops)
			}
		}
	}
}
