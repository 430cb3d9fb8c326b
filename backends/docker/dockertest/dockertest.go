// Package dockertest runs a Docker daemon of its own for tests: the real
// dockerd with its own data, socket and bridge, which touches neither another
// daemon of the machine nor the firewall. It needs root and what
// tools/engines/install-docker.sh installs.
package dockertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/internal/polltest"
)

// Task is what makes a machine fit for these tests.
const Task = "engines:docker"

// patience bounds every wait for the daemon.
const patience = 2 * time.Minute

// A Daemon is a running dockerd.
type Daemon struct {
	Host string         // as DOCKER_HOST has it
	API  *client.Client // of the test's own
	root string         // of the repository
}

// lifeScript runs a daemon until its own stdin ends, which it does with the test
// in whatever way: then the daemon is stopped, and with it its containers.
const lifeScript = `
bridge=$1 net=$2; shift 2
ip link add "$bridge" type bridge && ip addr add "$net" dev "$bridge" && ip link set "$bridge" up || exit 1
trap : INT TERM HUP
"$@" &
daemon=$!
read _
kill "$daemon"
wait "$daemon"
ip link del "$bridge"
`

// Start starts a daemon that ends with the test. root is the repository's; the
// images that a daemon had stay in .engines/docker for the next.
func Start(t testing.TB, root string) *Daemon {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("dockerd needs root: run this test as root")
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	for _, program := range []string{"dockerd", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v\nrun: go tool -modfile=tools/go.mod task %s", err, Task)
		}
	}
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "sweep-dockerd-") //nolint:usetesting // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	n := os.Getpid()
	d := &Daemon{Host: "unix://" + filepath.Join(dir, "sock"), root: root}
	cmd := exec.Command("sh", "-c", lifeScript, "dockertest", fmt.Sprintf("swt%d", n), fmt.Sprintf("10.213.%d.1/24", n%250),
		"dockerd", "-H", d.Host, "--data-root", filepath.Join(root, ".engines", "docker", "data"),
		"--exec-root", filepath.Join(dir, "exec"), "-p", filepath.Join(dir, "pid"),
		"--bridge", fmt.Sprintf("swt%d", n), "--iptables=false", "--ip6tables=false", "--ip-masq=false",
		"--live-restore=false", "--shutdown-timeout", "2")
	cmd.Stdout, cmd.Stderr = log, log
	life, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		if d.API != nil {
			_ = d.API.Close()
		}
		life.Close()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("dockerd does not end")
		}
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("the last of dockerd's log:\n%s", text[max(0, len(text)-4000):])
		}
		_ = os.RemoveAll(dir)
	})
	if d.API, err = client.New(client.WithHost(d.Host)); err != nil {
		t.Fatal(err)
	}
	if !polltest.Within(patience, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err = d.API.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err == nil {
			return true
		}
		select {
		case <-ended:
			ended <- nil
			t.Fatalf("dockerd has ended:\n%s", tail(log.Name()))
		default:
		}
		return false
	}) {
		t.Fatalf("dockerd does not answer: %v\n%s", err, tail(log.Name()))
	}
	return d
}

func tail(path string) string {
	text, _ := os.ReadFile(path)
	return string(text[max(0, len(text)-4000):])
}

// Image makes sure that the daemon has the image with llama.cpp's server and
// returns its name, which stands for exactly what was installed. It has sh,
// python3 and no ENTRYPOINT.
func (d *Daemon) Image(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(d.root, ".engines", "docker")
	stamp, err := os.ReadFile(filepath.Join(dir, ".stamp"))
	if err != nil {
		t.Fatalf("%v\nrun: go tool -modfile=tools/go.mod task %s", err, Task)
	}
	name := "sweep-llamacpp:" + strings.TrimSpace(string(stamp))[:12]
	if _, err := d.API.ImageInspect(t.Context(), name); err == nil {
		return name
	}
	f, err := os.Open(filepath.Join(dir, "rootfs.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d.Import(t, f, name, "ENV PYTHONPATH=/opt/llamacpp")
	return name
}

// Tag gives an image another name, for the time of the test.
func (d *Daemon) Tag(t testing.TB, image, name string) {
	t.Helper()
	if _, err := d.API.ImageTag(t.Context(), client.ImageTagOptions{Source: image, Target: name}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// It only removes the name: the image has another.
		if _, err := d.API.ImageRemove(context.WithoutCancel(t.Context()), name, client.ImageRemoveOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// Import makes an image of a root file system.
func (d *Daemon) Import(t testing.TB, tar io.Reader, name string, changes ...string) {
	t.Helper()
	repository, tag, _ := strings.Cut(name, ":")
	r, err := d.API.ImageImport(t.Context(), client.ImageImportSource{Source: tar, SourceName: "-"}, repository,
		client.ImageImportOptions{Tag: tag, Changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if out, err := io.ReadAll(r); err != nil || strings.Contains(string(out), "errorDetail") {
		t.Fatalf("import %s: %s, %v", name, out, err)
	}
}

// Idle starts a container that does nothing until the test ends, with what is to
// be mounted into it, and returns its id.
func (d *Daemon) Idle(t testing.TB, name string, config container.Config, binds ...string) string {
	t.Helper()
	config.Entrypoint = []string{"sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.2; done"}
	made, err := d.API.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Name: name, Config: &config, HostConfig: &container.HostConfig{Binds: binds},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := d.API.ContainerRemove(context.WithoutCancel(t.Context()), made.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.API.ContainerStart(t.Context(), made.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// Exec runs a command in a container, past any backend, and returns its output.
func (d *Daemon) Exec(t testing.TB, id string, argv ...string) string {
	t.Helper()
	made, err := d.API.ExecCreate(t.Context(), id, client.ExecCreateOptions{AttachStdout: true, AttachStderr: true, Cmd: argv})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := d.API.ExecAttach(t.Context(), made.ID, client.ExecAttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var out bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &out, stream.Reader); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Containers returns the names of all containers that the daemon has.
func (d *Daemon) Containers(t testing.TB) []string {
	t.Helper()
	res, err := d.API.ContainerList(context.WithoutCancel(t.Context()), client.ContainerListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range res.Items {
		names = append(names, strings.Join(c.Names, ",")+" "+string(c.State))
	}
	return names
}

// NoGroups holds that the daemon has no network and no volume but its own.
func (d *Daemon) NoGroups(t testing.TB) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	networks, err := d.API.NetworkList(ctx, client.NetworkListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range networks.Items {
		if n.Name != "bridge" && n.Name != "host" && n.Name != "none" {
			t.Errorf("network left: %s", n.Name)
		}
	}
	volumes, err := d.API.VolumeList(ctx, client.VolumeListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range volumes.Items {
		t.Errorf("volume left: %s", v.Name)
	}
}
