package ssh_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/ssh"
)

// A pod that may still come is prevented by its name.
func TestTerminate_beforeTheStart(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// A name that is used up is so for every unit of its pod.
func TestTerminate_beforeTheSecond(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
