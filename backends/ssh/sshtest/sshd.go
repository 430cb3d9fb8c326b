// Package sshtest starts SSH servers for tests: real OpenSSH ones ([Start]), and
// small ones of this process ([StartInProcess]). Each is on a free port of
// 127.0.0.1 and has keys of its own.
package sshtest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sweep.dev/sweep/backends/ports"
	"sweep.dev/sweep/internal/polltest"
)

// A Server is one sshd. It ends with the test.
type Server struct {
	Port       int
	User       string
	Key        string // file of a private key that it accepts
	OtherKey   string // and of one that it does not
	KnownHosts string // file with its key

	dir   string
	make  func(t testing.TB, name string) string // a key pair
	bin   string
	sshd  *exec.Cmd
	inner *inProcess // nil if it is an sshd
}

// Start starts an sshd for the user who runs the test. It needs sshd and
// ssh-keygen; where they are missing the test fails and says what brings them.
func Start(t testing.TB) *Server {
	t.Helper()
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{User: who.Username, dir: t.TempDir(), bin: look(t, "sshd")}
	s.make = s.keygen
	s.Key, s.OtherKey = s.keygen(t, "user"), s.keygen(t, "other")
	s.KnownHosts = filepath.Join(s.dir, "known_hosts")
	s.keygen(t, "host")
	if os.Getuid() == 0 { // it insists, and only the service makes it
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.Port = freePort(t)
	s.Trust(t, "host")
	config := strings.Join([]string{
		"ListenAddress 127.0.0.1:" + strconv.Itoa(s.Port),
		"HostKey " + filepath.Join(s.dir, "host"),
		"AuthorizedKeysFile " + filepath.Join(s.dir, "user.pub"),
		"PidFile none",
		"UsePAM no", // it would ask for things that a container does not have
		"StrictModes no",
		"PasswordAuthentication no",
		"KbdInteractiveAuthentication no",
		"PermitRootLogin prohibit-password",
		"MaxStartups 100",
	}, "\n") + "\n"
	write(t, s.path("config"), config)
	s.Run(t)
	t.Cleanup(func() { s.Stop() })
	return s
}

// Run starts the server again after Stop.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	if s.inner != nil {
		s.listen(t)
		return
	}
	said := &bytes.Buffer{}
	s.sshd = exec.Command(s.bin, "-D", "-e", "-f", s.path("config"))
	s.sshd.Stderr = said
	if err := s.sshd.Start(); err != nil {
		t.Fatal(err)
	}
	if !polltest.Within(polltest.Patience, func() bool {
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			return false
		}
		conn.Close()
		return true
	}) {
		s.Stop()
		t.Fatalf("sshd does not listen:\n%s", said)
	}
}

// Addr returns host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// Stop ends the server, not its connections: each has a process of its own.
func (s *Server) Stop() {
	if s.inner != nil && s.inner.listener != nil {
		s.inner.listener.Close()
		s.inner.listener = nil
	}
	if s.sshd != nil {
		_ = s.sshd.Process.Kill()
		_ = s.sshd.Wait()
		s.sshd = nil
	}
}

// Trust writes known_hosts with the key of that name: "host" is the server's,
// every other one is made up.
func (s *Server) Trust(t testing.TB, key string) {
	t.Helper()
	if _, err := os.Stat(s.path(key)); err != nil {
		s.make(t, key)
	}
	public, err := os.ReadFile(s.path(key + ".pub"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, s.KnownHosts, fmt.Sprintf("[127.0.0.1]:%d %s", s.Port, public))
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

func (s *Server) keygen(t testing.TB, name string) string {
	t.Helper()
	run(t, look(t, "ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", s.path(name))
	return s.path(name)
}

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// look finds a program: sshd is in a folder that not everybody's PATH has, and
// wants to be called by its whole path.
func look(t testing.TB, name string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin", "/usr/local/sbin") {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && filepath.IsAbs(path) {
			return path
		}
	}
	t.Fatalf("there is no %s\nrun: go tool -modfile=tools/go.mod task engines:ssh", name)
	return ""
}

func freePort(t testing.TB) int {
	t.Helper()
	port, err := ports.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// PID returns that of the listening sshd. It panics if the server has no sshd.
func (s *Server) PID() int { return s.sshd.Process.Pid }
