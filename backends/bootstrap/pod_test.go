package bootstrap

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/backends/ports"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/internal/pythontest"
	"sweep.dev/sweep/internal/secret"
)

func TestMain(m *testing.M) {
	pythontest.First()
	polltest.Parallel(48)
	goleak.VerifyTestMain(m)
}

const (
	testToken = "tok-canary-0123456789abcdef"
	testKey   = "rpa_canary0123456789ABCDEF"
	patient   = 90 * time.Second // for what has to happen, on a machine that is busy
)

// shells returns those of this machine that a container may have as its sh.
func shells() map[string][]string {
	all := map[string][]string{"sh": {"/bin/sh"}}
	usual, _ := filepath.EvalSymlinks("/bin/sh") // "" is none of those below
	for name, argv := range map[string][]string{
		"dash": {"dash"}, "busybox": {"busybox", "sh"}, "bash": {"bash", "--posix"},
	} {
		if path, err := exec.LookPath(argv[0]); err == nil {
			if real, err := filepath.EvalSymlinks(path); err == nil && real != usual {
				all[name] = append([]string{path}, argv[1:]...)
			}
		}
	}
	return all
}

// python is the interpreter itself: what PATH has may be a script that looks
// for one.
var python = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("python3", "-c", "import os, sys; print(os.path.realpath(sys.executable))").Output()
	return strings.TrimSpace(string(out)), err
})

// fetchers returns the programs of this machine that a pod can delete itself with.
func fetchers() []string {
	all := []string{"python3"}
	for _, name := range []string{"curl", "wget"} {
		if _, err := exec.LookPath(name); err == nil {
			all = append(all, name)
		}
	}
	return all
}

// toolbox returns a PATH with these programs and the few that every image has.
func toolbox(t *testing.T, names ...string) string {
	t.Helper()
	return bare(t, append(names, "grep")...)
}

// bare returns a toolbox without grep, so that the shell itself looks for the engine's
// processes.
func bare(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range append(names, "sh", "sleep", "date", "mkdir", "rm", "mkfifo", "tee", "cat", "wc") {
		path, err := exec.LookPath(name)
		if name == "python3" {
			path, err = python()
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// writeTool puts a program of the test's own into a toolbox.
func writeTool(t *testing.T, box, name, text string) {
	t.Helper()
	if err := os.Remove(filepath.Join(box, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	// A process that was forked meanwhile would have the file open, which then cannot be started.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(filepath.Join(box, name), []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// A rental is what a test starts a pod with.
type rental struct {
	Options
	shell []string  // nil is /bin/sh
	path  string    // "" is that of the test
	disk  string    // TMPDIR; "" is a new one
	out   io.Writer // besides the pod's own
	env   []string
	// source changes the agent's source; nil leaves it.
	source func(string) string
}

// A pod is one running bootstrap.
type pod struct {
	t     *testing.T
	name  string
	mark  map[string]string
	disk  string
	cmd   *exec.Cmd
	out   transcript
	ended chan struct{}
	agent *Agent
	port  int
}

type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
	tee  io.Writer
}

func (o *transcript) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tee != nil {
		if _, err := o.tee.Write(p); err != nil {
			return 0, err // what copies to us gives up, and stdout is a broken pipe
		}
	}
	return o.text.Write(p)
}

func (o *transcript) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// sh returns an engine that is a line of shell.
func sh(line string) []string { return []string{"/bin/sh", "-c", line} }

// withAgent makes options with an agent on a free port of the loopback.
func withAgent(t *testing.T, o Options) Options {
	t.Helper()
	port, err := ports.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.AgentPort, o.AgentHost = port, "127.0.0.1"
	o.Token = secret.New("${TOKEN}", testToken)
	return o
}

// rent starts a pod, which ends with the test at the latest, and fails it where
// a process of the pod outlives the pod.
func rent(t *testing.T, r rental) *pod {
	t.Helper()
	mark := strings.ToLower(rand.Text())
	if r.Name == "" {
		r.Name = "test-" + mark
	}
	if r.Lifetime == 0 {
		r.Lifetime = 10 * time.Minute
	}
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	argv, env := Command(r.Options)
	if r.source != nil {
		env["SWEEP_AGENT_PY"] = r.source(env["SWEEP_AGENT_PY"])
	}
	if r.shell != nil {
		argv = append(slices.Clone(r.shell), argv[1:]...)
	}
	p := &pod{t: t, name: r.Name, disk: r.disk, ended: make(chan struct{}), port: r.AgentPort}
	if p.disk == "" {
		p.disk = t.TempDir()
	}
	p.out.tee = r.out
	p.mark = map[string]string{"BOOTSTRAP_TEST": mark}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Env = slices.Concat(os.Environ(), []string{
		"TMPDIR=" + p.disk, "BOOTSTRAP_TEST=" + mark,
		"POD_ID=pod123", "CLOUD_KEY=" + testKey,
	}, r.env)
	if r.path != "" {
		p.cmd.Env = append(p.cmd.Env, "PATH="+r.path)
	}
	for k, v := range env {
		p.cmd.Env = append(p.cmd.Env, k+"="+v)
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.cmd.WaitDelay = 5 * time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the state says it
	}()
	t.Cleanup(func() {
		p.kill()
		<-p.ended
		if t.Failed() {
			t.Logf("the pod said:\n%s", p.out.String())
		}
	})
	if r.AgentPort != 0 {
		p.agent = NewAgent(nil, "http://127.0.0.1:"+strconv.Itoa(r.AgentPort), r.Token)
	}
	return p
}

// kill is what the machine's end is to the pod.
func (p *pod) kill() {
	if !polltest.Within(polltest.Patience, func() bool {
		left := procfs.With(p.mark)
		for _, process := range left {
			_ = syscall.Kill(process.PID, syscall.SIGKILL) // gone is as good
		}
		return len(left) == 0
	}) {
		p.t.Error("processes cannot be killed")
	}
}

// eventually waits for what has to become true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	if !polltest.Within(patient, f) {
		t.Fatalf("not within %v: %s", patient, what)
	}
}

func (p *pod) says(text string) {
	p.t.Helper()
	eventually(p.t, "the pod says "+strconv.Quote(text), func() bool { return strings.Contains(p.out.String(), text) })
}

// ends waits for the pod's end, with this status, and with nothing left of it.
func (p *pod) ends(status int) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patient):
		p.t.Fatal("the pod does not end")
	}
	if got := p.cmd.ProcessState.ExitCode(); got != status {
		p.t.Errorf("the pod ended with status %d, want %d", got, status)
	}
	eventually(p.t, "nothing is left of the pod", func() bool { return len(procfs.With(p.mark)) == 0 })
}

func (p *pod) lacks(text string) {
	p.t.Helper()
	if strings.Contains(p.out.String(), text) {
		p.t.Errorf("the pod said %q", text)
	}
}

// up waits for the agent.
func (p *pod) up() Status {
	p.t.Helper()
	var s Status
	eventually(p.t, "the agent answers", func() bool {
		ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Second)
		defer cancel()
		var err error
		s, err = p.agent.Status(ctx)
		return err == nil
	})
	return s
}

// giveBack returns how a pod ends itself at such a provider.
func giveBack(base string) []Request {
	const header = "Authorization: Bearer ${CLOUD_KEY}"
	pod := strings.TrimSuffix(base, "/") + "/pods/${POD_ID}"
	return []Request{
		{Method: "DELETE", URL: pod, Header: header, Done: []int{200, 204, 404}, Did: "deleted"},
		{Method: "POST", URL: pod + "/action", Header: header, Body: `{"action":"stop"}`, Done: []int{200, 204}, Did: "stopped"},
	}
}

// A call is a request that the provider got.
type call struct{ Method, Path, Authorization, Agent, Body string }

// An api is a provider that answers the n-th request, from 0 on, as told.
type api struct {
	*httptest.Server
	mu    sync.Mutex
	calls []call
}

func provider(t *testing.T, answer func(n int, c call) int) *api {
	a := &api{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c := call{r.Method, r.URL.Path, r.Header.Get("Authorization"), r.UserAgent(), string(body)}
		a.mu.Lock()
		n := len(a.calls)
		a.calls = append(a.calls, c)
		a.mu.Unlock()
		w.WriteHeader(answer(n, c))
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *api) got() []call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls)
}

// size returns what the command line and its variables take of a request's body.
func size(t *testing.T, argv []string, env map[string]string) int {
	t.Helper()
	b, err := json.Marshal(map[string]any{"argv": argv, "env": env})
	if err != nil {
		t.Fatal(err)
	}
	// Once more, for a provider that takes the command line as JSON in a string.
	b, err = json.Marshal(string(b))
	if err != nil {
		t.Fatal(err)
	}
	return len(b)
}
