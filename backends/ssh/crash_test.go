package ssh_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/ssh"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/polltest"
)

// parentVar makes this test binary a sweep that launches a pod on the host of
// the configuration, says so, and waits to be killed.
const parentVar = "SSH_TEST_PARENT"

func TestMain(m *testing.M) {
	if text := os.Getenv(parentVar); text != "" {
		parent(text)
	}
	backendtest.Main(m, func(config, dir string, fx *effect.Effects) (backends.Backend, backends.Spec, error) {
		var at login
		if err := json.Unmarshal([]byte(config), &at); err != nil {
			return nil, backends.Spec{}, err
		}
		s, err := backendtest.SpecIn(dir)
		if err != nil {
			return nil, s, err
		}
		s.Expires = time.Now().Add(10 * time.Minute)
		b, err := ssh.New(fx, at.config())
		return b, s, err
	})
}

// A login is how a process of its own reaches a server and its workdir.
type login struct {
	Port                           int
	User, Key, KnownHosts, Workdir string
}

func (l login) config() ssh.Config {
	c := ssh.Defaults()
	c.Host, c.Port, c.User, c.Key, c.KnownHosts, c.Workdir = "127.0.0.1", l.Port, l.User, l.Key, l.KnownHosts, l.Workdir
	return c
}

// An assignment is what a parent is told.
type assignment struct {
	login
	Heartbeat, Life time.Duration
	Owner, Log      string
}

func parent(text string) {
	var e assignment
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		panic(err)
	}
	c := e.config()
	c.Heartbeat = e.Heartbeat
	b, err := ssh.New(nil, c)
	if err != nil {
		panic(err)
	}
	_ = os.Unsetenv(parentVar) // the pod is not to have it
	var l backendtest.Ledger
	_, err = b.Launch(context.Background(), backends.Spec{
		Owner: e.Owner, RunID: "runofparent", Pod: "d1-l01", Grace: 5 * time.Second, Expires: time.Now().Add(e.Life),
		Roles: []backends.Role{{
			Name: "server", Replicas: 1, LogPath: func(int) string { return e.Log },
			Argv: shell("echo up; exec sleep 1000"),
		}},
	}, &l)
	if err != nil {
		panic(err)
	}
	_ = json.NewEncoder(os.Stdout).Encode(l.Transitions()[2].Ref)
	time.Sleep(10 * time.Minute)
}

// orphan returns the pod of a sweep that was killed with SIGKILL, and its owner.
func orphan(t *testing.T, b *ssh.Backend, c ssh.Config, life time.Duration) (backends.Ref, string) {
	t.Helper()
	owner := "owner-" + rand.Text()
	e := assignment{login{c.Port, c.User, c.Key, c.KnownHosts, c.Workdir}, c.Heartbeat, life, owner, t.TempDir() + "/log"}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentVar+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ref backends.Ref
	err = json.NewDecoder(out).Decode(&ref)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Terminate(context.WithoutCancel(t.Context()), ref); err != nil {
			t.Error(err)
		}
	})
	return ref, owner
}

// config returns what configure makes a backend of.
func config(t *testing.T, change ...func(*ssh.Config)) (ssh.Config, *ssh.Backend) {
	t.Helper()
	var c ssh.Config
	b := configure(t, server(t), append(change, func(made *ssh.Config) { c = *made })...)
	return c, b
}

// A server that kill -9 leaves behind is found by its owner, and by its name alone, and ended.
func TestLeftover(t *testing.T) {
	t.Parallel()
	c, b := config(t)
	ref, mine := orphan(t, b, c, 10*time.Minute)
	if len(pod(ref.Name)) == 0 {
		t.Fatal("the pod died with us")
	}
	for owner, want := range map[string]int{mine: 1, "": 1, "somebody": 0} {
		list, err := b.List(t.Context(), owner)
		if owner == "" { // there may be pods of other tests
			list = slices.DeleteFunc(list, func(l backends.Listed) bool { return l.Name != ref.Name })
		}
		if err != nil || len(list) != want {
			t.Fatalf("List(%q): %v, %v", owner, list, err)
		}
		if want == 0 {
			continue
		}
		got := list[0]
		if got.Owner != mine || got.RunID != "runofparent" || got.Pod != "d1-l01" || got.ID != ref.ID ||
			got.Kind != "ssh" || got.Status != "running" || time.Until(got.Expires) < 5*time.Minute {
			t.Errorf("List(%q): %+v", owner, got)
		}
	}
	// From a ledger that only has the intent.
	bare := backends.Ref{Kind: ssh.Kind, Pod: ref.Pod, RunID: ref.RunID, Name: ref.Name}
	if err := b.Terminate(t.Context(), bare); err != nil {
		t.Fatal(err)
	}
	if left := pod(ref.Name); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Without us a pod ends: at its expiry time, and if the host has python3, as soon
// as it misses our heartbeat.
func TestDeadMan(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]assignment{
		"lifetime":  {Heartbeat: time.Hour, Life: 8 * time.Second},
		"heartbeat": {Heartbeat: 4 * time.Second, Life: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, b := config(t, func(c *ssh.Config) { c.Heartbeat = e.Heartbeat })
			ref, mine := orphan(t, b, c, e.Life)
			polltest.Until(t, "the pod's end", func() bool { return len(pod(ref.Name)) == 0 })
			if list, err := b.List(t.Context(), mine); err != nil || len(list) != 0 {
				t.Errorf("List: %v, %v", list, err)
			}
			status, err := os.ReadFile(fmt.Sprintf("%s/status", ref.Details["dir"]))
			if err != nil || len(status) < 3 || string(status[:3]) != "124" {
				t.Errorf("it ended with %q, %v", status, err)
			}
			if err := b.Terminate(t.Context(), ref); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(ref.Details["dir"]); err == nil {
				t.Error("its folder is left")
			}
		})
	}
}
