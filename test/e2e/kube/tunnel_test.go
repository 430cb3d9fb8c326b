//go:build e2e_kube

package kube

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/polltest"
)

const tunnelPod = `apiVersion: v1
kind: Pod
metadata: {name: inside}
spec:
  terminationGracePeriodSeconds: 1
  dnsPolicy: Default
  containers:
    - {name: app, image: "lab.test/app:1", imagePullPolicy: Never, command: [/sweep, sim, --engine, vllm, --host, 127.0.0.1, --port, "8000", --model, sweep/tiny, --gpu, h100]}
`

// A port that a pod opens on its loopback alone is reached through the API server, by many
// connections at once, and a command in a container gets its input and tells its end.
func TestTunnel(t *testing.T) {
	const ns = "tunnel"
	lab.namespace(t, ns)
	lab.apply(t, ns, tunnelPod)
	lab.address(t, ns, "inside")
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: lab.file("admin.kubeconfig")})
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return api.Dial(ctx, ns, "inside", 8000) }
	client := &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 4}}
	defer client.CloseIdleConnections()

	t.Run("dial", func(t *testing.T) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 4 {
					code, text, err := fetched(client, "http://inside/v1/models")
					if err != nil || code != http.StatusOK || !strings.Contains(string(text), "sweep/tiny") {
						t.Errorf("%d: %s %v", code, text, err)
					}
				}
			})
		}
		all.Wait()
	})
	t.Run("stream", func(t *testing.T) {
		const body = `{"model":"sweep/tiny","stream":true,"max_tokens":50,"ignore_eos":true,"messages":[{"role":"user","content":"hello"}]}`
		resp, err := client.Post("http://inside/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		n, last := 0, ""
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "data: ") {
				n, last = n+1, lines.Text()
			}
		}
		if n < 50 || last != "data: [DONE]" {
			t.Errorf("%d events, the last is %q", n, last)
		}
	})
	t.Run("no listener", func(t *testing.T) {
		conn, err := api.Dial(t.Context(), ns, "inside", 9)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("read: %v", err)
		}
	})
	t.Run("no pod", func(t *testing.T) {
		if _, err := api.Dial(t.Context(), ns, "nowhere", 8000); !kubeapi.NotFound(err) {
			t.Errorf("dial: %v", err)
		}
	})
	t.Run("denied", func(t *testing.T) {
		if err := lab.kubeconfig("nobody", nobodyToken); err != nil {
			t.Fatal(err)
		}
		other, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: lab.file("nobody.kubeconfig")})
		if err != nil {
			t.Fatal(err)
		}
		_, err = other.Dial(t.Context(), ns, "inside", 8000)
		if d, ok := errors.AsType[*kubeapi.Denied](err); !ok || d.Resource != "pods/portforward" {
			t.Errorf("dial: %v", err)
		}
	})
	t.Run("exec", func(t *testing.T) {
		text := make([]byte, 5<<20)
		_, _ = rand.Read(text) // never fails
		var out bytes.Buffer
		run := kubeapi.Command{Namespace: ns, Pod: "inside", Container: "app", Argv: []string{"/app", "sum"}, In: bytes.NewReader(text), Out: &out}
		begun := time.Now()
		if err := api.Exec(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d MiB in %v", len(text)>>20, time.Since(begun))
		if sum := sha256.Sum256(text); strings.TrimSpace(out.String()) != hex.EncodeToString(sum[:]) {
			t.Errorf("sum %s", out.String())
		}
		run.Argv, run.In = []string{"/app", "die", "0s"}, nil
		if e, ok := errors.AsType[*kubeapi.ExitError](api.Exec(t.Context(), run)); !ok || e.Code != 3 {
			t.Errorf("status of a command that fails: %v", e)
		}
		run.Argv = []string{"/nothing"}
		if err := api.Exec(t.Context(), run); err == nil {
			t.Error("a program that is not there ended well")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		run.Argv = []string{"/app"}
		if err := api.Exec(ctx, run); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a command that goes on: %v", err)
		}
	})
}

// fetched gets a page, once the server listens.
func fetched(c *http.Client, url string) (code int, text []byte, err error) {
	polltest.Within(20*time.Second, func() bool {
		var resp *http.Response
		if resp, err = c.Get(url); err != nil {
			return false
		}
		defer resp.Body.Close()
		code = resp.StatusCode
		text, err = io.ReadAll(resp.Body)
		return true
	})
	return code, text, err
}
