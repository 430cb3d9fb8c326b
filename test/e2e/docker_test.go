//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends/docker/dockertest"
)

var inDocker = rig{
	task:   "engines:llamacpp engines:docker",
	files:  []string{".engines/gemma-3-270m-q4_k_m.gguf", ".engines/docker/rootfs.tar"},
	plan:   "plans/docker-local.yaml",
	engine: "llamacpp", backend: "docker",
	low: 1, high: 2, short: 16, long: 32, requests: 6, shared: true,
}

// docker starts a daemon that has the plan's image, for the sweeps of this test.
func (g rig) docker(t *testing.T) *dockertest.Daemon {
	t.Helper()
	need(t, g.task, g.files...)
	d := dockertest.Start(t, ".")
	d.Tag(t, d.Image(t), "sweep-llamacpp:local")
	t.Setenv("DOCKER_HOST", d.Host)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	return d
}

func noContainers(t *testing.T, d *dockertest.Daemon) {
	t.Helper()
	if left := d.Containers(t); len(left) != 0 {
		t.Errorf("containers: %q", left)
	}
}

// TestDocker_grid: the shipped plan measures a real model in a container, which outlives a
// sweep that is killed. The resume gives it back and measures what is missing; every row
// says by its digest what image that was, and no container is left.
func TestDocker_grid(t *testing.T) {
	d := inDocker.docker(t)
	dir, events := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "events.jsonl")
	s := start(t, "run", "-o", dir, "--events", events, inDocker.plan)
	rows := s.killedAndResumed(dir, events, func() {
		left := d.Containers(t)
		if len(left) != 1 || !strings.HasSuffix(left[0], " running") {
			t.Fatalf("after kill -9: %q, want the container still there", left)
		}
		// From elsewhere it is seen, and it is named so that gc could end it.
		pods := start(t, "pods", "--json")
		pods.wait()
		if name := strings.TrimPrefix(strings.TrimSuffix(left[0], " running"), "/"); !strings.Contains(pods.stdout.String(), name) {
			t.Errorf("sweep pods does not list %s:\n%s", name, pods.stdout.String())
		}
	})
	noContainers(t, d)
	if len(rows) != 4 {
		t.Fatalf("got %d rows, want 4", len(rows))
	}
	for _, r := range rows {
		inDocker.check(t, r)
		if digest := r["image_digest"]; !strings.HasPrefix(digest, "sha256:") || len(digest) != 71 {
			t.Errorf("%s: image_digest %q", r, digest)
		}
		if r["network_path"] != "direct" {
			t.Errorf("%s: network_path %q", r, r["network_path"])
		}
		t.Logf("%s: TTFT p50 %s ms, %s tok/s, image %s", r, r["p50_ttft_ms"], r["throughput_tok_s"], r["image_digest"])
	}
}

// dynamoPackages returns where a container has Dynamo's packages, if .engines/dynamo is its
// /opt/dynamo.
func dynamoPackages(t *testing.T) string {
	t.Helper()
	packages, err := filepath.Glob(".engines/dynamo/lib/python3.*/site-packages")
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages of Dynamo: %q, %v", packages, err)
	}
	return "/opt" + strings.TrimPrefix(packages[0], ".engines")
}

// TestDocker_roles: each replica of each role has a container of its own, and the
// columns and the routing are those of the process backend. After a kill -9 of
// sweep the resume ends exactly those, and what they shared.
func TestDocker_roles(t *testing.T) {
	needDynamo(t)
	need(t, "engines:docker", ".engines/docker/rootfs.tar")
	d := dockertest.Start(t, ".")
	d.Tag(t, d.Image(t), "sweep-dynamo:local")
	t.Setenv("DOCKER_HOST", d.Host)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir, events := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "events.jsonl")
	s := start(t, "run", "-o", dir, "--events", events, "--set", "engines.dynamo-disagg.env.PYTHONPATH="+dynamoPackages(t),
		"--set", fmt.Sprintf("load.requests=%d", disaggRequests), "plans/docker-dynamo.yaml")
	rows := s.killedAndResumed(dir, events, func() {
		if left := d.Containers(t); len(left) != 4 {
			t.Errorf("after kill -9: %q, want four containers", left)
		}
	})
	noContainers(t, d)
	d.NoGroups(t)
	disaggregated(t, dir, "docker", "direct", rows)
}

// A dynamoBox is a container that runs Dynamo's image, in which nothing is started yet.
type dynamoBox struct {
	*dockertest.Daemon
	id string
}

// startDynamoBox starts the container that the shipped plan is for, as its header says.
func startDynamoBox(t *testing.T) dynamoBox {
	t.Helper()
	needDynamo(t)
	need(t, "engines:docker", ".engines/docker/rootfs.tar")
	d := dockertest.Start(t, ".")
	t.Setenv("DOCKER_HOST", d.Host)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	packages := dynamoPackages(t)
	folder, err := filepath.Abs(".engines/dynamo")
	if err != nil {
		t.Fatal(err)
	}
	id := d.Idle(t, "dynamo", container.Config{
		Image: d.Image(t), Env: []string{"PYTHONPATH=" + packages},
	}, folder+":/opt/dynamo:ro")
	b := dynamoBox{d, id}
	if inside, want := b.sh(t, `python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])'`), filepath.Base(filepath.Dir(packages)); strings.TrimSpace(inside) != want {
		t.Fatalf("Dynamo was installed for %s, and the image has %s: remove .engines/dynamo, set PYTHON, run task engines:dynamo", want, inside)
	}
	return b
}

func (b dynamoBox) sh(t *testing.T, script string) string {
	t.Helper()
	return b.Exec(t, b.id, "sh", "-c", script)
}

// address returns host:port of a port of the container.
func (b dynamoBox) address(t *testing.T, port int) string {
	t.Helper()
	res, err := b.API.ContainerInspect(t.Context(), b.id, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s:%d", res.Container.NetworkSettings.Networks["bridge"].IPAddress, port)
}

// listening returns the lines of /proc/net/tcp of sockets that listen.
func (b dynamoBox) listening(t *testing.T) string {
	return b.sh(t, "cat /proc/net/tcp /proc/net/tcp6 | grep ' 0A '; true")
}

// asItWas holds that the container runs, and that nothing of sweep's is in it.
func (b dynamoBox) asItWas(t *testing.T) {
	t.Helper()
	if all := b.Containers(t); len(all) != 1 || all[0] != "/dynamo running" {
		t.Errorf("containers: %q", all)
	}
	if left := b.sh(t, `cat /proc/[0-9]*/cmdline | tr '\0' ' '`); strings.Contains(left, "dynamo.") || strings.Contains(left, "sweep") {
		t.Errorf("left running: %s", left)
	}
	if left := b.listening(t); left != "" {
		t.Errorf("ports in use:\n%s", left)
	}
	if left := b.sh(t, "ls -A /tmp /var/tmp /dev/shm"); strings.Contains(left, "sweep") {
		t.Errorf("files left: %s", left)
	}
}

// TestDocker_inside: Dynamo's frontend and a worker are started in a container that
// runs; requests go to one port and metrics come from another. When sweep is killed
// they go on, and the resume ends exactly them before it starts others. At the end
// all that is left of those is what each said last.
func TestDocker_inside(t *testing.T) {
	b := startDynamoBox(t)
	dir, events := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "events.jsonl")
	const perWorker = 15
	s := start(t, "run", "-o", dir, "--events", events, "--set", fmt.Sprintf("load.requests_per_worker=%d", perWorker), "plans/soak-dynamo.yaml")
	s.until(events, func(e event) bool {
		return e.Type == "trial_progress" && e.Progress != nil && e.Progress.OutputTokens > 0
	})
	if err := s.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.wait()
	if text := page(t, "http://"+b.address(t, 8081)+"/metrics"); !strings.Contains(text, "\ndynamo_component_") {
		t.Errorf("after kill -9 of sweep the second port says\n%s", text)
	}
	s = start(t, "resume", dir)
	ended(t, s.wait())
	b.asItWas(t)

	rows := readRows(t, dir)
	if len(rows) != 1 {
		t.Fatalf("got %d rows, want 1", len(rows))
	}
	r := rows[0]
	usable(t, r)
	n := float64(r.sent(t, 8*perWorker))
	if r["backend"] != "docker" || r["network_path"] != "direct" || r.number(t, "requests") != n || r.number(t, "completed") != n || r.number(t, "output_tokens") != n*64 {
		t.Errorf("%s: on %s by %s, %s of %s requests gave %s tokens", r, r["backend"], r["network_path"], r["completed"], r["requests"], r["output_tokens"])
	}
	r.same(t, "output_tokens", "server_output_tokens", "frontend_server_output_tokens")
	r.same(t, "completed", "frontend_server_requests", "worker_server_requests")
	for file, want := range map[string]string{
		"metrics-frontend.txt": "\ndynamo_frontend_requests_total{", "metrics-worker.txt": "\ndynamo_component_requests_total{",
		"frontend-0.log": "Adding worker set to model", "worker-0.log": "SIGTERM: the engine ends",
	} {
		files, err := filepath.Glob(filepath.Join(dir, "deployments", "*", "l02", file))
		if err != nil || len(files) != 1 {
			t.Errorf("%s: %q, %v", file, files, err)
			continue
		}
		if text, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, without %q:\n%s", file, err, want, text)
		}
	}
}

// page returns the body of an answer.
func page(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
	return string(text)
}
