package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/secret"
)

// The text of a pod fits on a terminal if any of its fields is unknown, and never has
// the key.
func TestUsableRow_text(t *testing.T) {
	t.Parallel()
	name := "sw-" + strings.Repeat("0", 8) + "-" + strings.Repeat("r", 16) + "-" + strings.Repeat("s", 8) + "-x1234567"
	server := backends.Access{
		Listener: backends.Listener{Engine: "vllm", Model: strings.Repeat("long ", 30), Role: "server", Entry: true, KeyEnv: "VLLM_API_KEY"},
		URL:      "http://127.0.0.1:8000", Path: host.Direct, Network: strings.Repeat("in words ", 20),
		Key: secret.New("${VLLM_API_KEY}", "CANARY"), KeyAt: "its place", Why: map[string]string{backends.AccessMetrics: "nobody knows"},
	}
	tunnelled, keyless, lost, worker := server, server, server, server
	tunnelled.Path, tunnelled.Tunnel = host.Tunnel, []string{"ssh", "-N", "-L", "8000:127.0.0.1:8000", "-i", "/home/a b/.ssh/id_ed25519", "-o", "UserKnownHostsFile=/home/a/known_hosts", "bench@gpu.example.com"}
	keyless.Key, keyless.KeyEnv, keyless.Why = secret.String{}, "", map[string]string{backends.AccessKey: "it has none"}
	lost.URL, lost.Why = "", map[string]string{backends.AccessURL: "it is stopped", backends.AccessMetrics: "it is stopped"}
	worker.Role, worker.Replica, worker.Entry, worker.Metrics = "worker", 1, false, []string{"http://127.0.0.1:8001/metrics", "http://127.0.0.1:8001/prometheus/metrics"}

	for what, c := range map[string]struct {
		list []backends.Access
		why  string
		file string
		has  []string
		not  []string
	}{
		"a key": {
			list: []backends.Access{server},
			has: []string{
				"  metrics   none: nobody knows\n", "  key       VLLM_API_KEY, in its place\n",
				"  sweep pods show --key-file sweep.key \\\n    " + name + "\n", "  sweep probe --key-file sweep.key http://127.0.0.1:8000\n",
				"  sed 's/^/Authorization: Bearer /' <sweep.key |\n    curl -sS -H @- http://127.0.0.1:8000/v1/models\n",
			},
		},
		"a key in a file": {
			list: []backends.Access{server}, file: "my key",
			has: []string{"its place, and in my key\n", "  sweep probe --key-file 'my key' http://127.0.0.1:8000\n", "<'my key' |\n"},
			not: []string{"pods show"},
		},
		"no key": {
			list: []backends.Access{keyless},
			has:  []string{"  key       none: it has none\n", "  sweep probe http://127.0.0.1:8000\n  curl -sS http://127.0.0.1:8000/v1/models\n"},
			not:  []string{"--key-file"},
		},
		"a tunnel": {
			list: []backends.Access{tunnelled},
			has: []string{
				"  # in a terminal of its own", "  ssh -N -L 8000:127.0.0.1:8000 -i '/home/a b/.ssh/id_ed25519' -o \\\n    UserKnownHostsFile=/home/a/known_hosts bench@gpu.example.com\n",
				"  # and here:\n  sweep pods show",
			},
		},
		"nowhere":       {list: []backends.Access{lost}, has: []string{"  url       none: it is stopped\n", "  key       VLLM"}, not: []string{"To use it", "metrics", "network"}},
		"several roles": {list: []backends.Access{worker, server}, has: []string{"\nworker 1\n", "\nserver\n", "8001/metrics or\n            http://127.0.0.1:8001/prometheus", "probe --key-file sweep.key http://127.0.0.1:8000\n"}},
		"nothing":       {why: "its provider was not asked", has: []string{"  access    not known: its provider was not asked\n"}, not: []string{"To use it", "engine"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := usableRow{podRow: podRow{Name: name, ID: "id", Backend: "runpod", RunID: "run", USDPerHour: 0.5, Expires: time.Now()}}
			for _, a := range c.list {
				r.Access = append(r.Access, accessRowOf(a))
			}
			if c.why != "" {
				r.WhyNull = map[string]string{"access": c.why}
			}
			text := r.text(time.Now(), c.file)
			for _, has := range c.has {
				if !strings.Contains(text, has) {
					t.Errorf("%q is not in\n%s", has, text)
				}
			}
			for _, not := range append(c.not, "CANARY") {
				if strings.Contains(text, not) {
					t.Errorf("%q is in\n%s", not, text)
				}
			}
			if i := slices.IndexFunc(strings.Split(text, "\n"), func(line string) bool { return len(line) > showWidth }); i >= 0 {
				t.Errorf("line %d is wider than a terminal:\n%s", i+1, text)
			}
		})
	}
}

// A key comes from one place, and a message about a file has nothing of it.
func TestKeyOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"two": "CANARY CANARY", "lines": "CANARY\nCANARY\n", "blank": " \n", "empty": "", "long": strings.Repeat("CANARY", maxKey), "bell": "CANARY\a"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--key-file", "two"}, "two: want the key alone, on one line"},
		{[]string{"--key-file", "lines"}, "want the key alone"},
		{[]string{"--key-file", "blank"}, "want the key alone"},
		{[]string{"--key-file", "bell"}, "want the key alone"},
		{[]string{"--key-file", "empty"}, "it is empty"},
		{[]string{"--key-file", "long"}, "too large"},
		{[]string{"--key-file", "nosuch"}, "no such file"},
		{[]string{"--key-file", "."}, "is a directory"},
		{[]string{"--key-file", "two", "--key-env", "HOME"}, "only one of them"},
		{[]string{"--key-env", "SWEEP_TEST_NOSUCH"}, "SWEEP_TEST_NOSUCH is not set"},
	} {
		for _, command := range [][]string{{"probe"}, {"probe", "metrics"}} {
			r := sweep(t, dir, nil, slices.Concat(command, c.args, []string{"http://127.0.0.1:1"})...)
			if r.code != exitUsage || !strings.Contains(r.stderr, c.want) || strings.Contains(r.stdout+r.stderr, "CANARY") {
				t.Errorf("%s %v: exit %d, want %q\n%s%s", command, c.args, r.code, c.want, r.stdout, r.stderr)
			}
		}
	}
}
