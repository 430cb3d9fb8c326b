package bootstrap

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/internal/slow"
)

// several returns options of a pod of three replicas: two that stay, and one that says
// what it was given and ends.
func several(t *testing.T, o Options) Options {
	t.Helper()
	files := filepath.Join(t.TempDir(), "files")
	o = withAgent(t, o)
	o.FilesDir, o.Files = files, map[string][]byte{}
	stays := sh(`echo "first of $WHO"; trap '' HUP; sleep 1000`)
	o.Replicas = []Replica{
		{Name: "worker 0", Argv: stays, Env: map[string]string{"WHO": "worker 0"}},
		{
			Name: "worker 1", Env: map[string]string{"WHO": "it's $HOME"}, Dir: files + "/w1", Files: map[string]string{"a.yaml": "text: ü\n"},
			Argv: []string{"/bin/sh", "-c", `printf '%s|' "$WHO" "$@"; cat "$0"; printf '%s' "${SWEEP_REPLICAS-none}${SWEEP_TOKEN-none}"; exit 7`, files + "/w1/a.yaml", "it's", `"x"`, "$(id)"},
		},
		{Name: "frontend", Argv: stays, Env: map[string]string{"WHO": "frontend"}},
	}
	return o
}

func (p *pod) start(n int) {
	p.t.Helper()
	p.up()
	if err := p.agent.Start(p.t.Context(), n); err != nil {
		p.t.Fatal(err)
	}
}

// output returns a replica's log to its end.
func (p *pod) output(n int) string {
	p.t.Helper()
	r, err := p.agent.LogOf(p.t.Context(), n, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// Each replica is started when that was said, with what is its own; its end is its
// own too.
func TestReplicas(t *testing.T) {
	t.Parallel()
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rent(t, rental{shell: shell, Options: several(t, Options{Grace: time.Second})})
			p.start(1)
			p.start(1) // is the same start
			if got, want := p.output(1), "it's $HOME|it's|\"x\"|$(id)|text: ü\nnonenone"; got != want {
				t.Errorf("it said %q, want %q", got, want)
			}
			p.says("sweep-bootstrap: worker 1 exited with status 7\n")
			s := p.up()
			if len(s.Exits) != 1 || s.Exits[1] == nil || *s.Exits[1] != 7 || s.Exit != nil || s.Engine == 0 {
				t.Errorf("got %+v", s)
			}
			p.lacks("worker 0 starts")
			p.start(0)
			p.says("worker 0 starts")
			p.lacks("frontend starts")
			if err := p.agent.End(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.ends(0)
		})
	}
}

// Each switch ends all replicas, which are in the engine's group.
func TestReplicas_end(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options Options
		end     func(*pod)
		status  int
	}{
		"lifetime":  {Options{Lifetime: 12 * time.Second}, func(*pod) {}, 124},
		"heartbeat": {Options{Heartbeat: 8 * time.Second}, func(*pod) {}, 124},
		"SIGTERM":   {Options{}, func(p *pod) { _ = p.cmd.Process.Signal(syscall.SIGTERM) }, 143},
		"end":       {Options{}, func(p *pod) { _ = p.agent.End(p.t.Context()) }, 0},
	} {
		if !slow.Tests && name != "heartbeat" && name != "SIGTERM" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.options.Grace = time.Second
			p := rent(t, rental{Options: several(t, c.options)})
			for _, n := range []int{0, 2} {
				p.start(n)
			}
			p.says("frontend starts")
			c.end(p)
			p.ends(c.status)
		})
	}
}

// A replica that cannot be started ends by itself, and the others go on.
func TestReplicas_notThere(t *testing.T) {
	t.Parallel()
	o := several(t, Options{})
	o.Replicas[1].Argv = []string{"/no/such/engine"}
	p := rent(t, rental{Options: o})
	p.start(1)
	if got := p.output(1); !strings.Contains(got, "/no/such/engine: No such file") {
		t.Errorf("it said %q", got)
	}
	if s := p.up(); s.Exits[1] == nil || *s.Exits[1] != 127 || s.Exit != nil {
		t.Errorf("got %+v", s)
	}
	p.start(0)
	p.says("worker 0 starts")
}

// An image without python3 says so and ends.
func TestReplicas_bareImage(t *testing.T) {
	t.Parallel()
	p := rent(t, rental{path: toolbox(t), Options: several(t, Options{})})
	p.says("no python3")
	p.ends(127)
}

func TestReplicas_validate(t *testing.T) {
	t.Parallel()
	good := several(t, Options{Lifetime: time.Minute, Name: "x"})
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Options){
		"without an agent":             func(o *Options) { o.AgentPort = 0 },
		"no command to start worker 0": func(o *Options) { o.Replicas[0].Argv = nil },
		"is not the name of a file":    func(o *Options) { o.Replicas[1].Files = map[string]string{"a/b": ""} },
		"of which a pod takes":         func(o *Options) { o.Replicas[1].Files = map[string]string{"a": strings.Repeat("x", maxFiles)} },
	} {
		o := several(t, Options{Lifetime: time.Minute, Name: "x"})
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
