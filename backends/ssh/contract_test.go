package ssh_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/ssh"
	"sweep.dev/sweep/backends/ssh/sshtest"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/procfs"
)

// configure returns a backend on the server, with a workdir of the test.
func configure(t *testing.T, s *sshtest.Server, change ...func(*ssh.Config)) *ssh.Backend {
	t.Helper()
	c := ssh.Defaults()
	c.Host, c.Port, c.User, c.Key, c.KnownHosts = "127.0.0.1", s.Port, s.User, s.Key, s.KnownHosts
	c.Workdir = t.TempDir()
	for _, f := range change {
		f(&c)
	}
	b, err := ssh.New(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func spec(t *testing.T) backends.Spec {
	s := backendtest.Spec(t)
	s.Expires = time.Now().Add(10 * time.Minute)
	s.Digest = "digest"
	return s
}

func TestContract(t *testing.T) {
	t.Parallel()
	s := server(t)
	workdir := t.TempDir()
	at, err := json.Marshal(login{s.Port, s.User, s.Key, s.KnownHosts, workdir})
	if err != nil {
		t.Fatal(err)
	}
	backendtest.Run(t, func(t *testing.T) (backends.Backend, backends.Spec) {
		return configure(t, s, func(c *ssh.Config) { c.Workdir = workdir }), spec(t)
	}, backendtest.Provisioned(), backendtest.CrashWith(func(t *testing.T, d backends.Deployment) {
		kill(t, engine(t, d))
	}), backendtest.Killed(string(at), effect.SSHDial, effect.SSHRead, effect.SSHStart))
	// A name that is used up stays, for a day.
	left, err := filepath.Glob(filepath.Join(workdir, "*", "*"))
	left = slices.DeleteFunc(left, func(path string) bool { return filepath.Base(path) == "gone" })
	if err != nil || len(left) != 0 {
		t.Errorf("left in the workdir: %v, %v", left, err)
	}
}

// engine returns the server's own process, not one of those around it.
func engine(t *testing.T, d backends.Deployment) int {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := d.(backends.Rental).Terms().Ref.Name
	for _, p := range procfs.With(map[string]string{"SWEEP_SSH_POD": name}) {
		if argv := cmdline(p.PID); len(argv) > 1 && argv[0] == self {
			return p.PID
		}
	}
	t.Fatalf("no engine of %s", name)
	return 0
}

func cmdline(pid int) []string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
