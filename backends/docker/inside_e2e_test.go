//go:build e2e

package docker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/docker"
	"sweep.dev/sweep/internal/polltest"
)

// inside starts engines in a container that runs already.
func (l *lab) inside(t *testing.T) {
	id := l.Idle(t, "a-transient-name", container.Config{Image: l.image, Labels: map[string]string{"app": "engine"}})
	in := func(change func(*docker.Inside)) *docker.Backend {
		return l.backend(t, func(c *docker.Config) {
			c.Inside = &docker.Inside{Image: "sweep-llama*", Label: "app=engine"}
			if change != nil {
				change(c.Inside)
			}
		})
	}
	command := func(argv ...string) string {
		t.Helper()
		return l.Exec(t, id, argv...)
	}

	t.Run("contract", func(t *testing.T) {
		backendtest.Run(t, func(t *testing.T) (backends.Backend, backends.Spec) {
			spec := l.spec(t)
			// Two at once need two ports, where a container of their own would not.
			spec.Roles[0].Port = l.port()
			return in(nil), spec
		}, backendtest.CrashWith(func(t *testing.T, d backends.Deployment) {
			port := d.Host("server", 0).URL()[strings.LastIndex(d.Host("server", 0).URL(), ":")+1:]
			command("sh", "-c", `for d in /proc/[0-9]*; do if tr '\0\n' '  ' <$d/cmdline | grep -q "^python3 -c .* `+port+` $"; then kill -9 ${d#/proc/}; fi; done; true`)
		}), backendtest.SpoilWith(func(s *backends.Spec) { s.Roles[0].Port = 70000 }))
	})

	t.Run("procedure", func(t *testing.T) {
		b := in(func(i *docker.Inside) { i.ReadyLine, i.Soak = "^listening$", 300*time.Millisecond })
		spec := l.spec(t)
		// Another port too, and a child in a session of its own that does not listen to signals.
		spec.Roles[0].Argv = func(a backends.Address) ([]string, error) {
			return []string{"sh", "-c", `setsid sh -c "trap '' TERM; python3 -m http.server 8123 >/dev/null 2>&1 & while :; do sleep 0.2; done" & exec "$@"`, "x", "python3", "-c", server, strconv.Itoa(a.Port)}, nil
		}
		var ledger backendtest.Ledger
		began := time.Now()
		d, err := b.Launch(t.Context(), spec, &ledger)
		if err != nil {
			t.Fatal(err)
		}
		defer stop(t, d)
		if time.Since(began) < 300*time.Millisecond {
			t.Error("no soak")
		}
		if _, err := get(t, d.Host("server", 0), "/"); err != nil {
			t.Errorf("not ready after its line: %v", err)
		}
		polltest.Until(t, "the child's port", func() bool { return strings.Contains(command("cat", "/proc/net/tcp"), ":1FBB ") })

		// The port is taken now, and the error says by whom.
		_, err = in(nil).Launch(t.Context(), l.spec(t), &backendtest.Ledger{})
		if !errors.Is(err, backends.ErrSpec) || !strings.Contains(err.Error(), "port 8000") || !strings.Contains(err.Error(), "python3 -c") {
			t.Errorf("on a port that is taken: %v", err)
		}

		stop(t, d)
		if tcp := command("sh", "-c", "cat /proc/net/tcp /proc/net/tcp6"); strings.Contains(tcp, ":1F40 ") && strings.Contains(tcp, " 0A ") || strings.Contains(tcp, ":1FBB 00000000:0000 0A") {
			t.Errorf("ports in use after Stop:\n%s", tcp)
		}
		if left := command("sh", "-c", "ls -A /tmp; cat /proc/[0-9]*/cmdline | tr '\\0' ' '"); strings.Contains(left, "sweep-sw-") || strings.Contains(left, "http.server") {
			t.Errorf("left: %s", left)
		}
		dir := filepath.Dir(spec.Roles[0].LogPath(0))
		if text, err := os.ReadFile(filepath.Join(dir, "metrics-server.txt")); err != nil || string(text) != "vllm:up 1\n" {
			t.Errorf("the last metrics: %q, %v", text, err)
		}
		if text := logOf(spec); !strings.Contains(text, "listening\n") {
			t.Errorf("its log: %q", text)
		}
	})

	t.Run("sweep is gone", func(t *testing.T) {
		b := in(nil)
		spec := l.spec(t)
		d := launch(t, b, spec)
		answers(t, d)
		pods, err := in(nil).List(t.Context(), "owner")
		if err != nil || len(pods) != 1 || pods[0].Pod != spec.Pod || pods[0].Expires.IsZero() {
			t.Fatalf("%+v, %v", pods, err)
		}
		// From the intent alone: what was listed has neither grace nor ports.
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		ref := terms(d).Ref
		ref.ID, ref.Details = "", map[string]string{"host": l.Host, "inside": id}
		if err := l.backend(t, nil).Terminate(ctx, ref); err != nil {
			t.Fatal(err)
		}
		if pods, err := in(nil).List(t.Context(), "owner"); err != nil || len(pods) != 0 {
			t.Errorf("%+v, %v", pods, err)
		}
	})

	t.Run("which", func(t *testing.T) {
		l.Idle(t, "another", container.Config{Image: l.image, Labels: map[string]string{"app": "engine"}})
		if _, err := in(nil).Launch(t.Context(), l.spec(t), &backendtest.Ledger{}); !errors.Is(err, backends.ErrSpec) || !strings.Contains(err.Error(), "a-transient-name, another") {
			t.Errorf("two: %v", err)
		}
		none := in(func(i *docker.Inside) { i.Label = "app=nothing" })
		if _, err := none.Launch(t.Context(), l.spec(t), &backendtest.Ledger{}); !errors.Is(err, backends.ErrNotFound) {
			t.Errorf("none: %v", err)
		}
	})

	if c, err := l.API.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{}); err != nil || !c.Container.State.Running {
		t.Errorf("the container has been stopped: %v", err)
	}
}
