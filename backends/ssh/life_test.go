package ssh_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/ssh"
	"sweep.dev/sweep/backends/ssh/sshtest"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/internal/secret"
)

// patience bounds every wait for something that must happen.
const patience = time.Minute

func launch(t *testing.T, b backends.Backend, s backends.Spec) (backends.Deployment, backends.Ref) {
	t.Helper()
	d, err := b.Launch(t.Context(), s, &backendtest.Ledger{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, d) })
	return d, d.(backends.Rental).Terms().Ref
}

func stop(t *testing.T, d backends.Deployment) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if err := d.Stop(ctx); err != nil {
		t.Errorf("Stop: %v", err)
	}
}

func shell(script string, args ...string) func(backends.Address) ([]string, error) {
	return func(backends.Address) ([]string, error) {
		return append([]string{"/bin/sh", "-c", script, "engine"}, args...), nil
	}
}

// pod are the living processes of a pod, of all its units.
func pod(name string) []procfs.Process {
	return slices.DeleteFunc(procfs.All(), func(p procfs.Process) bool {
		unit, _ := procfs.ReadEnviron(p.PID).Lookup("SWEEP_SSH_POD")
		of, _, _ := strings.Cut(unit, ".")
		return of != name
	})
}

func logOf(t *testing.T, d backends.Deployment) string {
	t.Helper()
	r, err := d.Host("server", 0).Logs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// get asks the server of backendtest for a variable of its environment.
func get(ctx context.Context, h host.Host, name string) (string, error) {
	client := http.Client{Transport: &http.Transport{DialContext: h.Dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL()+"/?env="+name, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func ready(t *testing.T, d backends.Deployment) {
	t.Helper()
	polltest.Until(t, "the server answers", func() bool {
		_, err := get(t.Context(), d.Host("server", 0), "")
		return err == nil
	})
}

// Every argument and variable arrives byte by byte, whatever is in it.
func TestLaunch_bytes(t *testing.T) {
	var every []byte
	for b := 1; b < 256; b++ {
		every = append(every, byte(b))
	}
	args := []string{"", " ", "'", `a'b"c\d`, "$HOME `id` $(id)", "line\nline\r\n", "-n", "*", string(every), strings.Repeat("long'\xff ", 14000)}
	out := filepath.Join(t.TempDir(), "out")
	s := spec(t)
	s.Roles[0].Env = map[string]string{"BYTES": string(every), "OUT": out}
	s.Roles[0].Argv = shell(`{ printf '%s\0' "$@"; printf %s "$BYTES"; } >"$OUT.new"; mv "$OUT.new" "$OUT"; exec sleep 1000`, args...)
	launch(t, configure(t, server(t)), s)
	var got []byte
	polltest.Until(t, "the engine's report", func() (ok bool) {
		var err error
		got, err = os.ReadFile(out)
		return err == nil
	})
	if want := strings.Join(args, "\x00") + "\x00" + string(every); string(got) != want {
		t.Errorf("got %d bytes, want %d: %.300q", len(got), len(want), got)
	}
}

// A secret is in the engine's environment and nowhere else on the host.
func TestLaunch_secrets(t *testing.T) {
	const canary = "s3cr3t-c4n4ry-of-the-host"
	workdir := t.TempDir()
	b := configure(t, server(t), func(c *ssh.Config) {
		c.Workdir = workdir
		c.Env = map[string]secret.String{"HF_TOKEN": secret.New("${HF_TOKEN}", canary)}
		c.Setup = "export FROM_SETUP=\"set up $HF_TOKEN\"; echo noise"
	})
	s := spec(t)
	looking, seen := make(chan struct{}), make(chan []string)
	go func() { // another user that runs ps, all the time
		var found []string
		for {
			for _, p := range procfs.All() {
				if argv := strings.Join(cmdline(p.PID), " "); strings.Contains(argv, "s3cr3t-c4n4ry") {
					found = append(found, argv)
				}
			}
			select {
			case <-looking:
				seen <- found
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	d, ref := launch(t, b, s)
	ready(t, d)
	if got, err := get(t.Context(), d.Host("server", 0), "HF_TOKEN"); err != nil || got != canary {
		t.Errorf("the engine has %q, %v", got, err)
	}
	if got, err := get(t.Context(), d.Host("server", 0), "FROM_SETUP"); err != nil || got != "set up "+canary {
		t.Errorf("the setup left %q, %v", got, err)
	}
	close(looking)
	if found := <-seen; len(found) != 0 {
		t.Errorf("on a command line: %.300q", found)
	}
	text, err := json.Marshal(ref)
	if err != nil || bytes.Contains(text, []byte("s3cr3t-c4n4ry")) {
		t.Errorf("the ref: %s, %v", text, err)
	}
	if strings.Contains(logOf(t, d), "s3cr3t-c4n4ry") {
		t.Error("the log has it")
	}
	for _, dir := range []string{workdir, filepath.Join(os.TempDir(), ".sweep-"+ref.Name)} {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte("s3cr3t-c4n4ry")) {
				t.Errorf("%s has it", path)
			}
			if info, err := e.Info(); err == nil && info.Mode()&0o077 != 0 {
				t.Errorf("%s can be read by others: %v", path, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	for _, p := range pod(ref.Name) {
		if v, ok := procfs.ReadEnviron(p.PID).Lookup("SWEEP_TOKEN"); ok && p.PID == engine(t, d) {
			t.Errorf("the engine knows the token of its bootstrap: %d bytes", len(v))
		}
	}
	stop(t, d)
	if left, err := os.ReadDir(workdir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(os.TempDir(), ".sweep-"+ref.Name)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the bootstrap's state is left: %v", err)
	}
}

func TestExec(t *testing.T) {
	d, _ := launch(t, configure(t, server(t)), spec(t))
	h := d.Host("server", 0)
	if out, err := h.Exec(t.Context(), "sh", "-c", "echo out; echo err >&2"); err != nil || string(out) != "out\n" {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := h.Exec(t.Context(), "sh", "-c", "echo why >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "why") {
		t.Errorf("got %v", err)
	}
	if _, err := h.Exec(t.Context(), "no-such-command"); err == nil {
		t.Error("a command that is not there")
	}
	if _, err := h.Exec(t.Context()); err == nil {
		t.Error("nothing was run")
	}
	out, err := h.Exec(t.Context(), "sh", "-c", "while :; do echo 0123456789abcdef; done")
	if err == nil || !strings.Contains(err.Error(), "more than 4 MiB") || len(out) != 4<<20 {
		t.Errorf("endless output: %d bytes, %v", len(out), err)
	}
	// A command ends with its context, with what it has started.
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, enough)
	defer cancel()
	mark := strconv.FormatInt(time.Now().UnixNano(), 10)
	if _, err := h.Exec(ctx, "sh", "-c", "MARK_OF_EXEC="+mark+" sleep 1000 & sleep 1000"); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	polltest.Until(t, "the end of the command's child", func() bool {
		return len(procfs.With(map[string]string{"MARK_OF_EXEC": mark})) == 0
	})
}

// An engine that neither hears SIGTERM nor can be recognized by its environment
// ends all the same, and a stranger does not.
func TestStop_stubborn(t *testing.T) {
	s := spec(t)
	s.Grace = time.Second
	file := filepath.Join(t.TempDir(), "pids")
	s.Roles[0].Env = map[string]string{"FILE": file}
	s.Roles[0].Argv = shell(`trap "" TERM
		env -i setsid /bin/sh -c 'trap "" TERM; echo $$ >>'"$FILE"'; while :; do sleep 1; done' &
		echo $$ >>"$FILE"; while :; do sleep 1; done`)
	d, ref := launch(t, configure(t, server(t)), s)
	var pids []int
	polltest.Until(t, "both processes", func() bool {
		b, _ := os.ReadFile(file)
		pids = nil
		for f := range strings.FieldsSeq(string(b)) {
			pid, _ := strconv.Atoi(f)
			pids = append(pids, pid)
		}
		return len(pids) == 2
	})
	stranger := exec.Command("sleep", "1000")
	stranger.Env = []string{"SWEEP_SSH_POD=" + ref.Name + "0", "OTHER_SWEEP_SSH_POD=" + ref.Name}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	}()
	stop(t, d)
	for _, pid := range pids {
		if p, ok := procfs.Stat(pid); ok && p.Alive() {
			t.Errorf("%+v is left", p)
			_ = exec.Command("kill", "-9", strconv.Itoa(pid)).Run()
		}
	}
	if p, ok := procfs.Stat(stranger.Process.Pid); !ok || !p.Alive() {
		t.Error("a stranger was ended")
	}
	if closed := d.Err(); closed != nil {
		t.Errorf("ended by itself: %v", closed)
	}
}

// A connection that is cut is made again: the pod lives, the log goes on where
// it was, and a request waits.
func TestConnection_cut(t *testing.T) {
	s := server(t)
	wire := sshtest.Between(t, s)
	b := configure(t, s, func(c *ssh.Config) { through(t, s, wire, c) })
	sp := spec(t)
	sp.Roles[0].Argv = func(a backends.Address) ([]string, error) {
		self, err := os.Executable()
		return []string{
			"/bin/sh", "-c", `"$@" & i=0; while sleep 0.02; do i=$((i + 1)); echo "line $i"; done`, "engine",
			self, "backendtest-server", a.String(),
		}, err
	}
	d, _ := launch(t, b, sp)
	ready(t, d)
	for range 3 {
		before := len(logOf(t, d))
		polltest.Until(t, "the log goes on", func() bool { return len(logOf(t, d)) > before })
		flying, err := d.Host("server", 0).Dial(t.Context(), "tcp", strings.TrimPrefix(d.Host("server", 0).URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := flying.Read(make([]byte, 1))
			ended <- err
		}()
		wire.Down(true)
		select {
		case err := <-ended:
			if err == nil {
				t.Error("a connection read something out of nothing")
			}
		case <-time.After(patience):
			t.Fatal("a connection of a lost tunnel hangs")
		}
		flying.Close()
		back := time.AfterFunc(300*time.Millisecond, func() { wire.Down(false) })
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if _, err := get(ctx, d.Host("server", 0), ""); err != nil {
			t.Errorf("a request while the connection is lost: %v", err)
		}
		cancel()
		back.Stop()
	}
	if err := d.Err(); err != nil {
		t.Fatalf("the deployment ended: %v", err)
	}
	n := 0
	for line := range strings.Lines(logOf(t, d)) {
		if rest, ok := strings.CutPrefix(line, "line "); ok && strings.HasSuffix(rest, "\n") {
			n++
			if rest != strconv.Itoa(n)+"\n" {
				t.Fatalf("line %d of the log is %q", n, line)
			}
		}
	}
	if n == 0 {
		t.Error("the log is empty")
	}
	stop(t, d)
}

// through leads a backend over a wire, with patience for a test.
func through(t *testing.T, s *sshtest.Server, wire *sshtest.Proxy, c *ssh.Config) {
	t.Helper()
	known, err := os.ReadFile(s.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	_, key, _ := strings.Cut(string(known), " ")
	c.KnownHosts = filepath.Join(t.TempDir(), "known_hosts")
	line := fmt.Sprintf("[127.0.0.1]:%d %s", wire.Port, key)
	if err := os.WriteFile(c.KnownHosts, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Port = wire.Port
}

// A connection that stays lost ends the deployment, not the pod; when the host
// is back, Stop ends that.
func TestConnection_lostForGood(t *testing.T) {
	s := server(t)
	wire := sshtest.Between(t, s)
	b := configure(t, s, func(c *ssh.Config) {
		through(t, s, wire, c)
		c.Reconnect = 500 * time.Millisecond
	})
	d, ref := launch(t, b, spec(t))
	ready(t, d)
	wire.Down(true)
	select {
	case <-d.Done():
	case <-time.After(patience):
		t.Fatal("nobody noticed")
	}
	var exit *backends.Exit
	if err := d.Err(); err == nil || errors.As(err, &exit) || !strings.Contains(err.Error(), "connection is lost") {
		t.Errorf("Err: %v", err)
	}
	if _, err := d.Host("server", 0).Dial(t.Context(), "tcp", "127.0.0.1:1"); err == nil {
		t.Error("a dial into nowhere")
	}
	if len(pod(ref.Name)) == 0 {
		t.Error("the pod ended with the connection")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := d.Stop(ctx); err == nil {
		t.Error("Stop of what cannot be reached: no error")
	}
	wire.Down(false)
	stop(t, d)
	if left := pod(ref.Name); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Where a start is cut off anywhere, the pod is there as a whole or not at all.
func TestLaunch_cutAnywhere(t *testing.T) {
	s := server(t)
	wire := sshtest.Between(t, s)
	workdir := t.TempDir()
	b := configure(t, s, func(c *ssh.Config) {
		through(t, s, wire, c)
		c.Workdir = workdir
	})
	started, failed := 0, 0
	for _, after := range []int64{0, 900, 3000, 12000, 20000, 25000, 30000, 36000, 42000, 48000, 54000, 60000} {
		sp := spec(t)
		sp.RunID = "run-of-cuts-" + rand.Text()
		wire.CutAfter(after)
		var l backendtest.Ledger
		d, err := b.Launch(t.Context(), sp, &l)
		wire.CutAfter(-1)
		states := l.States()
		if err != nil {
			failed++
			if len(states) > 0 && states[len(states)-1] != backends.Gone {
				t.Errorf("cut after %d: the ledger has %v, and %v", after, states, err)
			}
		} else {
			started++
			ready(t, d)
			stop(t, d)
		}
		if left := procfs.With(map[string]string{"SWEEP_RUN_ID": sp.RunID}); len(left) != 0 {
			t.Errorf("cut after %d: left running %v", after, left)
		}
	}
	t.Logf("%d started, %d failed", started, failed)
	if started == 0 || failed == 0 {
		t.Error("the cuts were all on one side of the start")
	}
	// Only names that are used up are left.
	err := filepath.WalkDir(workdir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != "gone" {
			t.Errorf("left: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A pod that may still come is prevented by its name.
func TestTerminate_beforeTheStart(t *testing.T) {
	b := configure(t, server(t))
	sp := spec(t)
	l := &backendtest.Ledger{}
	l.Fail = func(a backends.Transition) error {
		if a.State != backends.Sent {
			return nil
		}
		// Another sweep ends it while this one is about to start it.
		name := l.Transitions()[0].Name
		return b.Terminate(context.WithoutCancel(t.Context()), backends.Ref{Kind: ssh.Kind, Pod: sp.Pod, Name: name, Details: l.Transitions()[0].At})
	}
	d, err := b.Launch(t.Context(), sp, l)
	if err == nil {
		stop(t, d)
		t.Fatal("a name was used twice")
	}
	if states := l.States(); states[len(states)-1] != backends.Gone {
		t.Errorf("the ledger has %v (%v)", states, err)
	}
}

func TestTerminate_refuses(t *testing.T) {
	b := configure(t, server(t))
	name := backends.NewName("o", "r", time.Now()).String()
	for what, ref := range map[string]backends.Ref{
		"another kind": {Kind: "docker", Name: name, ID: "x"},
		"no name":      {Kind: ssh.Kind, ID: "x"},
		"a path":       {Kind: ssh.Kind, Name: "../../etc", ID: "x"},
	} {
		if err := b.Terminate(t.Context(), ref); !errors.Is(err, backends.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// A server that is not found is taken for gone; of another host nothing is known.
	there := backends.Ref{Kind: ssh.Kind, Name: name, ID: "x", Details: map[string]string{"host": "elsewhere"}}
	if err := b.Terminate(t.Context(), there); err == nil || errors.Is(err, backends.ErrNotFound) {
		t.Errorf("another host: %v", err)
	}
	if err := b.Terminate(t.Context(), backends.Ref{Kind: ssh.Kind, Name: name, ID: name + "@x"}); err != nil {
		t.Errorf("a pod that is gone: %v", err)
	}
}

// Directly reached, a server wants a key, which no other has.
func TestDirect(t *testing.T) {
	b := configure(t, server(t), func(c *ssh.Config) { c.Network = "direct" })
	sp := spec(t)
	sp.Roles[0].KeyEnv = "VLLM_API_KEY"
	d, _ := launch(t, b, sp)
	h := d.Host("server", 0)
	if h.Path() != host.Direct {
		t.Errorf("Path is %q", h.Path())
	}
	ready(t, d)
	conn, err := h.Dial(t.Context(), "tcp", strings.TrimPrefix(h.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := conn.(*net.TCPConn); !ok {
		t.Errorf("a direct connection is a %T", conn)
	}
	conn.Close()
	header := http.Header{}
	d.(backends.Server).Authorize(header)
	key, err := get(t.Context(), h, "VLLM_API_KEY")
	if err != nil || len(key) < 20 || header.Get("Authorization") != "Bearer "+key {
		t.Errorf("the engine has %q, requests %q (%v)", key, header, err)
	}
}

// A server on the loopback of its host has the tunnel that leads there, for each
// of its replicas.
func TestAccess_tunnel(t *testing.T) {
	b := configure(t, server(t))
	sp := spec(t)
	sp.Roles[0].Replicas = 2
	d, ref := launch(t, b, sp)
	all, err := b.Access(t.Context(), ref)
	if err != nil || len(all) != 2 {
		t.Fatalf("got %+v, %v", all, err)
	}
	for n, a := range all {
		_, port, _ := strings.Cut(strings.TrimPrefix(d.Host("server", n).URL(), "http://"), ":")
		tunnel := strings.Join(a.Tunnel, " ")
		if a.Replica != n || a.Path != host.Tunnel || a.URL != "http://127.0.0.1:"+port || a.Why[backends.AccessKey] == "" ||
			!strings.HasPrefix(tunnel, "ssh -N -L "+port+":127.0.0.1:"+port+" -p "+ref.Details["port"]+" -i "+ref.Details["key"]) ||
			!strings.HasSuffix(tunnel, " "+ref.Details["user"]+"@127.0.0.1") || !strings.Contains(tunnel, "UserKnownHostsFile="+ref.Details["known_hosts"]) {
			t.Errorf("replica %d at port %s: %+v", n, port, a)
		}
	}
	gone := ref
	gone.Name = backends.NewName("o", "r", time.Now()).String()
	if _, err := b.Access(t.Context(), gone); !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("a pod that is not there: %v", err)
	}
}

// A kept pod goes on without us, and the next run takes it over.
func TestKeepAndAdopt(t *testing.T) {
	s := server(t)
	b := configure(t, s, func(c *ssh.Config) { c.Network = "direct" })
	sp := spec(t)
	sp.Roles[0].KeyEnv = "VLLM_API_KEY"
	d, ref := launch(t, b, sp)
	ready(t, d)
	key, err := get(t.Context(), d.Host("server", 0), "VLLM_API_KEY")
	if err != nil {
		t.Fatal(err)
	}
	keeper := d.(backends.Keeper)
	if err := keeper.Keep(t.Context(), sp.Expires.Add(time.Hour)); !errors.Is(err, backends.ErrSpec) {
		t.Errorf("Keep beyond its end: %v", err)
	}
	polltest.Until(t, "the agent", func() bool { return keeper.Keep(t.Context(), sp.Expires.Add(-time.Minute)) == nil })
	stop(t, d)
	if len(pod(ref.Name)) == 0 {
		t.Fatal("a kept pod was stopped")
	}
	// Of its own configuration the ledger has the host alone, and not how requests
	// go there.
	all, err := configure(t, s).Access(t.Context(), ref)
	if err != nil || len(all) != 1 || all[0].URL != d.Host("server", 0).URL() || all[0].Path != host.Direct || all[0].Key.Reveal() != key || all[0].Tunnel != nil {
		t.Errorf("Access to %s: %+v, %v", d.Host("server", 0).URL(), all, err)
	}

	next := spec(t)
	next.RunID, next.Pod, next.Roles[0].KeyEnv = "run-two", "d1-l01", "VLLM_API_KEY"
	other := next
	other.Digest = "another"
	if _, err := b.Adopt(t.Context(), other, ref); err == nil || errors.Is(err, backends.ErrNotFound) {
		t.Errorf("a pod with another server: %v", err)
	}
	a, err := b.Adopt(t.Context(), next, ref)
	if err != nil {
		t.Fatal(err)
	}
	ready(t, a)
	header := http.Header{}
	a.(backends.Server).Authorize(header)
	if header.Get("Authorization") != "Bearer "+key {
		t.Error("the key is not the pod's")
	}
	if text := logOf(t, a); !strings.Contains(text, "listening on") {
		t.Errorf("its log: %q", text)
	}
	stop(t, a)
	if err := a.(backends.Keeper).Keep(t.Context(), next.Expires.Add(-time.Minute)); err == nil {
		t.Error("Keep of what is stopped: no error")
	}
	if left := pod(ref.Name); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := b.Adopt(t.Context(), next, ref); !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("a pod that is gone: %v", err)
	}
}

// A deadline that passes ends a connection through the tunnel, and says so.
func TestDial_deadline(t *testing.T) {
	d, _ := launch(t, configure(t, server(t)), spec(t))
	ready(t, d)
	h := d.Host("server", 0)
	conn, err := h.Dial(t.Context(), "tcp", strings.TrimPrefix(h.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("got %v", err)
	}
	if _, err := h.Dial(t.Context(), "tcp", "127.0.0.1:1"); err == nil {
		t.Error("a port that nobody listens on")
	}
	if err := d.Err(); err != nil {
		t.Errorf("the deployment ended: %v", err)
	}
}

// Two roles, one with two replicas: all are reached, and the end of one is told.
func TestLaunch_roles(t *testing.T) {
	sp := spec(t)
	router := sp.Roles[0]
	router.Name = "router"
	dir := t.TempDir()
	router.LogPath = func(int) string { return filepath.Join(dir, "router.log") }
	sp.Roles[0].Replicas = 2
	sp.Roles = append(sp.Roles, router)
	d, ref := launch(t, configure(t, server(t)), sp)
	seen := map[string]bool{}
	for _, h := range []host.Host{d.Host("server", 0), d.Host("server", 1), d.Host("router", 0)} {
		polltest.Until(t, "it answers", func() bool { _, err := get(t.Context(), h, ""); return err == nil })
		seen[h.URL()] = true
	}
	if len(seen) != 3 || len(ref.Units) != 3 {
		t.Errorf("got %v, %v", seen, ref.Units)
	}
	for _, p := range pod(ref.Name) {
		if argv := cmdline(p.PID); len(argv) == 3 && "http://"+argv[2] == d.Host("server", 1).URL() {
			kill(t, p.PID)
		}
	}
	select {
	case <-d.Done():
	case <-time.After(patience):
		t.Fatal("nobody noticed")
	}
	var exit *backends.Exit
	if !errors.As(d.Err(), &exit) || exit.Role != "server" || exit.Replica != 1 || exit.Signal != "killed" {
		t.Errorf("got %+v", d.Err())
	}
}

// withRun are the living processes of a run's pods.
func withRun(run string) []procfs.Process {
	return procfs.With(map[string]string{backends.MarkRun: run})
}

// A name that is used up is so for every unit of its pod.
func TestTerminate_beforeTheSecond(t *testing.T) {
	b := configure(t, server(t))
	sp := spec(t)
	var l backendtest.Ledger
	sp.Roles = append(sp.Roles, sp.Roles[0])
	sp.Roles[1].Name = "second"
	sp.Roles[0].Started = func(ctx context.Context, _ host.Host, _ int) error {
		return b.Terminate(ctx, backends.Ref{Kind: ssh.Kind, Pod: sp.Pod, Name: l.Transitions()[0].Name, Details: l.Transitions()[0].At})
	}
	d, err := b.Launch(t.Context(), sp, &l)
	if err == nil {
		stop(t, d)
		t.Fatal("a name was used again")
	}
	if left := pod(l.Transitions()[0].Name); len(left) != 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
	if states := l.States(); states[len(states)-1] != backends.Gone {
		t.Errorf("the ledger has %v (%v)", states, err)
	}
}

// A pod of an older version, several processes of one name in one folder, is ended by
// that name.
func TestTerminate_olderPod(t *testing.T) {
	var workdir string
	b := configure(t, server(t), func(c *ssh.Config) { workdir = c.Workdir })
	sp := spec(t)
	sp.Owner = "owner-" + rand.Text()
	name := backends.NewName(sp.Owner, sp.RunID, sp.Expires).String()
	dir := filepath.Join(workdir, name)
	for n := range 2 {
		if err := os.MkdirAll(filepath.Join(dir, strconv.Itoa(n)), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("setsid", "sleep", "1000")
		cmd.Env = append(os.Environ(), "SWEEP_SSH_POD="+name)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		defer func() { _ = cmd.Process.Kill(); <-ended }()
	}
	var marks strings.Builder
	for mark, value := range backends.Marks(sp) {
		fmt.Fprintf(&marks, "%s=%s\n", mark, value)
	}
	if err := os.WriteFile(filepath.Join(dir, "marks"), []byte(marks.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := b.List(t.Context(), sp.Owner)
	if err != nil || len(list) != 1 || list[0].Pod != sp.Pod {
		t.Fatalf("List: %+v, %v", list, err)
	}
	if err := b.Terminate(t.Context(), list[0].Ref); err != nil {
		t.Error(err)
	}
	if left := pod(name); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder is left: %v", err)
	}
}
