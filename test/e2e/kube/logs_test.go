//go:build e2e_kube

package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/engine/loglines"
	"sweep.dev/sweep/internal/polltest"
)

// A cutter is a port that leads to the API server, whose connections can be cut.
type cutter struct {
	net.Listener
	to   string
	mu   sync.Mutex
	open []net.Conn
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l, to: to}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", c.to)
			if err != nil {
				from.Close()
				continue
			}
			c.mu.Lock()
			c.open = append(c.open, from, to)
			c.mu.Unlock()
			for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
				all.Go(func() { _, _ = io.Copy(way[0], way[1]); way[0].Close(); way[1].Close() })
			}
		}
	})
	t.Cleanup(func() { l.Close(); c.cut(); all.Wait() })
	return c
}

// cut breaks all connections.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.open {
		if tcp, ok := one.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		one.Close()
	}
	c.open = nil
}

// recorded returns the arguments of a pod that prints a recorded log, from an epoch on, with
// times that are a third of the recorded ones.
func recorded(t *testing.T, file string, epoch time.Time) string {
	t.Helper()
	begin := time.Date(2026, 8, 26, 21, 59, 10, 0, time.UTC)
	args := []string{"replay", fmt.Sprint(epoch.Unix())}
	for line := range strings.Lines(read(t, "../../../engine/loglines/testdata/pd/"+file)) {
		when, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		at, err := time.Parse(time.RFC3339Nano, when)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, fmt.Sprintf("%.6f", at.Sub(begin).Seconds()/3), text)
	}
	list, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return string(list)
}

// The logs of all containers of a stack are followed through broken connections and a
// restart, with the shipped Role alone, and the steps of one request are found in them.
func TestLogs(t *testing.T) {
	sweep := program(t)
	lab.crds(t)
	for user, token := range map[string]string{"reader": readerToken, "nobody": nobodyToken, "lister": listerToken} {
		if err := lab.kubeconfig(user, token); err != nil {
			t.Fatal(err)
		}
	}
	const ns = "logs"
	lab.namespace(t, ns)
	role, _, code := lab.as(t, sweep, "nobody", "probe", "--kube", ns, "--print-role")
	if code != 0 {
		t.Fatalf("--print-role: exit %d", code)
	}
	lab.apply(t, ns, role)
	lab.apply(t, ns, strings.Replace(strings.Replace(role, "name: sweep-attach", "name: lister", 1), "[pods/log]", "[pods/none]", 1))
	for user, role := range map[string]string{"reader": "sweep-attach", "lister": "lister"} {
		lab.apply(t, ns, `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: `+user+`},
			roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: `+role+`}, subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: `+user+`}]}`)
	}
	epoch := time.Now().Add(12 * time.Second)
	lab.apply(t, ns, strings.NewReplacer(
		"ROUTER_EPP", recorded(t, "router.pd-epp-0.epp.log", epoch), "PREFILL_MODELSERVER", recorded(t, "prefill.pd-prefill-0.modelserver.log", epoch),
		"DECODE_ROUTING_PROXY", recorded(t, "decode.pd-decode-0.routing-proxy.log", epoch), "DECODE_MODELSERVER", recorded(t, "decode.pd-decode-0.modelserver.log", epoch),
	).Replace(read(t, "testdata/logs.yaml")))

	proxy := newCutter(t, fmt.Sprintf("127.0.0.1:%d", lab.port))
	config := strings.ReplaceAll(read(t, lab.file("reader.kubeconfig")), lab.server(), "https://"+proxy.Addr().String())
	through := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(through, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(t.TempDir(), "logs")
	polltest.Until(t, "the counter runs", func() bool {
		stdout, _, code := lab.as(t, sweep, "reader", "probe", "--kube", ns)
		return code == 0 && strings.Contains(stdout, "pd-decode-0")
	})
	cmd := command(t, sweep, "logs", "--kube", ns+"/pd", "--save", saved)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+through)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// lines are those that a saved file has.
	lines := func(name string) []string {
		text, err := os.ReadFile(filepath.Join(saved, name))
		if err != nil {
			return nil
		}
		var list []string
		for line := range strings.Lines(string(text)) {
			_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			list = append(list, rest)
		}
		return list
	}
	const counter = "decode.pd-decode-0.counter.log"
	for i := range 4 {
		before := len(lines(counter))
		polltest.Until(t, "the counter's log goes on", func() bool { return len(lines(counter)) > before+150 })
		if i < 3 {
			proxy.cut()
		}
	}
	polltest.Until(t, "the recorded lines are there", func() bool {
		return strings.Contains(strings.Join(lines("decode.pd-decode-0.modelserver.log"), "\n"), "KV Transfer metrics")
	})
	polltest.Until(t, "the counter was restarted", func() bool { return len(lines("decode.pd-decode-0.counter.previous-0.log")) >= 4000 })
	polltest.Until(t, "the counter's new log is there", func() bool { return len(lines(counter)) > 4200 })
	proxy.cut()
	before := len(lines(counter))
	polltest.Until(t, "the counter's log goes on", func() bool { return len(lines(counter)) > before+150 })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit %d\n%s", code, stderr.String())
	}
	t.Log("\n" + stderr.String())

	// No line of the counter is lost and none comes twice, through five connections and a
	// restart. Its two outputs may change places.
	var first, second []int
	dead := false
	for _, line := range lines(counter) {
		var n int
		switch _, err := fmt.Sscanf(line, "count %d", &n); {
		case line == "CUDA error: out of memory":
			dead = true
		case err != nil:
			t.Fatalf("line %q", line)
		case dead:
			second = append(second, n)
		default:
			first = append(first, n)
		}
	}
	for name, list := range map[string][]int{"before": first, "after": second} {
		times := map[int]int{}
		for _, n := range list {
			times[n]++
		}
		for n := 1; n <= len(list); n++ {
			if times[n] != 1 {
				t.Errorf("%s the restart: number %d of %d comes %d times", name, n, len(list), times[n])
				break
			}
		}
	}
	if len(first) != 3999 || !dead || len(second) < 100 {
		t.Errorf("%d numbers before the restart, its last line there: %v, %d after it", len(first), dead, len(second))
	}
	for file, want := range map[string]string{
		"router.pd-epp-0.epp.log": "Refreshed metrics", "decode.pd-decode-0.routing-proxy.log": "[::1]:8001", "prefill.pd-prefill-0.modelserver.log": "Finished sending",
	} {
		if text := strings.Join(lines(file), "\n"); !strings.Contains(text, want) {
			t.Errorf("%s has no %q\n%s", file, want, text)
		}
	}
	if view := stdout.String(); !strings.Contains(view, "router/pd-epp-0/epp") || !strings.Contains(view, "decode/pd-decode-0/routing-proxy") || strings.Contains(view, "Refreshed metrics") ||
		strings.Contains(view, "[::1]:8001") || strings.Contains(view, "GET /metrics") {
		t.Errorf("the view is\n%.3000s", view)
	}
	if !strings.Contains(stderr.String(), "lines of noise left out") || !strings.Contains(stderr.String(), "counter: it was restarted once") {
		t.Errorf("stderr is\n%s", stderr.String())
	}

	const request = "710a2ee7-fb67-4151-a3b9-56ad753fb55a"
	for name, args := range map[string][]string{"the cluster": {"--kube", ns + "/pd"}, "files": {saved}} {
		stdout, stderr, code := lab.as(t, sweep, "reader", append([]string{"logs", "--timeline", "--json", "--request", request}, args...)...)
		var told loglines.Timeline
		if err := json.Unmarshal([]byte(stdout), &told); err != nil || code != 0 {
			t.Fatalf("%s: exit %d, %v\n%s", name, code, err, stderr)
		}
		if len(told.Steps) != 14 || len(told.Missing) != 0 {
			t.Errorf("%s: %d steps, missing %+v", name, len(told.Steps), told.Missing)
		}
	}
	text, _, _ := lab.as(t, sweep, "reader", "logs", "--timeline", "--request", request, "--kube", ns+"/pd")
	for _, want := range []string{"score=0.9967988", "remote_block_ids=[8,9,10,11]", "remote_host=10.0.1.7", "remote_blocks=4", "NIXL handshake", "Finished recving", "Finished sending"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	t.Log("\n" + text)

	for user, want := range map[string]string{"nobody": "nobody may not list pods in namespace logs", "lister": "lister may not get pods/log in namespace logs"} {
		_, stderr, code := lab.as(t, sweep, user, "logs", "--kube", ns+"/pd")
		if code != 8 || !strings.Contains(stderr, want) || !strings.Contains(stderr, "--print-role") {
			t.Errorf("%s: exit %d: %s", user, code, stderr)
		}
	}
}
