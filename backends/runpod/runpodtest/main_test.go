package runpodtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/backends/runpod/runpodtest/podtest"
	"sweep.dev/sweep/internal/guard"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/sim"
)

// asSweep makes this test binary the sim command of sweep, asProgram the emulator's
// program, whose pods have RUNPOD_POD_ID alone.
const (
	asSweep   = "RUNPODTEST_AS_SWEEP"
	asProgram = "RUNPODTEST_AS_PROGRAM"
)

func TestMain(m *testing.M) {
	guard.Main()
	polltest.Parallel(8) // they wait for pods
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	switch {
	case os.Getenv(asSweep) != "", os.Getenv("RUNPOD_POD_ID") != "":
		os.Exit(sim.Main(ctx, os.Args[2:], os.Stdout, os.Stderr))
	case os.Getenv(asProgram) != "":
		os.Exit(Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
	}
	stop()
	goleak.VerifyTestMain(m)
}

// start starts an emulator whose image "test/sh" runs its args in a shell.
func start(t *testing.T, o Options) *Emulator {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.Sweep = []string{"env", asSweep + "=1", self}
	o.Images = append(o.Images, podtest.Image{Pattern: "test/sh*", Entrypoint: []string{"/bin/sh", "-c"}})
	if o.RestartDelay == 0 {
		o.RestartDelay = 10 * time.Millisecond
	}
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// A reply is what came back.
type reply struct {
	status int
	header http.Header
	raw    []byte
	body   map[string]any
}

func (r reply) String() string { return fmt.Sprintf("%d %s", r.status, r.raw) }

// send sends a request; its error is that of the connection.
func send(ctx context.Context, e *Emulator, key, method, path string, body any) (reply, error) {
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = bytes.NewReader([]byte(b))
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return reply{}, err
		}
		in = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, e.URL()+path, in)
	if err != nil {
		return reply{}, err
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}, err
	}
	out := reply{status: resp.StatusCode, header: resp.Header, raw: raw}
	_ = json.Unmarshal(raw, &out.body) // not every answer is JSON
	return out, nil
}

// ask sends a request with the account's key and wants a status. Where the
// OpenAPI document is present the answer has to be valid by it.
func ask(t *testing.T, e *Emulator, want int, method, path string, body any) reply {
	t.Helper()
	got := askAs(t, e, e.Key(), want, method, path, body)
	checkAnswer(t, method, path, got)
	return got
}

func askAs(t *testing.T, e *Emulator, key string, want int, method, path string, body any) reply {
	t.Helper()
	got, err := send(t.Context(), e, key, method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if got.status != want {
		t.Fatalf("%s %s: %v, want %d", method, path, got, want)
	}
	return got
}

// request returns a create of a pod that runs a script.
func request(name, script string) map[string]any {
	return map[string]any{
		"name": name, "image": "test/sh:1", "args": podtest.Quote(script), "disk": 30,
		"gpu": map[string]any{"id": "NVIDIA L4", "count": 1}, "ports": []string{"8000/tcp", "8000/http"},
	}
}

const forever = "echo up; exec tail -f /dev/null"

// create makes a pod and returns its id.
func create(t *testing.T, e *Emulator, name, script string) string {
	t.Helper()
	return ask(t, e, http.StatusCreated, "POST", "/v2/pods", request(name, script)).body["id"].(string)
}

// pod is a pod as the API has it; nil if it has none.
func look(t *testing.T, e *Emulator, id string) map[string]any {
	t.Helper()
	got, err := send(t.Context(), e, e.Key(), "GET", "/v2/pods/"+id, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.status == http.StatusNotFound {
		return nil
	}
	checkAnswer(t, "GET", "/v2/pods/"+id, got)
	return got.body
}

// names returns what a list has.
func names(t *testing.T, e *Emulator) []string {
	t.Helper()
	found := []string{}
	for _, p := range ask(t, e, http.StatusOK, "GET", "/v2/pods", nil).body["pods"].([]any) {
		found = append(found, p.(map[string]any)["name"].(string))
	}
	return found
}

// inTime tries what looks at something that lasts for a while only: again and for
// longer where a busy machine let it look too late. try returns what was wrong.
func inTime(t *testing.T, try func(lasts time.Duration) (wrong string)) {
	t.Helper()
	for lasts := 200 * time.Millisecond; ; lasts *= 4 {
		wrong := try(lasts)
		if wrong == "" {
			return
		}
		if lasts > 10*time.Second {
			t.Fatal(wrong)
		}
	}
}

// running waits until a pod's container has been started.
func running(t *testing.T, e *Emulator, id string) map[string]any {
	t.Helper()
	var p map[string]any
	polltest.Until(t, "the pod has a runtime", func() bool {
		p = look(t, e, id)
		return p != nil && p["runtime"] != nil
	})
	return p
}

// port returns the public port of a private one.
func port(t *testing.T, p map[string]any, private float64, kind string) int {
	t.Helper()
	for _, x := range p["runtime"].(map[string]any)["ports"].([]any) {
		if m := x.(map[string]any); m["private"] == private && m["type"] == kind {
			return int(m["public"].(float64))
		}
	}
	t.Fatalf("no port %v/%s in %v", private, kind, p)
	return 0
}

// lines returns the lines of a pod's log so far.
func lines(e *Emulator, id, source string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []string
	for _, p := range e.pods {
		if p.id != id {
			continue
		}
		all, _ := p.log.after(0)
		for _, l := range all {
			if l.Source == source {
				found = append(found, l.Line)
			}
		}
	}
	return found
}
