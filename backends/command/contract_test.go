package command_test

import (
	"cmp"
	"encoding/json"
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
	"sweep.dev/sweep/internal/effect"
)

// example is the provider of docs/providers.md.
const example = "../../docs/providers/local.py"

// unitsVar is where the example has its units; who is killed has those of the test.
const unitsVar = "LOCAL_UNITS"

func TestMain(m *testing.M) {
	if os.Getenv(unitsVar) == "" {
		dir, err := os.MkdirTemp("", "local-units")
		if err != nil {
			panic(err)
		}
		_ = os.Setenv(unitsVar, dir)
	}
	backendtest.Main(m, func(config, dir string, fx *effect.Effects) (backends.Backend, backends.Spec, error) {
		var c command.Config
		if err := json.Unmarshal([]byte(config), &c); err != nil {
			return nil, backends.Spec{}, err
		}
		b, err := command.New(fx, c)
		return b, specIn(dir), err
	})
}

// server answers everything, and ends at /crash. It imports next to nothing: a test
// starts many.
const server = `
import _socket, _thread, os, sys
def serve(conn):
    head = b""
    while b"\r\n\r\n" not in head:
        part = conn.recv(65536)
        if not part:
            break
        head += part
    path = head.split(b" ")[1] if head.count(b" ") > 1 else b"/"
    if path == b"/crash":
        os._exit(3)
    body = os.environ.get(path[1:].decode(), "").encode()
    conn.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    conn.close()
listener = _socket.socket()
listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
listener.bind((sys.argv[1], int(sys.argv[2])))
listener.listen(64)
print("listening", *sys.argv[1:], flush=True)
while True:
    fd, _ = listener._accept()
    _thread.start_new_thread(serve, (_socket.socket(fileno=fd),))
`

// made returns a backend over a program, and a server that runs wherever python3 does.
func made(t *testing.T, program string, change func(*command.Config)) (*command.Backend, backends.Spec) {
	t.Helper()
	c := configOf(program)
	if change != nil {
		change(&c)
	}
	b, err := command.New(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	return b, specIn(t.TempDir())
}

func configOf(program string) command.Config {
	return command.Config{Program: program, Bootstrap: true, Listen: cmp.Or(os.Getenv("SWEEP_TEST_LISTEN"), "127.0.0.1")}
}

// specIn returns such a server with its logs in a folder.
func specIn(dir string) backends.Spec {
	return backends.Spec{
		Owner: "owner", RunID: "run", Pod: "d1-l01", Engine: "python", Model: "none", Grace: 5 * time.Second,
		GPU: os.Getenv("SWEEP_TEST_GPU"),
		Roles: []backends.Role{{
			Name: "server", Replicas: 1, Image: os.Getenv("SWEEP_TEST_IMAGE"),
			LogPath: func(n int) string { return filepath.Join(dir, fmt.Sprintf("server-%d.log", n)) },
			Argv: func(a backends.Address) ([]string, error) {
				return []string{"python3", "-IS", "-c", server, a.Listen(), fmt.Sprint(a.Port)}, nil
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
// the example, or $SWEEP_TEST_PROGRAM. Two roles that each get the other's address need
// addresses that are known before: $SWEEP_TEST_HOST.
func TestContract(t *testing.T) {
	t.Parallel()
	program, where := os.Getenv("SWEEP_TEST_PROGRAM"), os.Getenv("SWEEP_TEST_HOST")
	var late time.Duration // how long it can take until find sees what an ended create has made; 0 is as always
	if program == "" {
		program, where, late = quick(t), "127.0.0.1", time.Second
	}
	options := []backendtest.Option{
		backendtest.Remote(), backendtest.Provisioned(),
		backendtest.SpoilWith(func(s *backends.Spec) { s.Roles[0].Dir = "/no/such/folder" }),
		backendtest.CrashWith(func(t *testing.T, d backends.Deployment) {
			if err := get(t, d, "server", "/crash"); err == nil || strings.Contains(err.Error(), "refused") {
				t.Errorf("the crash: %v", err)
			}
		}),
	}
	killed := configOf(program)
	killed.Host = where
	text, err := json.Marshal(killed)
	if err != nil {
		t.Fatal(err)
	}
	options = append(options, backendtest.Killed(string(text), effect.CommandCreate, effect.CommandSent))
	if where == "" {
		options = append(options, backendtest.OneRole())
	}
	backendtest.Run(t, func(t *testing.T) (backends.Backend, backends.Spec) {
		b, spec := made(t, program, func(c *command.Config) { c.Host = where })
		b.Late = cmp.Or(late, b.Late)
		return b, spec
	}, options...)
}
