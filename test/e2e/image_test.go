//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends/docker/dockertest"
)

// smallPlan is a run of a second on the simulated engine.
const smallPlan = `version: 1
name: small
model: Qwen/Qwen2.5-7B-Instruct
matrix: {engine: vllm, gpu: h100, concurrency: [1], max_tokens: [8]}
backend: {kind: sim}
load: {requests: 8, prompts: {kind: synthetic, input_tokens: 32}}
`

// TestDocker_image: the image of a release runs a plan as a user without rights, with a
// root that cannot be written and without a network.
func TestDocker_image(t *testing.T) {
	need(t, "engines:docker", ".engines/docker/rootfs.tar")
	made := t.TempDir()
	build := exec.Command("go", "run", "-C", "tools/release", ".", "-C", "../..", "-o", made, "-only", "linux/"+runtime.GOARCH)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("release: %v\n%s", err, out)
	}
	d := dockertest.Start(t, ".")
	name := load(t, d, made)

	runs := t.TempDir()
	if err := os.Chmod(runs, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(runs, "plan.yaml"), []byte(smallPlan), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out := in(t, d, name, runs, "run", "-o", "/runs/small", "plan.yaml")
	if code != 0 && code != 3 { // a busy machine may make the trial INVALID
		t.Fatalf("exit %d\n%s", code, out)
	}
	rows := readRows(t, filepath.Join(runs, "small"))
	if len(rows) != 1 || rows[0].number(t, "completed") < 8 {
		t.Errorf("rows: %v\n%s", rows, out)
	}
	info, err := os.Stat(filepath.Join(runs, "small", "cells.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 65532 {
		t.Errorf("cells.csv is of user %d", owner)
	}
	if code, out = in(t, d, name, runs, "--version"); code != 0 || !strings.HasPrefix(out, "sweep ") {
		t.Errorf("--version: exit %d, %q", code, out)
	}
}

// load gives the daemon the image in dir, and returns the image's name.
func load(t *testing.T, d *dockertest.Daemon, dir string) string {
	t.Helper()
	tars, err := filepath.Glob(filepath.Join(dir, "*.image.tar"))
	if err != nil || len(tars) != 1 {
		t.Fatalf("images: %q, %v", tars, err)
	}
	f, err := os.Open(tars[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	res, err := d.API.ImageLoad(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Close()
	said, err := io.ReadAll(res)
	if err != nil {
		t.Fatal(err)
	}
	_, name, found := strings.Cut(string(said), "Loaded image: ")
	name, _, _ = strings.Cut(name, `\n`)
	if !found {
		t.Fatalf("docker load: %s", said)
	}
	return name
}

// in runs sweep in a container of the image, with a folder at /runs, and returns its
// exit code and what it printed.
func in(t *testing.T, d *dockertest.Daemon, image, runs string, args ...string) (int, string) {
	t.Helper()
	made, err := d.API.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config: &container.Config{Image: image, Cmd: args, Env: []string{"SWEEP_CALIBRATE=never"}},
		HostConfig: &container.HostConfig{
			NetworkMode: "none", ReadonlyRootfs: true, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"},
			Binds: []string{runs + ":/runs"}, Tmpfs: map[string]string{"/tmp": ""},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := d.API.ContainerRemove(context.WithoutCancel(t.Context()), made.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}()
	ended := d.API.ContainerWait(t.Context(), made.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := d.API.ContainerStart(t.Context(), made.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	var code int
	select {
	case err := <-ended.Error:
		t.Fatal(err)
	case res := <-ended.Result:
		code = int(res.StatusCode)
	}
	logs, err := d.API.ContainerLogs(t.Context(), made.ID, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	var out bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &out, logs); err != nil {
		t.Fatal(err)
	}
	return code, out.String()
}
