package podtest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"sweep.dev/sweep/internal/guard"
	"sweep.dev/sweep/internal/polltest"
)

func TestMain(m *testing.M) {
	guard.Main()
	goleak.VerifyTestMain(m)
}

func TestCommand(t *testing.T) {
	vllm := Image{Entrypoint: []string{"vllm", "serve"}, Cmd: []string{"--help"}}
	plain := Image{Cmd: []string{"bash"}}
	for _, c := range []struct {
		image Image
		args  string
		want  []string // nil is an error
	}{
		{vllm, "", []string{"vllm", "serve", "--help"}},
		{vllm, "m --port 8000", []string{"vllm", "serve", "m", "--port", "8000"}},
		// The classic mistake stays one.
		{vllm, "vllm serve m", []string{"vllm", "serve", "vllm", "serve", "m"}},
		{vllm, `{"cmd":["m"]}`, []string{"vllm", "serve", "m"}},
		{vllm, `{"entrypoint":["sh","-c"],"cmd":["a b"]}`, []string{"sh", "-c", "a b"}},
		{vllm, `{"entrypoint":["sh"]}`, []string{"sh"}}, // which clears CMD
		{plain, "", []string{"bash"}},
		{plain, `python3 -m "a b" 'c"d' e\ f "g\"h" ''`, []string{"python3", "-m", "a b", `c"d`, "e f", `g"h`, ""}},
		{plain, `{"cmds":["m"]}`, nil},
		{plain, `'open`, nil},
		{plain, `end\`, nil},
		{Image{}, "", nil},
	} {
		got, err := c.image.Command(c.args)
		if (err != nil) != (c.want == nil) || !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, %v, want %q", c.args, got, err, c.want)
		}
	}
	words := []string{"a b", `it's "so"`, "", `\`, "$HOME"}
	if got, err := split(Quote(words...)); err != nil || !slices.Equal(got, words) {
		t.Errorf("quoted and split: %q, %v", got, err)
	}
}

func TestFind(t *testing.T) {
	images := []Image{{Pattern: "vllm/vllm-openai:v1*"}, {Pattern: "vllm/*"}, {Pattern: "**"}}
	for ref, want := range map[string]int{
		"vllm/vllm-openai:v1.2": 0, "vllm/vllm-openai@sha256:00": 1, "ghcr.io/a/b:c": 2,
	} {
		if got, ok := Find(images, ref); !ok || got.Pattern != images[want].Pattern {
			t.Errorf("%s: %q", ref, got.Pattern)
		}
	}
	if _, ok := Find(images[:2], "other"); ok {
		t.Error("an image that nobody has was found")
	}
}

func TestRemap(t *testing.T) {
	ports := map[int]int{8000: 12000, 9000: 13000}
	argv := []string{"x", "--host", "0.0.0.0", "--port", "8000", "--max-model-len", "8000", "--metrics-port=9000", "--len=9000", "-p", "8000", "0.0.0.0:9000", "--port=1", "--host=0.0.0.0", "8000"}
	want := []string{"x", "--host", "127.0.0.1", "--port", "12000", "--max-model-len", "8000", "--metrics-port=13000", "--len=9000", "-p", "12000", "127.0.0.1:13000", "--port=1", "--host=127.0.0.1", "8000"}
	env := map[string]string{"SWEEP_AGENT_PORT": "9000", "LEN": "8000", "BIND": "0.0.0.0", "RUNPOD_TCP_PORT_8000": "8000", "PORTS": "8000", "API": "http://127.0.0.1:9000/v2", "MANY": `[{"argv":["x","--port","8000","8000"],"env":{"LEN":"8000","PORT":"9000"},"n":8000}]`, "ONE": `{"PORT":"8000"}`}
	wantEnv := map[string]string{"SWEEP_AGENT_PORT": "13000", "LEN": "8000", "BIND": "127.0.0.1", "RUNPOD_TCP_PORT_8000": "8000", "PORTS": "8000", "API": "http://127.0.0.1:9000/v2", "MANY": `[{"argv":["x","--port","12000","8000"],"env":{"LEN":"8000","PORT":"13000"},"n":8000}]`, "ONE": `{"PORT":"8000"}`}
	before := slices.Clone(argv)
	got, gotEnv := Remap(argv, env, ports)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("argv (-want +got): %s", diff)
	}
	if diff := cmp.Diff(wantEnv, gotEnv); diff != "" {
		t.Errorf("env (-want +got): %s", diff)
	}
	if !slices.Equal(before, argv) || env["BIND"] != "0.0.0.0" {
		t.Error("the caller's own were changed")
	}
}

// TestStart: output in order to its last line without an end, programs, a clean
// environment, the exit status, and an end that leaves nothing.
func TestStart(t *testing.T) {
	t.Setenv("PODTEST_SECRET", "ours")
	var mu sync.Mutex
	var lines []string
	spec := Spec{
		Dir:   filepath.Join(t.TempDir(), "pod"),
		Image: Image{Entrypoint: []string{"/bin/sh", "-c"}, Env: map[string]string{"A": "image", "B": "image"}, Programs: map[string]string{"hello": "echo hello {name} $1\n"}},
		Args:  Quote(`hello "$A$B"; echo "[$PODTEST_SECRET]" >&2; printf end; exit 3`),
		Env:   map[string]string{"B": "pod"},
		Words: map[string]string{"name": "you"},
		Grace: 100 * time.Millisecond,
		Line: func(s string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, s)
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Start(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Done():
	case <-ctx.Done():
		t.Fatal("it never ended")
	}
	if diff := cmp.Diff([]string{"hello you imagepod", "[]", "end"}, lines); diff != "" || c.Code() != 3 {
		t.Errorf("status %d, output (-want +got): %s", c.Code(), diff)
	}
	if err := c.Stop(ctx); err != nil {
		t.Error(err)
	}

	// A second start in the same folder tells only of itself; its end reaches
	// what has left its process group and does not listen.
	lines = nil
	spec.Args = Quote(`trap '' TERM; setsid sh -c 'trap "" TERM; echo ready; while :; do sleep 1; done' & wait; sleep 60`)
	c, err = Start(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "it says something", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(lines) > 0
	})
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(lines, " "); got != "ready" {
		t.Errorf("output %q", got)
	}
	if len(c.PIDs()) != 0 || c.Code() != 128+9 {
		t.Errorf("left: %v, status %d", c.PIDs(), c.Code())
	}

	spec.Args = "{"
	if _, err := Start(ctx, spec); err == nil {
		t.Error("args that are no JSON were started")
	}
	if _, err := os.Stat(filepath.Join(spec.Dir, "log")); err != nil {
		t.Error(err)
	}
}
