package ssh_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/ssh"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/internal/secret"
)

// Every argument and variable arrives byte by byte, whatever is in it.
func TestLaunch_bytes(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	out, err := h.Exec(t.Context(), "sh", "-c", "line=$(printf '%01023d' 0); while :; do echo $line; done")
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
	t.Parallel()
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

// Directly reached, a server wants a key, which no other has.
func TestDirect(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	// On a busy machine the log may come later than Logs waits for it.
	polltest.Until(t, "its log", func() bool { return strings.Contains(logOf(t, a), "listening on") })
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

// Two roles, one with two replicas: all are reached, and the end of one is told.
func TestLaunch_roles(t *testing.T) {
	t.Parallel()
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
