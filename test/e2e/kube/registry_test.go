//go:build e2e_kube

package kube

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/pods"
)

// registryProgram builds the registry of tools/registry.
func registryProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "registry")
	build := exec.Command("go", "build", "-C", "../../../tools/registry", "-trimpath", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// registry starts a registry of this machine, which ends with the test or before.
func registry(t *testing.T, program string, args ...string) (addr string, stop func()) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(stop)
	addr, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(addr), stop
}

// held keeps a port of 127.0.0.1 that nobody listens at, so that nobody else gets it.
func held(t *testing.T, addr string) {
	t.Helper()
	at := netip.MustParseAddrPort(addr)
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		t.Fatal(err)
	}
}

// credentials makes a Secret for a registry.
func (n *node) credentials(t *testing.T, ns, name, registry, password string) {
	t.Helper()
	auth := base64.StdEncoding.EncodeToString([]byte("sweep:" + password))
	config := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, registry, auth)
	body, _ := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
		"metadata": map[string]any{"name": name}, "stringData": map[string]string{".dockerconfigjson": config},
	})
	if err := n.send(http.MethodPost, "/api/v1/namespaces/"+ns+"/secrets", "application/json", body); err != nil {
		t.Fatal(err)
	}
}

// An image that a real registry does not have, does not give to the node, or does not
// answer for, has its class and its advice. With that advice it is pulled.
func TestDeploy_registry(t *testing.T) {
	t.Parallel()
	const password = "of-the-tests"
	program := registryProgram(t)
	open, _ := registry(t, program)
	closed, _ := registry(t, program, "--password", password)
	down, stop := registry(t, program)
	stop()
	held(t, down)
	if err := errors.Join(lab.ctr("images", "push", "--plain-http", open+"/app:1", appImage),
		lab.ctr("images", "push", "--plain-http", "--user", "sweep:"+password, closed+"/app:1", appImage)); err != nil {
		t.Fatal(err)
	}
	of := func(image string, secrets ...string) try {
		return try{image: image, config: pods.Config{Pull: "always", PullSecrets: secrets}}
	}
	for name, f := range map[string]fate{
		"no image":       {of: of(open + "/nothere:1"), class: "image", text: []string{"not found"}, hint: "engines.NAME.image", is: backends.ErrSpec},
		"no tag":         {of: of(open + "/app:2"), class: "image", text: []string{"not found"}, hint: "its tag", is: backends.ErrSpec},
		"no password":    {of: of(closed + "/app:1"), class: "image", text: []string{"401 Unauthorized"}, hint: "pull_secrets in backend.deploy", is: backends.ErrSpec},
		"wrong password": {of: of(closed+"/app:1", "wrong"), class: "image", text: []string{"401 Unauthorized"}, hint: "pull_secrets in backend.deploy", is: backends.ErrSpec},
		"limit":          {of: of(open + "/limited/app:1"), class: "registry", text: []string{"429 Too Many Requests"}, hint: "limits pulls"},
		"down":           {of: of(down + "/app:1"), class: "registry", text: []string{"connection refused"}, hint: "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := "registry-" + strings.ReplaceAll(name, " ", "-")
			lab.deployable(t, ns, deployPlan)
			lab.credentials(t, ns, "wrong", closed, "guessed")
			lab.fails(t, ns, f)
		})
	}
	t.Run("password", func(t *testing.T) {
		t.Parallel()
		const ns = "registry-password"
		lab.deployable(t, ns, deployPlan)
		lab.credentials(t, ns, "right", closed, password)
		lab.pulled(t, ns, of(closed+"/app:1", "right"))
	})
	// A registry that is away for a moment is no failure.
	t.Run("back", func(t *testing.T) {
		t.Parallel()
		const ns = "registry-back"
		lab.deployable(t, ns, deployPlan)
		gate := newGate(t, open)
		gate.shut()
		back := time.AfterFunc(5*time.Second, gate.open)
		defer back.Stop()
		lab.pulled(t, ns, of(gate.addr+"/app:1"))
	})
}

// A user's own manifests whose image a real registry does not give have the same classes,
// and advice that speaks of the manifest.
func TestManifests_registry(t *testing.T) {
	t.Parallel()
	const password = "of-the-tests"
	sweep, program := program(t), registryProgram(t)
	open, _ := registry(t, program)
	closed, _ := registry(t, program, "--password", password)
	down, stop := registry(t, program)
	stop()
	held(t, down)
	for ns, c := range map[string]struct {
		image, secret string
		want          []string
	}{
		"manifests-none":  {open + "/nothere:1", "", []string{"did not start: image: ", "not found", "its tag in the manifest"}},
		"manifests-guess": {closed + "/app:1", "imagePullSecrets: [{name: wrong}]", []string{"did not start: image: ", "401 Unauthorized", "imagePullSecrets in the manifest"}},
		"manifests-limit": {open + "/limited/app:1", "", []string{"did not start: registry: ", "429 Too Many Requests", "imagePullSecrets in the manifest"}},
		"manifests-down":  {down + "/app:1", "", []string{"did not start: registry: ", "connection refused", "the host of image in the manifest"}},
	} {
		t.Run(ns, func(t *testing.T) {
			t.Parallel()
			plan := lab.manifested(t, sweep, ns)
			lab.credentials(t, ns, "wrong", closed, "guessed")
			withoutGPUs(t, plan, func(text string) string {
				text = strings.Replace(text, "image: "+appImage+"\n          imagePullPolicy: Never", "image: "+c.image+"\n          imagePullPolicy: Always", 1)
				return strings.Replace(text, "      dnsPolicy: Default\n", "      dnsPolicy: Default\n      "+c.secret+"\n", 1)
			})
			lab.neverReady(t, sweep, ns, plan, append(c.want, "container modelserver of pod prefill-"))
		})
	}
}

// pulled launches a server whose image the node pulls, and ends it.
func (n *node) pulled(t *testing.T, ns string, of try) {
	t.Helper()
	of.ns = ns
	begun := time.Now()
	d, _, err := n.serve(t, of)
	if err != nil {
		t.Fatal(err)
	}
	rental, _ := d.(backends.Rental)
	if digest := rental.Terms().ImageDigest; !strings.HasPrefix(digest, "sha256:") {
		t.Errorf("image_digest is %q", digest)
	}
	t.Logf("it runs after %.1f s", time.Since(begun).Seconds())
}
