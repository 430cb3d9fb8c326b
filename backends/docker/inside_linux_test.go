package docker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/docker"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
)

// boxed returns a fake daemon with the container box.
func boxed(t *testing.T) *fake {
	t.Helper()
	f := newFake(t)
	f.withExec(t)
	return f
}

// inBox returns a backend that starts engines in box.
func (f *fake) inBox(t *testing.T, change func(*docker.Inside)) *docker.Backend {
	t.Helper()
	return f.backend(t, func(c *docker.Config) {
		c.Inside = &docker.Inside{Name: box}
		if change != nil {
			change(c.Inside)
		}
	})
}

// portsOf returns the first of n ports of this machine that are free, none of which the
// kernel gives to a connection.
func portsOf(t *testing.T, n int) int {
	t.Helper()
	for range 100 {
		first := 30_000 + rand.IntN(2_000)
		free := true
		for port := first; port < first+n; port++ {
			free = free && !listens(fmt.Sprintf("127.0.0.1:%d", port))
		}
		if free {
			return first
		}
	}
	t.Fatal("no free port")
	return 0
}

// kill ends the server of a role as an accident would, not its bootstrap.
func kill(t *testing.T, d backends.Deployment, role string, replica int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	port := d.Host(role, replica).URL()
	port = port[strings.LastIndex(port, ":"):]
	for _, p := range procfs.With(map[string]string{backends.MarkRun: terms(d).Ref.RunID}) {
		program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID))
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if program == self && strings.HasSuffix(string(command), port+"\x00") {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no process of %s %d", role, replica)
}

func TestInside(t *testing.T) {
	t.Parallel()
	f := boxed(t)
	backendtest.Run(t, func(t *testing.T) (backends.Backend, backends.Spec) {
		spec := backendtest.Spec(t)
		spec.Roles[0].Port = portsOf(t, 2) // its network is this machine's, where other tests have 8000
		return f.inBox(t, nil), spec
	}, backendtest.Provisioned(), backendtest.CrashWith(func(t *testing.T, d backends.Deployment) { kill(t, d, "server", 0) }),
		backendtest.SpoilWith(func(s *backends.Spec) { s.Roles[0].Port = 70000 }))
}

// frontAndWorkers returns a frontend before two workers, each with a second port, in the
// order in which they are to be started. What is asked of them with env=WHO they
// answer with their name.
func frontAndWorkers(t *testing.T) backends.Spec {
	spec := backendtest.Spec(t)
	spec.RunID, spec.Grace = "run-"+strconv.Itoa(os.Getpid())+t.Name(), 2*time.Second
	front := spec.Roles[0]
	front.Env = map[string]string{"FIXED": "by the plan"}
	front.MetricsPaths = []string{"/metrics?env=WHO"}
	front.Extra = func(a backends.Address) (backends.Extra, error) {
		return backends.Extra{
			Env:   map[string]string{"WHO": fmt.Sprintf("%d of %d workers", a.Replica, len(a.Peers["worker"])), "FIXED": "by the profile"},
			Files: map[string][]byte{"peers": fmt.Appendf(nil, "%v", a.Peers)},
		}, nil
	}
	worker := front
	worker.Name, worker.Replicas, worker.Ports = "worker", 2, map[string]int{"admin": 0}
	worker.Extra = func(a backends.Address) (backends.Extra, error) {
		extra, err := front.Extra(a)
		extra.Files = nil
		return extra, err
	}
	dir := t.TempDir()
	worker.LogPath = func(n int) string { return filepath.Join(dir, fmt.Sprintf("worker-%d.log", n)) }
	front.Name = "frontend"
	front.LogPath = func(int) string { return filepath.Join(dir, "frontend-0.log") }
	spec.Roles, spec.Entry = []backends.Role{front, worker}, "frontend"
	return spec
}

func listens(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// Several processes of one container: each knows where the others are, a role is
// started when the one before it is so far, the last metrics of each are kept, and
// at the end nothing of them is left.
func TestInside_roles(t *testing.T) {
	t.Parallel()
	first, second := portsOf(t, 1), portsOf(t, 2)
	b := boxed(t).inBox(t, func(i *docker.Inside) {
		i.Ports = map[string]int{"frontend": first, "worker": second}
		i.ReadyLine = "^listening on"
	})
	spec := frontAndWorkers(t)
	var order []string
	seen := map[string]backends.Address{}
	for i := range spec.Roles {
		role := spec.Roles[i]
		spec.Roles[i].Argv = func(a backends.Address) ([]string, error) {
			seen[role.ReplicaName(a.Replica)] = a
			return role.Argv(a)
		}
		spec.Roles[i].Started = func(_ context.Context, h host.Host, n int) error {
			order = append(order, role.ReplicaName(n))
			polltest.Until(t, "its log says that it listens", func() bool {
				text, _ := os.ReadFile(role.LogPath(n))
				return strings.Contains(string(text), "listening on ")
			})
			return nil
		}
	}
	var ledger backendtest.Ledger
	d, err := b.Launch(t.Context(), spec, &ledger)
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, d)
	if want := []string{"frontend", "worker 0", "worker 1"}; !slices.Equal(order, want) {
		t.Errorf("got %q, want %q", order, want)
	}
	if want := []backends.State{backends.Intended, backends.Sent, backends.Created, backends.Created, backends.Created}; !slices.Equal(ledger.States(), want) {
		t.Errorf("the ledger has %v", ledger.States())
	}
	var all []string
	for name, want := range map[string]int{"frontend": first, "worker 0": second, "worker 1": second + 1} {
		a := seen[name]
		if a.Port != want || len(a.Peers["worker"]) != 2 || a.Peers["frontend"][0].String() != fmt.Sprintf("127.0.0.1:%d", first) {
			t.Errorf("%s is told %+v", name, a)
		}
		all = append(all, fmt.Sprintf("127.0.0.1:%d", a.Port))
	}
	h := d.Host("worker", 1)
	admin := h.(host.Porter).Addr("admin")
	if h.URL() != "http://"+fmt.Sprintf("127.0.0.1:%d", second+1) || !strings.HasSuffix(admin, fmt.Sprintf(":%d", seen["worker 1"].Ports["admin"])) || slices.Contains(all, admin) {
		t.Errorf("worker 1 is at %s and %s", h.URL(), admin)
	}
	if who, err := get(t, h, "/?env=WHO"); err != nil || who != "1 of 2 workers" {
		t.Errorf("worker 1 says %q, %v", who, err)
	}
	if fixed, err := get(t, h, "/?env=FIXED"); err != nil || fixed != "by the plan" {
		t.Errorf("a variable of the plan is %q, %v", fixed, err)
	}
	files := filepath.Join(seen["frontend"].Dir, "peers")
	if text, err := os.ReadFile(files); err != nil || !strings.Contains(string(text), fmt.Sprint(second)) {
		t.Errorf("%s: %q, %v", files, text, err)
	}
	if info, err := os.Stat(seen["worker 0"].Dir); err != nil || !info.IsDir() {
		t.Errorf("the folder whose path others get: %v", err)
	}

	// It is a server of its own that has the port.
	again := frontAndWorkers(t)
	taken := fmt.Sprintf("port %d of container box is in use by process", first)
	if _, err := b.Launch(t.Context(), again, &backendtest.Ledger{}); !errors.Is(err, backends.ErrSpec) || !strings.HasPrefix(err.Error(), "frontend: ") || !strings.Contains(err.Error(), taken) {
		t.Errorf("on ports that are taken: %v", err)
	}

	stop(t, d)
	for _, addr := range all {
		if listens(addr) {
			t.Errorf("%s is in use after Stop", addr)
		}
	}
	if left := procfs.With(map[string]string{backends.MarkRun: spec.RunID}); len(left) != 0 {
		t.Errorf("left running: %v", left)
	}
	name := terms(d).Ref.Name
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "*sweep-"+name+"*")); err != nil || len(left) != 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	dir := filepath.Dir(spec.Roles[0].LogPath(0))
	for file, want := range map[string]string{"metrics-frontend.txt": "0 of 2 workers", "metrics-worker-0.txt": "0 of 2 workers", "metrics-worker-1.txt": "1 of 2 workers"} {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", file, text, err)
		}
	}
	for _, file := range []string{"frontend-0.log", "worker-0.log", "worker-1.log"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || strings.Count(string(text), "listening on ") != 1 || !strings.Contains(string(text), "SIGTERM: the engine ends") {
			t.Errorf("%s: %q, %v", file, text, err)
		}
	}
}

// The end of one process is the end of the deployment, and the others are ended
// with it.
func TestInside_oneDies(t *testing.T) {
	t.Parallel()
	b := boxed(t).inBox(t, func(i *docker.Inside) { i.Ports = map[string]int{"frontend": portsOf(t, 1)} })
	spec := frontAndWorkers(t)
	d := launch(t, b, spec)
	for _, at := range []struct {
		role string
		n    int
	}{{"frontend", 0}, {"worker", 0}, {"worker", 1}} {
		polltest.Until(t, at.role+" answers", func() bool { _, err := get(t, d.Host(at.role, at.n), "/"); return err == nil })
	}
	kill(t, d, "worker", 1)
	if e := ended(t, d); e.Role != "worker" || e.Replica != 1 || e.Signal != "killed" {
		t.Errorf("got %+v", e)
	}
	stop(t, d)
	if left := procfs.With(map[string]string{backends.MarkRun: spec.RunID}); len(left) != 0 {
		t.Errorf("left running: %v", left)
	}
}

// Lines that the reader of a log has not passed on are copied at the end.
func TestInside_lastLines(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.withExec(t).mute = true
	b := f.inBox(t, func(i *docker.Inside) { i.Ports = map[string]int{"server": portsOf(t, 1)} })
	spec := backendtest.Spec(t)
	spec.RunID = "run-" + strconv.Itoa(os.Getpid()) + t.Name()
	d := launch(t, b, spec)
	polltest.Until(t, "the server answers", func() bool { _, err := get(t, d.Host("server", 0), "/"); return err == nil })
	stop(t, d)
	text, err := os.ReadFile(spec.Roles[0].LogPath(0))
	if err != nil || strings.Count(string(text), "listening on ") != 1 || !strings.Contains(string(text), "SIGTERM: the engine ends") {
		t.Errorf("its log: %q, %v", text, err)
	}
}

// A launch whose second role does not come up, or whose first one ends meanwhile,
// leaves nothing.
func TestInside_notStarted(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"frontend ends": "exit 7", "worker is not ready": "while :; do sleep 0.1; done"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := boxed(t).inBox(t, func(i *docker.Inside) { i.Ports = map[string]int{"frontend": portsOf(t, 1)} })
			spec := frontAndWorkers(t)
			spec.Roles[0].Argv = shell(script)
			never := errors.New("it does not say that it is ready")
			ends := name == "frontend ends"
			spec.Roles[1].Started = func(ctx context.Context, _ host.Host, _ int) error {
				if ends {
					<-ctx.Done()
				}
				return never
			}
			var ledger backendtest.Ledger
			_, err := b.Launch(t.Context(), spec, &ledger)
			var exit *backends.Exit
			if ends && (!errors.As(err, &exit) || exit.Role != "frontend" || exit.Code != 7) {
				t.Errorf("got %v", err)
			}
			if !ends && (!errors.Is(err, never) || !strings.Contains(err.Error(), "worker 0")) {
				t.Errorf("got %v", err)
			}
			if s := ledger.States(); s[len(s)-1] != backends.Gone {
				t.Errorf("the ledger has %v", s)
			}
			if left := procfs.With(map[string]string{backends.MarkRun: spec.RunID}); len(left) != 0 {
				t.Errorf("left running: %v", left)
			}
		})
	}
}

// A fault of a spec is found before the container is looked at.
func TestInside_check(t *testing.T) {
	c := docker.DefaultConfig()
	for _, test := range []struct {
		name   string
		ports  map[string]int
		change func(*backends.Spec)
		want   string // in the error; "" is none
	}{
		{name: "several roles"},
		{name: "named ports", ports: map[string]int{"frontend": 9000, "worker": 8081, "worker.admin": 9090}},
		{name: "no such role", ports: map[string]int{"router": 9000}, want: `no port "router", only frontend, worker, worker.admin`},
		{name: "the same port", ports: map[string]int{"worker": 7999}, want: "worker 1: specification is not possible: port 8000 is another replica's"},
		{name: "no such port", ports: map[string]int{"worker": 65535}, want: "no port 65536"},
		{name: "files", change: func(s *backends.Spec) {
			s.Roles[1].Extra = func(backends.Address) (backends.Extra, error) {
				return backends.Extra{Files: map[string][]byte{"../f": nil}}, nil
			}
		}, want: "not the name of a file"},
		{name: "command", change: func(s *backends.Spec) {
			s.Roles[1].Argv = func(backends.Address) ([]string, error) { return nil, errors.New("no such flag") }
		}, want: "worker 0: specification is not possible: no such flag"},
	} {
		c.Inside = &docker.Inside{Name: box, Ports: test.ports}
		b, err := docker.New(nil, c, nil)
		if err != nil {
			t.Fatal(err)
		}
		spec := frontAndWorkers(t)
		if test.change != nil {
			test.change(&spec)
		}
		err = b.Check(spec)
		if (err == nil) != (test.want == "") || err != nil && (!errors.Is(err, backends.ErrSpec) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v", test.name, err)
		}
		_ = b.Close()
	}
}
