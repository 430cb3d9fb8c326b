package docker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/docker"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/secret"
)

func TestNew(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*docker.Config)
		env    map[string]string
		want   string // in the error; "" is none
	}{
		{name: "defaults", change: func(*docker.Config) {}},
		{name: "environment", change: func(*docker.Config) {}, env: map[string]string{"DOCKER_HOST": "ssh://far"}, want: "not a daemon of this machine"},
		{name: "plan before environment", change: func(c *docker.Config) { c.Host = "unix:///a" }, env: map[string]string{"DOCKER_HOST": "ssh://far"}},
		{name: "far", change: func(c *docker.Config) { c.Host = "tcp://10.0.0.1:2375" }, want: "run sweep there"},
		{name: "near", change: func(c *docker.Config) { c.Host = "tcp://127.0.0.1:2375" }},
		{name: "TLS without certificates", change: func(c *docker.Config) { c.Host = "tcp://127.0.0.1:2376" }, env: map[string]string{"DOCKER_TLS_VERIFY": "1"}, want: "DOCKER_CERT_PATH"},
		{name: "sizes", change: func(c *docker.Config) { c.Memory, c.ShmSize = "1MiB", "much" }, want: "shm_size"},
		{name: "pull", change: func(c *docker.Config) { c.Pull = "sometimes" }, want: `"sometimes"`},
		{name: "gpus", change: func(c *docker.Config) { c.GPUs = []string{"0", "0"} }, want: "twice"},
		{name: "mounts", change: func(c *docker.Config) { c.Mounts = []string{"cache:relative"} }, want: "source:/target"},
		{name: "mount mode", change: func(c *docker.Config) { c.Mounts = []string{"cache:/a:rx"} }, want: "source:/target"},
		{name: "host network", change: func(c *docker.Config) { c.Network = "host" }, want: "network of its own"},
		{name: "heartbeat", change: func(c *docker.Config) { c.Heartbeat = time.Second }, want: "heartbeat"},
		{name: "no heartbeat", change: func(c *docker.Config) { c.Heartbeat = 0 }},
		{name: "registry", change: func(c *docker.Config) { c.Registry = &docker.Registry{Username: "me"} }, want: "password"},
		{name: "inside nothing", change: func(c *docker.Config) { c.Inside = &docker.Inside{} }, want: "name the container"},
		{name: "inside line", change: func(c *docker.Config) { c.Inside = &docker.Inside{Image: "x", ReadyLine: "("} }, want: "ready_line"},
		{name: "env", change: func(c *docker.Config) { c.Env = map[string]secret.String{"A=B": secret.Plain("x")} }, want: "A=B"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := docker.DefaultConfig()
			test.change(&c)
			b, err := docker.New(nil, c, func(name string) (string, bool) { v, ok := test.env[name]; return v, ok })
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err == nil {
				_ = b.Close()
			}
		})
	}
}

func fakeSpec(t *testing.T) backends.Spec {
	dir := t.TempDir()
	return backends.Spec{
		Owner: "owner", RunID: "run1", Pod: "d1-l01", Engine: "test", GPU: "cpu", GPUs: 1, Digest: "digest",
		Grace: time.Second, Expires: time.Now().Add(time.Hour).Truncate(time.Second),
		Roles: []backends.Role{{
			Name: "server", Replicas: 1, Image: "team/engine",
			LogPath: func(int) string { return filepath.Join(dir, "server-0.log") },
			Argv:    func(a backends.Address) ([]string, error) { return []string{"engine", "--listen", a.String()}, nil },
		}},
	}
}

// TestCreate holds the launch against a daemon that answers a create badly. The
// container that is made is always found and ended; nothing is made twice.
func TestCreate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		onCreate func(w http.ResponseWriter, name string, make func()) bool
		created  bool  // the ledger knows of a container
		class    error // of the launch
	}{
		{name: "well", created: true, class: backends.ErrSpec},
		{name: "refused", onCreate: func(w http.ResponseWriter, _ string, _ func()) bool {
			fail(w, http.StatusBadRequest, "invalid reference format")
			return true
		}, class: backends.ErrSpec},
		{name: "500 and made", onCreate: func(w http.ResponseWriter, _ string, make func()) bool {
			make()
			fail(w, http.StatusInternalServerError, "i/o timeout")
			return true
		}, created: true, class: backends.ErrSpec},
		{name: "500 and not made", onCreate: func(w http.ResponseWriter, _ string, _ func()) bool {
			fail(w, http.StatusInternalServerError, "no space left on device")
			return true
		}},
		{name: "409, ours", onCreate: func(w http.ResponseWriter, _ string, make func()) bool {
			make()
			fail(w, http.StatusConflict, "name is in use")
			return true
		}, created: true, class: backends.ErrSpec},
		{name: "cut off and made late", onCreate: func(w http.ResponseWriter, _ string, make func()) bool {
			time.AfterFunc(300*time.Millisecond, make)
			panic(http.ErrAbortHandler)
		}, created: true, class: backends.ErrSpec},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.onCreate = test.onCreate
			var ledger backendtest.Ledger
			_, err := f.backend(t, nil).Launch(t.Context(), fakeSpec(t), &ledger)
			if err == nil || test.class != nil && !errors.Is(err, test.class) {
				t.Errorf("Launch: %v", err)
			}
			want := []backends.State{backends.Intended, backends.Sent}
			if test.created {
				want = append(want, backends.Created)
			}
			if want = append(want, backends.Gone); !slices.Equal(ledger.States(), want) {
				t.Errorf("the ledger has %v, want %v", ledger.States(), want)
			}
			if len(f.creates) != 1 || len(f.containers) != 0 {
				t.Errorf("%d creates, left: %v", len(f.creates), f.containers)
			}
			intent := ledger.Transitions()[0]
			if test.created && (len(f.removed) != 1 || f.removed[0] != intent.Name) {
				t.Errorf("removed %v, intended %s", f.removed, intent.Name)
			}
			if intent.At["host"] != f.url || intent.Expires == nil {
				t.Errorf("the intent does not say where and until when: %+v", intent)
			}
		})
	}
}

// TestCreate_unknown: if it is unknown whether the container was made, the ledger
// keeps its entry, and Terminate ends a container that shows up later.
func TestCreate_unknown(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	var late func()
	f.onCreate = func(_ http.ResponseWriter, _ string, make func()) bool {
		late = make
		panic(http.ErrAbortHandler)
	}
	var ledger backendtest.Ledger
	b := f.backend(t, nil)
	if _, err := b.Launch(t.Context(), fakeSpec(t), &ledger); err == nil || !strings.Contains(err.Error(), "not known") {
		t.Errorf("Launch: %v", err)
	}
	if s := ledger.States(); !slices.Equal(s, []backends.State{backends.Intended, backends.Sent}) {
		t.Fatalf("the ledger has %v", s)
	}
	intent := ledger.Transitions()[0]
	time.AfterFunc(500*time.Millisecond, late)
	err := b.Terminate(t.Context(), backends.Ref{Kind: docker.Kind, RunID: "run1", Pod: intent.Pod, Name: intent.Name, Details: intent.At})
	if err != nil || !slices.Equal(f.removed, []string{intent.Name}) {
		t.Errorf("Terminate: %v, removed %v", err, f.removed)
	}
}

func TestTerminate_wrongDaemon(t *testing.T) {
	b := newFake(t).backend(t, nil)
	ref := backends.Ref{Kind: docker.Kind, ID: "x", Details: map[string]string{"host": "unix:///elsewhere"}}
	if err := b.Terminate(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "unix:///elsewhere") {
		t.Errorf("got %v", err)
	}
	if err := b.Terminate(t.Context(), backends.Ref{Kind: "runpod", ID: "x"}); !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// TestList_provablyOurs: labels that somebody else has put on are no proof.
func TestList_provablyOurs(t *testing.T) {
	f := newFake(t)
	name := backends.NewName("owner", "run1", time.Now().Add(time.Hour)).String()
	good := map[string]any{
		"dev.sweep.owner": "owner", "dev.sweep.run_id": "run1", "dev.sweep.pod": "d1-l01", "dev.sweep.name": name,
		"dev.sweep.digest": "digest", "dev.sweep.grace": "1s",
	}
	add := func(id string, change func(map[string]any)) {
		labels := map[string]any{}
		maps.Copy(labels, good)
		change(labels)
		f.containers[id] = map[string]any{"Id": id, "Name": "/" + id, "Config": map[string]any{"Labels": labels}}
	}
	add("good", func(map[string]any) {})
	add("other-owner", func(l map[string]any) { l["dev.sweep.owner"] = "somebody" })
	add("no-name", func(l map[string]any) { delete(l, "dev.sweep.name") })
	add("own-name", func(l map[string]any) { l["dev.sweep.name"] = "sweep" })
	b := f.backend(t, nil)
	for _, owner := range []string{"", "owner"} {
		pods, err := b.List(t.Context(), owner)
		if err != nil || len(pods) != 1 || pods[0].ID != "good" || pods[0].Owner != "owner" || pods[0].Name != name || pods[0].Expires.IsZero() {
			t.Errorf("List(%q): %+v, %v", owner, pods, err)
		}
	}
	if err := b.Terminate(t.Context(), backends.Ref{Kind: docker.Kind, ID: "own-name"}); err == nil {
		t.Error("ended what is not provably sweep's")
	}
}

func TestPull(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("a", 64)
	good := `{"status":"Pulling from team/engine","id":"1"}
{"status":"Downloading","progressDetail":{"current":5,"total":10},"id":"layer"}
{"status":"Pull complete","progressDetail":{},"id":"layer"}
{"status":"Digest: sha256:` + digest + `"}
`
	for _, test := range []struct {
		name, body string
		class      error
	}{
		{"well", good, nil},
		{"manifest unknown", good + `{"errorDetail":{"message":"manifest for team/engine:latest not found: manifest unknown"},"error":"x"}`, backends.ErrSpec},
		{"denied", `{"errorDetail":{"message":"pull access denied for team/engine, may require 'docker login'"},"error":"x"}`, backends.ErrRefused},
		{"disk", good + `{"errorDetail":{"message":"no space left on device"},"error":"x"}`, docker.ErrPull},
		{"cut in mid-message", good + `{"status":"Downlo`, docker.ErrPull},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.noImage, f.pull = true, test.body
			spec := fakeSpec(t)
			var ledger backendtest.Ledger
			b := f.backend(t, func(c *docker.Config) {
				c.Registry = &docker.Registry{Username: "me", Password: secret.New("${TOKEN}", "canary")}
			})
			_, err := b.Launch(t.Context(), spec, &ledger)
			if f.auth == "" || strings.Contains(f.auth, "canary") {
				t.Errorf("credentials: %q", f.auth)
			}
			if test.class == nil {
				if len(ledger.States()) == 0 {
					t.Errorf("Launch did not come to its intent: %v", err)
				}
				text, err := os.ReadFile(filepath.Join(filepath.Dir(spec.Roles[0].LogPath(0)), "pull.log"))
				if err != nil || !strings.Contains(string(text), "Digest: sha256:"+digest) {
					t.Errorf("progress: %q, %v", text, err)
				}
				return
			}
			if !errors.Is(err, test.class) || len(ledger.States()) != 0 || strings.Contains(err.Error(), "canary") {
				t.Errorf("Launch: %v, the ledger has %v", err, ledger.States())
			}
		})
	}
}

// TestGPUs: each server gets GPUs of its own, by id, and one that is used by
// any container of sweep is not given again.
func TestGPUs(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	b := f.backend(t, func(c *docker.Config) { c.GPUs = []string{"GPU-a", "GPU-b", "GPU-c"} })
	name := backends.NewName("somebody", "run9", time.Now().Add(time.Hour)).String()
	f.containers["other"] = map[string]any{"Id": "other", "Name": "/other", "Config": map[string]any{
		"Labels": map[string]any{"dev.sweep.gpus": "GPU-a", "dev.sweep.name": name},
	}}
	spec := fakeSpec(t)
	spec.GPU, spec.GPUs, spec.Roles[0].GPUs = "h100", 2, 2
	if _, err := b.Launch(t.Context(), spec, &backendtest.Ledger{}); !errors.Is(err, backends.ErrSpec) {
		t.Fatal(err) // the fake starts nothing
	}
	host, _ := f.creates[0]["HostConfig"].(map[string]any)
	got, err := json.Marshal(host["DeviceRequests"])
	if want := `[{"Capabilities":[["gpu"]],"Count":0,"DeviceIDs":["GPU-b","GPU-c"],"Driver":"","Options":null}]`; err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	f.containers["other"]["Config"].(map[string]any)["Labels"].(map[string]any)["dev.sweep.gpus"] = "GPU-a,GPU-b"
	if _, err := b.Launch(t.Context(), spec, &backendtest.Ledger{}); !errors.Is(err, backends.ErrCapacity) {
		t.Errorf("with one free GPU: %v", err)
	}
	spec.GPUs = 4
	if err := b.Check(spec); !errors.Is(err, backends.ErrSpec) {
		t.Errorf("more than there are: %v", err)
	}
	spec.GPUs = 1
	if err := f.backend(t, nil).Check(spec); !errors.Is(err, backends.ErrSpec) || !strings.Contains(err.Error(), "backend.gpus") {
		t.Errorf("a GPU of the catalogue without gpus: %v", err)
	}
}

// TestGPUs_roles: each replica has the GPUs of its role, and a frontend sees none
// even if NVIDIA's runtime is the daemon's own.
func TestGPUs_roles(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	b := f.backend(t, func(c *docker.Config) { c.GPUs = []string{"GPU-a", "GPU-b", "GPU-c", "GPU-d"} })
	spec := fakeSpec(t)
	spec.GPU, spec.GPUs = "h100", 4
	worker := spec.Roles[0]
	worker.Name, worker.Replicas, worker.GPUs = "worker", 2, 2
	frontend := spec.Roles[0]
	frontend.Name, frontend.Env = "frontend", map[string]string{"A": "b"}
	spec.Roles = []backends.Role{worker, frontend}
	f.starts = true
	stop(t, launch(t, b, spec))
	var got []string
	for _, c := range f.creates {
		host, _ := c["HostConfig"].(map[string]any)
		requests, err := json.Marshal(host["DeviceRequests"])
		if err != nil {
			t.Fatal(err)
		}
		env, err := json.Marshal(c["Env"])
		if err != nil {
			t.Fatal(err)
		}
		void := strings.Contains(string(env), `"NVIDIA_VISIBLE_DEVICES=void"`)
		got = append(got, fmt.Sprintf("%s void=%v", requests, void))
	}
	want := []string{
		`[{"Capabilities":[["gpu"]],"Count":0,"DeviceIDs":["GPU-a","GPU-b"],"Driver":"","Options":null}] void=false`,
		`[{"Capabilities":[["gpu"]],"Count":0,"DeviceIDs":["GPU-c","GPU-d"],"Driver":"","Options":null}] void=false`,
		`null void=true`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestProbe(t *testing.T) {
	if err := newFake(t).backend(t, nil).Probe(t.Context()); err != nil {
		t.Error(err)
	}
	c := docker.DefaultConfig()
	c.Host = "unix://" + filepath.Join(t.TempDir(), "no.sock")
	b, err := docker.New(nil, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := b.Probe(ctx); err == nil || !strings.Contains(err.Error(), c.Host) {
		t.Errorf("got %v", err)
	}
}

// TestAccess: a published port of the loopback where the container's own address
// cannot be reached, the key of the container, and a reason for what is not known.
func TestAccess(t *testing.T) {
	f := newFake(t)
	b := f.backend(t, nil)
	spec := fakeSpec(t)
	name := backends.NewName(spec.Owner, spec.RunID, time.Now().Add(time.Hour)).String()
	role := spec.Roles[0]
	role.KeyEnv, role.MetricsPaths = "ENGINE_KEY", []string{"/metrics"}
	f.containers[name] = map[string]any{
		"Id": strings.Repeat("c", 64), "Name": "/" + name, "State": map[string]any{"Status": "running", "Running": true},
		"Config": map[string]any{
			"Labels": map[string]any{
				"dev.sweep.name": name, "dev.sweep.owner": spec.Owner, "dev.sweep.run_id": spec.RunID, "dev.sweep.pod": spec.Pod,
			},
			"Env": []string{backends.MarkServer + "=" + backends.ServerMark(spec, role, backends.Address{Host: "0.0.0.0", Port: 8000}), "ENGINE_KEY=CANARY"},
		},
		"NetworkSettings": map[string]any{"Ports": map[string]any{"8000/tcp": []any{map[string]any{"HostIp": "127.0.0.1", "HostPort": "32768"}}}},
	}
	ref := backends.Ref{Kind: docker.Kind, Name: name}
	all, err := b.Access(t.Context(), ref)
	if err != nil || len(all) != 1 {
		t.Fatalf("got %+v, %v", all, err)
	}
	a := all[0]
	if a.URL != "http://127.0.0.1:32768" || a.Path != host.Proxy || a.Metrics[0] != a.URL+"/metrics" || a.Key.Reveal() != "CANARY" || !strings.Contains(a.KeyAt, "container") {
		t.Errorf("got %+v", a)
	}

	f.containers[name]["State"] = map[string]any{"Status": "exited"}
	if all, err := b.Access(t.Context(), ref); err != nil || all[0].URL != "" || !strings.Contains(all[0].Why[backends.AccessURL], "stopped") {
		t.Errorf("a stopped container: %+v, %v", all, err)
	}
	f.containers[name]["Config"].(map[string]any)["Env"] = []string{}
	if _, err := b.Access(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "is not recorded") {
		t.Errorf("a container without the mark: %v", err)
	}
	delete(f.containers, name)
	if _, err := b.Access(t.Context(), ref); !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("no container: %v", err)
	}
	ref.Details = map[string]string{"inside": "c0ffee"}
	if _, err := b.Access(t.Context(), ref); !errors.Is(err, host.ErrNotSupported) {
		t.Errorf("a process in another's container: %v", err)
	}
}
