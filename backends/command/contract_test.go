package command_test

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/command"
)

// example is the provider of docs/providers.md.
const example = "../../docs/providers/local.py"

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "local-units")
	if err != nil {
		panic(err)
	}
	_ = os.Setenv("LOCAL_UNITS", dir)
	backendtest.Main(m)
}

// server answers everything, and ends at /crash.
const server = `
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/crash":
            os._exit(3)
        self.send_response(200); self.end_headers()
        self.wfile.write(os.environ.get(self.path[1:], "").encode())
    do_POST = do_GET
print("listening", *sys.argv[1:], flush=True)
http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
`

// made is a backend over a program, and a server that runs wherever python3 does.
func made(t *testing.T, program string, change func(*command.Config)) (*command.Backend, backends.Spec) {
	t.Helper()
	c := command.Config{Program: program, Bootstrap: true, Listen: cmp.Or(os.Getenv("SWEEP_TEST_LISTEN"), "127.0.0.1")}
	if change != nil {
		change(&c)
	}
	b, err := command.New(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return b, backends.Spec{
		Owner: "owner", RunID: "run", Pod: "d1-l01", Engine: "python", Model: "none", Grace: 5 * time.Second,
		Image: os.Getenv("SWEEP_TEST_IMAGE"), GPU: os.Getenv("SWEEP_TEST_GPU"),
		Roles: []backends.Role{{
			Name: "server", Replicas: 1, Image: os.Getenv("SWEEP_TEST_IMAGE"),
			LogPath: func(n int) string { return filepath.Join(dir, fmt.Sprintf("server-%d.log", n)) },
			Argv: func(a backends.Address) ([]string, error) {
				return []string{"python3", "-c", server, a.Listen(), fmt.Sprint(a.Port)}, nil
			},
		}},
	}
}

// get asks the first replica of a role of d for a path.
func get(t *testing.T, d backends.Deployment, role, path string) error {
	t.Helper()
	h := d.Host(role, 0)
	client := http.Client{Transport: &http.Transport{DialContext: h.Dial, DisableKeepAlives: true}, Timeout: 5 * time.Second}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL()+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// TestContract holds a provider's program against the contract of all backends:
// the example, or $SWEEP_TEST_PROGRAM. Two roles that are both told of each other need
// addresses that are known before: $SWEEP_TEST_HOST.
func TestContract(t *testing.T) {
	t.Parallel()
	program, where := os.Getenv("SWEEP_TEST_PROGRAM"), os.Getenv("SWEEP_TEST_HOST")
	if program == "" {
		program, where = example, "127.0.0.1"
	}
	options := []backendtest.Option{
		backendtest.Remote(),
		backendtest.SpoilWith(func(s *backends.Spec) { s.Roles[0].Dir = "/no/such/folder" }),
		backendtest.CrashWith(func(t *testing.T, d backends.Deployment) {
			if err := get(t, d, "server", "/crash"); err == nil || strings.Contains(err.Error(), "refused") {
				t.Errorf("the crash: %v", err)
			}
		}),
	}
	if where == "" {
		options = append(options, backendtest.OneRole())
	}
	backendtest.Run(t, func(t *testing.T) (backends.Backend, backends.Spec) {
		return made(t, program, func(c *command.Config) { c.Host = where })
	}, options...)
}
