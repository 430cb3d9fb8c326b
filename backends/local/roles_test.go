package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
)

// twoRoles returns a deployment of two workers and a frontend. Each writes its
// environment and its file into its log.
func twoRoles(t *testing.T, run string) backends.Spec {
	spec := backendtest.Spec(t)
	spec.RunID = run
	dir := t.TempDir()
	role := func(name string, replicas int) backends.Role {
		return backends.Role{
			Name: name, Replicas: replicas, Ports: map[string]int{"metrics": 0, "admin": 0},
			Argv: func(a backends.Address) ([]string, error) {
				return []string{"sh", "-c", `echo "$WHO $FIXED"; cat "$0"; while :; do sleep 1; done`, filepath.Join(a.Dir, "conf")}, nil
			},
			Env: map[string]string{"FIXED": "plan"},
			Extra: func(a backends.Address) (backends.Extra, error) {
				return backends.Extra{
					Env:   map[string]string{"WHO": fmt.Sprintf("%s-%d", name, a.Replica), "FIXED": "profile"},
					Files: map[string][]byte{"conf": fmt.Appendf(nil, "peers %d\n", len(a.Peers["worker"]))},
				}, nil
			},
			LogPath: func(n int) string { return filepath.Join(dir, fmt.Sprintf("%s-%d.log", name, n)) },
		}
	}
	spec.Roles = []backends.Role{role("worker", 2), role("frontend", 1)}
	return spec
}

func TestLaunch_peers(t *testing.T) {
	spec := twoRoles(t, "run-peers")
	var seen []backends.Address
	started := []string{}
	for i := range spec.Roles {
		argv := spec.Roles[i].Argv
		name := spec.Roles[i].Name
		spec.Roles[i].Argv = func(a backends.Address) ([]string, error) {
			seen = append(seen, a)
			started = append(started, name)
			return argv(a)
		}
		spec.Roles[i].Started = func(_ context.Context, h host.Host, replica int) error {
			started = append(started, fmt.Sprintf("%s %d is up", name, replica))
			if !strings.HasSuffix(h.URL(), fmt.Sprint(seen[0].Peers[name][replica].Port)) {
				t.Errorf("%s %d: asked at %s, started as %+v", name, replica, h.URL(), seen)
			}
			return nil
		}
	}
	d, _ := launch(t, machine(), spec)
	want := []string{"worker", "worker", "frontend", "worker 0 is up", "worker 1 is up", "frontend 0 is up"} // rendered, then started
	if !slices.Equal(started, want) {
		t.Errorf("got %q, want %q", started, want)
	}
	ports := map[int]bool{}
	for _, a := range seen {
		if len(a.Peers["worker"]) != 2 || len(a.Peers["frontend"]) != 1 {
			t.Errorf("%+v does not know everybody", a)
		}
		for _, p := range []int{a.Port, a.Ports["metrics"], a.Ports["admin"]} {
			if p == 0 || ports[p] {
				t.Errorf("%+v has no port of its own", a)
			}
			ports[p] = true
		}
	}
	if seen[0].Peers["worker"][1].Port != seen[1].Port || seen[0].Peers["worker"][1].Dir != seen[1].Dir || seen[0].Dir == seen[1].Dir {
		t.Errorf("the first knows the second as %+v, which is %+v", seen[0].Peers["worker"][1], seen[1])
	}
	h, ok := d.Host("worker", 1).(host.Porter)
	if want := fmt.Sprintf("127.0.0.1:%d", seen[1].Ports["metrics"]); !ok || h.Addr("metrics") != want || h.Addr("none") != "" {
		t.Errorf("metrics of the second worker are at %q, want %q", h.Addr("metrics"), want)
	}
	for file, want := range map[string]string{"worker-0": "worker-0 plan\npeers 2\n", "worker-1": "worker-1 plan\npeers 2\n", "frontend-0": "frontend-0 plan\npeers 2\n"} {
		log := filepath.Join(filepath.Dir(spec.Roles[0].LogPath(0)), file+".log")
		polltest.Until(t, log, func() bool {
			text, _ := os.ReadFile(log)
			return string(text) == want
		})
		conf := filepath.Join(filepath.Dir(log), "files", file, "conf")
		if text, err := os.ReadFile(conf); err != nil || string(text) != "peers 2\n" {
			t.Errorf("%s: %q, %v", conf, text, err)
		}
	}
}

// A launch that waits for a role ends when that, or one before it, does.
func TestLaunch_diesWhileWaiting(t *testing.T) {
	for _, victim := range []string{"worker", "frontend"} {
		spec := twoRoles(t, "run-dies-"+victim)
		last := spec.Roles[0]
		last.Name = "last"
		log := filepath.Join(t.TempDir(), "last.log")
		last.LogPath = func(int) string { return log }
		spec.Roles = append(spec.Roles, last)
		hosts := map[string]host.Host{}
		for i := range spec.Roles {
			name := spec.Roles[i].Name
			spec.Roles[i].Started = func(ctx context.Context, h host.Host, _ int) error {
				hosts[name] = h
				if name != "frontend" {
					return nil
				}
				_ = syscall.Kill(hosts[victim].(host.Processor).PIDs()[0], syscall.SIGKILL)
				<-ctx.Done()
				return context.Cause(ctx)
			}
		}
		_, err := machine().Launch(t.Context(), spec, &backendtest.Ledger{})
		var exit *backends.Exit
		if !errors.As(err, &exit) || exit.Role != victim || exit.Signal != "killed" {
			t.Errorf("%s: got %v", victim, err)
		}
		if _, err := os.Stat(log); err == nil {
			t.Errorf("%s: the last role was started", victim)
		}
		if left := procfs.With(map[string]string{backends.MarkRun: spec.RunID}); len(left) != 0 {
			t.Errorf("%s: left %v", victim, left)
		}
	}
}

func TestLaunch_notStarted(t *testing.T) {
	cause := errors.New("no line in its log")
	spec := twoRoles(t, "run-not-started")
	spec.Roles[0].Started = func(context.Context, host.Host, int) error { return cause }
	var l backendtest.Ledger
	_, err := machine().Launch(t.Context(), spec, &l)
	if !errors.Is(err, cause) || !strings.Contains(err.Error(), "worker 0: ") {
		t.Errorf("got %v", err)
	}
	if left := procfs.With(map[string]string{backends.MarkRun: spec.RunID}); len(left) != 0 {
		t.Errorf("left %v", left)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	spec.Roles[0].Started = func(ctx context.Context, _ host.Host, _ int) error {
		<-ctx.Done()
		return ctx.Err()
	}
	if _, err := machine().Launch(ctx, spec, &backendtest.Ledger{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestLaunch_fileOutside(t *testing.T) {
	for _, name := range []string{"../conf", "a/b", "..", ""} {
		spec := twoRoles(t, "run-outside")
		spec.Roles[0].Extra = func(backends.Address) (backends.Extra, error) {
			return backends.Extra{Files: map[string][]byte{name: nil}}, nil
		}
		d, err := machine().Launch(t.Context(), spec, &backendtest.Ledger{})
		if err == nil {
			_ = d.Stop(t.Context())
		}
		if !errors.Is(err, backends.ErrSpec) {
			t.Errorf("%q: got %v", name, err)
		}
	}
}
