//go:build e2e

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sweep.dev/sweep/backends/docker/dockertest"
)

var inDocker = rig{
	task:   "engines:llamacpp engines:docker",
	files:  []string{".engines/gemma-3-270m-q4_k_m.gguf", ".engines/docker/rootfs.tar"},
	plan:   "plans/docker-local.yaml",
	engine: "llamacpp", backend: "docker",
	low: 1, high: 2, short: 16, long: 32, requests: 6,
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

// TestDocker_grid: the shipped plan measures a real model in a container, every
// row says by its digest what image that was, and no container is left.
func TestDocker_grid(t *testing.T) {
	d := inDocker.docker(t)
	dir := filepath.Join(t.TempDir(), "run")
	s := start(t, "run", "-o", dir, inDocker.plan)
	ended(t, s.wait())
	noContainers(t, d)
	rows := readRows(t, dir)
	if len(rows) != 4 {
		t.Fatalf("got %d rows, want 4", len(rows))
	}
	for _, r := range rows {
		usable(t, r)
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

// TestDocker_sweepKilled: a container outlives sweep, and the resume gives it
// back and measures what is missing.
func TestDocker_sweepKilled(t *testing.T) {
	d := inDocker.docker(t)
	dir := filepath.Join(t.TempDir(), "run")
	events := filepath.Join(t.TempDir(), "events.jsonl")
	s := start(t, "run", "-o", dir, "--events", events, "--only", fmt.Sprintf("max_tokens == %d", inDocker.short), inDocker.plan)
	first := s.until(events, func(e event) bool { return e.Type == "trial_committed" })
	s.until(events, func(e event) bool { return e.Type == "trial_started" && e.Cell != first.Cell })
	if err := s.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.wait()
	left := d.Containers(t)
	if len(left) != 1 || !strings.HasSuffix(left[0], " running") {
		t.Fatalf("after kill -9: %q, want the container still there", left)
	}
	committed := digests(t, filepath.Join(dir, "cells", first.Cell))

	// From elsewhere it is seen, and it is named so that gc could end it.
	pods := start(t, "pods", "--json")
	pods.wait()
	if name := strings.TrimPrefix(strings.TrimSuffix(left[0], " running"), "/"); !strings.Contains(pods.stdout.String(), name) {
		t.Errorf("sweep pods does not list %s:\n%s", name, pods.stdout.String())
	}

	s = start(t, "resume", dir)
	ended(t, s.wait())
	noContainers(t, d)
	rows := readRows(t, dir)
	if len(rows) != 2 {
		t.Fatalf("got %d rows, want 2", len(rows))
	}
	for _, r := range rows {
		usable(t, r)
	}
	after := digests(t, filepath.Join(dir, "cells", first.Cell))
	for file, want := range committed {
		if after[file] != want {
			t.Errorf("%s was committed before the kill and has changed", file)
		}
	}
}
