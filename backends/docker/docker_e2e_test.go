//go:build e2e

package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"net/http"
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
	"sweep.dev/sweep/backends/docker/dockertest"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/polltest"
)

// A lab is a daemon with an image.
type lab struct {
	*dockertest.Daemon
	image string
	ports int // given by port
}

// port returns one that no other test has in the container that all share.
func (l *lab) port() int {
	l.ports += 2 // that of a second replica too
	return 8200 + l.ports
}

// TestDocker is the contract of a backend, and what is Docker's own, against a
// real daemon.
func TestDocker(t *testing.T) {
	d := dockertest.Start(t, "../..")
	l := &lab{Daemon: d, image: d.Image(t)}
	t.Cleanup(func() {
		if left := d.Containers(t); len(left) != 0 {
			t.Errorf("containers at the end: %v", left)
		}
		d.NoGroups(t)
	})
	t.Run("contract", func(t *testing.T) {
		backendtest.Run(t, func(t *testing.T) (backends.Backend, backends.Spec) {
			return l.backend(t, nil), l.spec(t)
		}, backendtest.CrashWith(l.crash), backendtest.SpoilWith(func(s *backends.Spec) { s.Roles[0].Image = "no/such:image" }),
			backendtest.Killed(l.Host+" "+l.image, effect.DockerGroup, effect.DockerCreate), backendtest.Full())
	})
	t.Run("exec", l.exec)
	t.Run("exit", l.exit)
	t.Run("memory", l.memory)
	t.Run("grace", l.grace)
	t.Run("dead man", l.deadMan)
	t.Run("keep and adopt", l.keepAndAdopt)
	t.Run("pause", l.pause)
	t.Run("replicas", l.replicas)
	t.Run("no such command", l.noSuchCommand)
	t.Run("foreign", l.foreign)
	t.Run("pull", l.pull)
	t.Run("inside", l.inside)
}

func (l *lab) backend(t *testing.T, change func(*docker.Config)) *docker.Backend {
	t.Helper()
	c := docker.DefaultConfig()
	c.Host, c.Pull = l.Host, "never"
	if change != nil {
		change(&c)
	}
	b, err := docker.New(nil, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// server answers everything, and writes a line when it listens.
const server = `
import http.server, os, signal, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        key = os.environ.get("ENGINE_KEY")
        ok = not key or self.headers.get("Authorization") == "Bearer " + key
        self.send_response(200 if ok else 401); self.end_headers()
        self.wfile.write(b"vllm:up 1\n" if self.path == "/metrics" else os.environ.get("WHO", "").encode())
s = http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), H)
print("listening", flush=True)
s.serve_forever()
`

func (l *lab) spec(t *testing.T) backends.Spec { return specOf(l.image, t.TempDir()) }

func specOf(image, dir string) backends.Spec {
	return backends.Spec{
		Owner: "owner", RunID: "run", Pod: "d1-l01", Engine: "test", GPU: "cpu", GPUs: 1, Digest: "digest",
		Grace: 5 * time.Second, Expires: time.Now().Add(time.Hour),
		Roles: []backends.Role{{
			Name: "server", Replicas: 1, Image: image,
			LogPath:      func(n int) string { return filepath.Join(dir, "server-"+strconv.Itoa(n)+".log") },
			MetricsPaths: []string{"/metrics"},
			Argv: func(a backends.Address) ([]string, error) {
				return []string{"python3", "-c", server, strconv.Itoa(a.Port)}, nil
			},
		}},
	}
}

func answers(t *testing.T, d backends.Deployment) {
	t.Helper()
	polltest.Until(t, "the server answers", func() bool { _, err := get(t, d.Host("server", 0), "/"); return err == nil })
}

// launches makes what backendtest kills.
func launches(config, dir string, fx *effect.Effects) (backends.Backend, backends.Spec, error) {
	c := docker.DefaultConfig()
	var image string
	c.Host, image, _ = strings.Cut(config, " ")
	c.Pull = "never"
	b, err := docker.New(fx, c, nil)
	return b, specOf(image, dir), err
}

// crash ends a container as an accident would.
func (l *lab) crash(t *testing.T, d backends.Deployment) {
	t.Helper()
	if _, err := l.API.ContainerKill(t.Context(), terms(d).Ref.ID, client.ContainerKillOptions{Signal: "KILL"}); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) exec(t *testing.T) {
	d := launch(t, l.backend(t, nil), l.spec(t))
	h := d.Host("server", 0)
	if out, err := h.Exec(t.Context(), "sh", "-c", "echo out; echo err >&2"); err != nil || string(out) != "out\n" {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := h.Exec(t.Context(), "sh", "-c", "echo why >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "exit status 3: why") {
		t.Errorf("got %v", err)
	}
	if _, err := h.Exec(t.Context(), "nvidia-smi"); err == nil || !strings.Contains(err.Error(), "nvidia-smi") {
		t.Errorf("got %v", err)
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, cause)
	defer cancel()
	if _, err := h.Exec(ctx, "sleep", "60"); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	if out, err := h.Exec(t.Context(), "sh", "-c", "while :; do echo 0123456789abcdef; done"); err == nil || !strings.Contains(err.Error(), "more than 4 MiB") || len(out) != 4<<20 {
		t.Errorf("endless output: %d bytes, %v", len(out), err)
	}
}

func (l *lab) exit(t *testing.T) {
	for _, test := range []struct {
		script string
		want   backends.Exit
	}{
		{"echo before; echo after >&2; exit 3", backends.Exit{Role: "server", Code: 3}},
		{"echo before; echo after >&2; kill -SEGV $$", backends.Exit{Role: "server", Code: -1, Signal: "segmentation fault"}},
	} {
		spec := l.spec(t)
		spec.Roles[0].Argv = shell(test.script)
		d := launch(t, l.backend(t, nil), spec)
		if e := ended(t, d); *e != test.want {
			t.Errorf("%s: got %+v", test.script, e)
		}
		stop(t, d)
		if text, err := os.ReadFile(spec.Roles[0].LogPath(0)); err != nil || !strings.Contains(string(text), "before\nafter\n") {
			t.Errorf("log: %q, %v", text, err)
		}
	}
}

func (l *lab) memory(t *testing.T) {
	spec := l.spec(t)
	spec.Roles[0].Argv = func(backends.Address) ([]string, error) {
		return []string{"python3", "-c", "print('growing', flush=True)\na = []\nwhile True: a.append(bytearray(1 << 20))"}, nil
	}
	d := launch(t, l.backend(t, func(c *docker.Config) { c.Memory = "64MiB" }), spec)
	if e := ended(t, d); !e.OOMKilled || !strings.Contains(e.Error(), "out of host memory") {
		t.Errorf("got %+v", e)
	}
	// The same status without the memory is something else.
	spec = l.spec(t)
	d = launch(t, l.backend(t, func(c *docker.Config) { c.Memory = "256MiB" }), spec)
	answers(t, d)
	l.crash(t, d)
	if e := ended(t, d); e.OOMKilled || e.Signal != "killed" {
		t.Errorf("got %+v", e)
	}
}

func (l *lab) grace(t *testing.T) {
	spec := l.spec(t)
	spec.Roles[0].Argv = shell(`trap 'echo polite; exit 0' TERM; echo up; while :; do sleep 0.1; done`)
	d := launch(t, l.backend(t, nil), spec)
	polltest.Until(t, "its line", func() bool { return strings.Contains(logOf(spec), "up\n") })
	stop(t, d)
	if text := logOf(spec); !strings.Contains(text, "polite\n") {
		t.Errorf("log: %q", text)
	}
	// One that does not listen is ended all the same.
	spec = l.spec(t)
	spec.Grace = time.Second
	spec.Roles[0].Argv = shell(`trap '' TERM; echo up; while :; do sleep 0.1; done`)
	d = launch(t, l.backend(t, nil), spec)
	polltest.Until(t, "its line", func() bool { return strings.Contains(logOf(spec), "up\n") })
	stop(t, d)
}

func logOf(spec backends.Spec) string {
	text, _ := os.ReadFile(spec.Roles[0].LogPath(0))
	return string(text)
}

// deadMan checks that pods end themselves if nothing else ends them.
func (l *lab) deadMan(t *testing.T) {
	b := l.backend(t, nil)
	spec := l.spec(t)
	spec.Expires = time.Now().Add(4 * time.Second)
	d := launch(t, b, spec)
	if e := ended(t, d); e.Code == 0 && e.Signal == "" {
		t.Errorf("at its expiry time: got %+v", e)
	}
	stop(t, d)

	// No heartbeat comes: the run that launched it is gone. Only the ledger is left.
	mute := l.backend(t, func(c *docker.Config) { c.Heartbeat = 5 * time.Second })
	spec = l.spec(t)
	d = launch(t, mute, spec)
	answers(t, d)
	select {
	case <-d.Done():
		t.Errorf("it ended although somebody beats: %v", d.Err())
	case <-time.After(8 * time.Second): // longer than it lives without a beat
	}
	docker.LetGo(d)
	polltest.Until(t, "its end without a heartbeat", func() bool {
		c, err := l.API.ContainerInspect(t.Context(), terms(d).Ref.ID, client.ContainerInspectOptions{})
		return err == nil && !c.Container.State.Running
	})
}

func (l *lab) keepAndAdopt(t *testing.T) {
	spec := l.spec(t)
	spec.Roles[0].Env = map[string]string{"WHO": "the one that was kept", "ENGINE_KEY": "CANARY"}
	spec.Roles[0].KeyEnv = "ENGINE_KEY"
	d := launch(t, l.backend(t, nil), spec)
	answers(t, d)
	if err := d.(backends.Keeper).Keep(t.Context(), time.Now().Add(10*time.Minute)); err != nil {
		t.Fatal(err)
	}
	stop(t, d) // which does nothing any more
	next := l.backend(t, nil)
	l.usable(t, next, terms(d).Ref)
	other := l.spec(t)
	other.Digest = "another"
	if _, err := next.Adopt(t.Context(), other, terms(d).Ref); err == nil || errors.Is(err, backends.ErrNotFound) {
		t.Errorf("adopted another server, or took it for gone: %v", err)
	}
	spec2 := l.spec(t)
	adopted, err := next.Adopt(t.Context(), spec2, terms(d).Ref)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := get(t, adopted.Host("server", 0), "/"); err != nil || text != "the one that was kept" {
		t.Errorf("got %q, %v", text, err)
	}
	if got := terms(adopted); got.Ref.ID != terms(d).Ref.ID || got.ImageDigest != terms(d).ImageDigest || got.Since.IsZero() {
		t.Errorf("terms %+v", got)
	}
	polltest.Until(t, "its log", func() bool { return strings.Contains(logOf(spec2), "listening") })
	stop(t, adopted)
	if _, err := next.Adopt(t.Context(), spec2, terms(d).Ref); !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("adopted what is gone: %v", err)
	}
}

// usable asks a kept pod as a person would who has nothing but its ref.
func (l *lab) usable(t *testing.T, b *docker.Backend, ref backends.Ref) {
	t.Helper()
	all, err := b.Access(t.Context(), ref)
	if err != nil || len(all) != 1 {
		t.Fatalf("Access: %+v, %v", all, err)
	}
	a := all[0]
	if a.KeyEnv != "ENGINE_KEY" || len(a.Metrics) != 1 || a.Metrics[0] != a.URL+"/metrics" {
		t.Errorf("Access: %+v", a)
	}
	for key, want := range map[string]int{a.Key.Reveal(): http.StatusOK, "": http.StatusUnauthorized} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.URL+"/v1/models", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("with a key of %d characters: %s, want %d", len(key), resp.Status, want)
		}
	}
}

func (l *lab) pause(t *testing.T) {
	b := l.backend(t, nil)
	d := launch(t, b, l.spec(t))
	answers(t, d)
	ref := terms(d).Ref
	if err := b.Pause(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	pods, err := b.List(t.Context(), "owner")
	if err != nil || len(pods) != 1 || pods[0].Status != "exited" || pods[0].Name != ref.Name {
		t.Errorf("a stopped pod: %+v, %v", pods, err)
	}
	if all, err := b.Access(t.Context(), ref); err != nil || len(all) != 1 || all[0].URL != "" || all[0].Why[backends.AccessURL] == "" {
		t.Errorf("Access of a stopped pod: %+v, %v", all, err)
	}
	if err := b.Resume(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if pods, err := b.List(t.Context(), ""); err != nil || len(pods) != 1 || pods[0].Status != "running" {
		t.Errorf("a started pod: %+v, %v", pods, err)
	}
	stop(t, d)
	if err := b.Pause(t.Context(), ref); !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// replicas are several containers of one pod.
func (l *lab) replicas(t *testing.T) {
	b := l.backend(t, nil)
	spec := l.spec(t)
	spec.Roles[0].Replicas = 2
	d := launch(t, b, spec)
	if d.Host("server", 0).URL() == d.Host("server", 1).URL() {
		t.Errorf("both have %s", d.Host("server", 0).URL())
	}
	answers(t, d)
	pods, err := b.List(t.Context(), "owner")
	if err != nil || len(pods) != 1 || pods[0].ID != terms(d).Ref.ID {
		t.Errorf("%+v, %v", pods, err)
	}
	// By its name alone, as after a crash between the create and its answer.
	ref := terms(d).Ref
	ref.ID = ""
	if err := l.backend(t, nil).Terminate(t.Context(), ref); err != nil {
		t.Error(err)
	}
	if left := l.Containers(t); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func (l *lab) noSuchCommand(t *testing.T) {
	// Without a dead man the daemon itself starts the command.
	spec := l.spec(t)
	spec.Roles[0].Argv = func(backends.Address) ([]string, error) { return []string{"/no/such/server"}, nil }
	var ledger backendtest.Ledger
	d, err := l.backend(t, func(c *docker.Config) { c.DeadMan = false }).Launch(t.Context(), spec, &ledger)
	if err == nil {
		stop(t, d)
	}
	if !errors.Is(err, backends.ErrSpec) {
		t.Errorf("got %v", err)
	}
	if s := ledger.States(); s[len(s)-1] != backends.Gone {
		t.Errorf("the ledger has %v", s)
	}
}

// foreign is a container that is not sweep's: it is never listed, and never
// ended, whatever a ref says.
func (l *lab) foreign(t *testing.T) {
	id := l.Idle(t, "somebody-elses", container.Config{Image: l.image})
	b := l.backend(t, nil)
	if pods, err := b.List(t.Context(), ""); err != nil || len(pods) != 0 {
		t.Errorf("listed: %v, %v", pods, err)
	}
	for _, ref := range []backends.Ref{{Kind: docker.Kind, ID: id}, {Kind: docker.Kind, ID: id, Name: "sw-00000000-run1-aaaaaaaa-x1"}} {
		if err := b.Terminate(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "not touched") {
			t.Errorf("Terminate: %v", err)
		}
	}
	if c, err := l.API.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{}); err != nil || !c.Container.State.Running {
		t.Errorf("it was ended: %v", err)
	}
}

// pull fetches an image by its digest from a registry, and reports what a
// registry does not have, which arrives inside of a 200.
func (l *lab) pull(t *testing.T) {
	registry := dockertest.Registry(t, tarOf(t, "etc/engine", "bytes"))
	b := l.backend(t, func(c *docker.Config) { c.Pull = "missing"; c.DeadMan = false })
	spec := l.spec(t)
	spec.Roles[0].Image = registry.Reference()
	var ledger backendtest.Ledger
	// The image has nothing to run: what is of interest is that it is there.
	_, err := b.Launch(t.Context(), spec, &ledger)
	if !errors.Is(err, backends.ErrSpec) || strings.Contains(err.Error(), "pull") {
		t.Errorf("got %v", err)
	}
	t.Cleanup(func() {
		_, _ = l.API.ImageRemove(context.WithoutCancel(t.Context()), registry.Reference(), client.ImageRemoveOptions{Force: true})
	})
	res, err := l.API.ImageInspect(t.Context(), registry.Reference())
	if err != nil || len(res.RepoDigests) == 0 || !strings.HasSuffix(res.RepoDigests[0], registry.Digest()) {
		t.Errorf("the image: %v, %v", res.RepoDigests, err)
	}
	progress, err := os.ReadFile(filepath.Join(filepath.Dir(spec.Roles[0].LogPath(0)), "pull.log"))
	if err != nil || !strings.Contains(string(progress), "pulling "+registry.Reference()) || !strings.Contains(string(progress), registry.Digest()) {
		t.Errorf("its progress: %q, %v", progress, err)
	}
	spec.Roles[0].Image = strings.Replace(registry.Reference(), "sha256:", "sha256:"+strings.Repeat("0", 60), 1)[:len(registry.Reference())]
	ledger = backendtest.Ledger{}
	if _, err := b.Launch(t.Context(), spec, &ledger); !errors.Is(err, backends.ErrSpec) || !strings.Contains(err.Error(), "pull") {
		t.Errorf("an image that is not there: %v", err)
	}
	if s := ledger.States(); len(s) != 0 {
		t.Errorf("owed before it was pulled: %v", s)
	}
}

func tarOf(t *testing.T, name, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
