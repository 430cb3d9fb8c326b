package ssh_test

import (
	pempkg "encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	gossh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/ssh"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/secret"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	s := server(t)
	if err := configure(t, s).Probe(t.Context()); err != nil {
		t.Errorf("a good one: %v", err)
	}
	s.Trust(t, "impostor")
	err := configure(t, s).Probe(t.Context())
	remove := fmt.Sprintf("\n  ssh-keygen -R '[127.0.0.1]:%d' -f %s", s.Port, s.KnownHosts)
	if !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), "HAS CHANGED") || !strings.Contains(err.Error(), remove) ||
		!strings.Contains(err.Error(), s.KnownHosts+":1") {
		t.Errorf("a changed key: %v", err)
	}
	s.Trust(t, "host")
	for known, words := range map[string][2]string{ // of the two commands to paste
		"/no/such/file":       {"/no/such/file", "UserKnownHostsFile=/no/such/file"},
		os.DevNull:            {os.DevNull, "UserKnownHostsFile=" + os.DevNull},
		"/no/such file's $id": {`'/no/such file'\''s $id'`, `'UserKnownHostsFile="/no/such file'\''s $id"'`},
	} {
		err := configure(t, s, func(c *ssh.Config) { c.KnownHosts, c.User = known, "$(id);a'b" }).Probe(t.Context())
		for _, command := range []string{
			fmt.Sprintf("\n  ssh-keyscan -p %d 127.0.0.1 >> %s\n", s.Port, words[0]),
			fmt.Sprintf("\n  ssh -p %d -o %s '$(id);a'\\''b@127.0.0.1' true", s.Port, words[1]),
		} {
			if !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), command) {
				t.Errorf("an unknown host: %v, want the command %s", err, command)
			}
		}
	}
	err = configure(t, s, func(c *ssh.Config) { c.Key = s.OtherKey }).Probe(t.Context())
	if !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), s.OtherKey) {
		t.Errorf("a wrong key: %v", err)
	}
	err = configure(t, s, func(c *ssh.Config) { c.Workdir = "/proc/no" }).Probe(t.Context())
	if !errors.Is(err, backends.ErrSpec) || !strings.Contains(err.Error(), "/proc/no") {
		t.Errorf("a workdir that cannot be: %v", err)
	}
	s.Stop()
	// A connection that came while the server ended is reset, those after it are refused.
	if !polltest.Within(polltest.Patience, func() bool {
		err = configure(t, s).Probe(t.Context())
		return err != nil && strings.Contains(err.Error(), "connection refused")
	}) || errors.Is(err, backends.ErrRefused) {
		t.Errorf("nobody there: %v", err)
	}
}

// A host that answers nothing is given up in time.
func TestProbe_silentHost(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := server(t)
	b := configure(t, s, func(c *ssh.Config) {
		c.Port, c.ConnectTimeout = l.Addr().(*net.TCPAddr).Port, 300*time.Millisecond
	})
	if err := b.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "connect_timeout") {
		t.Errorf("got %v", err)
	}
}

func TestProbe_keys(t *testing.T) {
	s := server(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("SSH_AUTH_SOCK", "")
	noKey := func(c *ssh.Config) { c.Key = "" }

	err := configure(t, s, noKey).Probe(t.Context())
	if !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), "no SSH agent and no key") {
		t.Errorf("without any key: %v", err)
	}
	pem, err := os.ReadFile(s.Key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := gossh.ParseRawPrivateKey(pem)
	if err != nil {
		t.Fatal(err)
	}

	// A file with a passphrase.
	const canary = "s3cr3t-passphrase"
	block, err := gossh.MarshalPrivateKeyWithPassphrase(raw, "", []byte(canary))
	if err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(home, "locked")
	if err := os.WriteFile(locked, pempkg.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(passphrase secret.String) error {
		return configure(t, s, func(c *ssh.Config) { c.Key, c.Passphrase = locked, passphrase }).Probe(t.Context())
	}
	if err := with(secret.New("${SWEEP_P}", canary)); err != nil {
		t.Errorf("the right passphrase: %v", err)
	}
	if err := with(secret.String{}); !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), "ssh-agent") && !strings.Contains(err.Error(), "SSH agent") {
		t.Errorf("no passphrase: %v", err)
	}
	if err := with(secret.New("${SWEEP_P}", "wr0ng-passphrase")); !errors.Is(err, backends.ErrRefused) || strings.Contains(err.Error(), "wr0ng") {
		t.Errorf("a wrong passphrase: %v", err)
	}

	// An agent.
	ring := agent.NewKeyring()
	l, err := net.Listen("unix", filepath.Join(home, "agent"))
	if err != nil {
		t.Fatal(err)
	}
	var talks sync.WaitGroup
	talks.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			talks.Go(func() {
				_ = agent.ServeAgent(ring, c)
				c.Close()
			})
		}
	})
	defer talks.Wait()
	defer l.Close()
	t.Setenv("SSH_AUTH_SOCK", l.Addr().String())
	if err := configure(t, s, noKey).Probe(t.Context()); !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), "ssh-add") {
		t.Errorf("an empty agent: %v", err)
	}
	if err := ring.Add(agent.AddedKey{PrivateKey: raw}); err != nil {
		t.Fatal(err)
	}
	if err := configure(t, s, noKey).Probe(t.Context()); err != nil {
		t.Errorf("an agent with the key: %v", err)
	}

	// A key where ssh looks for one.
	t.Setenv("SSH_AUTH_SOCK", "")
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".ssh", "id_ed25519"), pem, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := configure(t, s, noKey).Probe(t.Context()); err != nil {
		t.Errorf("a key in ~/.ssh: %v", err)
	}
}
