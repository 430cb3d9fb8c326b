package ssh_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/ssh"
	"sweep.dev/sweep/internal/secret"
)

func TestFactory(t *testing.T) {
	f := ssh.Factory(nil)
	if f.Kind != "ssh" || !f.Outlives || !f.FreeGPU || f.Bills || f.Given || f.Launch == 0 || f.Settle == 0 {
		t.Errorf("got %+v", f)
	}
	broken := errors.New("line 3")
	if _, err := f.New(func(any) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	b, err := f.New(func(c any) error { c.(*ssh.Config).Host = "gpu"; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := b.(backends.Pauser); ok {
		t.Error("a host cannot be paused")
	}
}

func TestNew_refuses(t *testing.T) {
	for want, change := range map[string]func(*ssh.Config){
		"host: which":       func(c *ssh.Config) { c.Host = "" },
		"host: want":        func(c *ssh.Config) { c.Host = "me@gpu" },
		"host: want a":      func(c *ssh.Config) { c.Host = "-oProxyCommand=id" },
		"got \"a b\"":       func(c *ssh.Config) { c.User = "a b" },
		"got \"a\\tb\"":     func(c *ssh.Config) { c.User = "a\tb" },
		"got \"a\\x1b[2J\"": func(c *ssh.Config) { c.User = "a\x1b[2J" },
		"got \"-l\"":        func(c *ssh.Config) { c.User = "-l" },
		"got \"me@gpu\"":    func(c *ssh.Config) { c.User = "me@gpu" },
		"got \"\\xff\"":     func(c *ssh.Config) { c.User = "\xff" },
		"port":              func(c *ssh.Config) { c.Port = 70000 },
		"network":           func(c *ssh.Config) { c.Network = "proxy" },
		"workdir":           func(c *ssh.Config) { c.Workdir = "relative" },
		"setup":             func(c *ssh.Config) { c.Setup = "a\x00b" },
		"of which key":      func(c *ssh.Config) { c.Passphrase = secret.New("${SWEEP_P}", "x") },
		"not the passph":    func(c *ssh.Config) { c.Key = "/k"; c.Passphrase = secret.Plain("hunter2-hunter2") },
		"keepalive":         func(c *ssh.Config) { c.Keepalive = 0 },
		"reconnect":         func(c *ssh.Config) { c.Reconnect = -1 },
		"heartbeat":         func(c *ssh.Config) { c.Heartbeat = 1 },
		"connect_timeout":   func(c *ssh.Config) { c.ConnectTimeout = 0 },
		"called":            func(c *ssh.Config) { c.Env = map[string]secret.String{"A B": secret.Plain("x")} },
	} {
		c := ssh.Defaults()
		c.Host = "gpu.example.com"
		change(&c)
		_, err := ssh.New(nil, c)
		if err == nil || !strings.Contains(err.Error(), "backend ssh: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows it: %v", want, err)
		}
	}
}

func TestCheck(t *testing.T) {
	c := ssh.Defaults()
	c.Host = "gpu.example.com"
	b, err := ssh.New(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Check(spec(t)); err != nil {
		t.Errorf("a good one: %v", err)
	}
	for name, change := range map[string]func(*backends.Spec){
		"no role":    func(s *backends.Spec) { s.Roles = nil },
		"no command": func(s *backends.Spec) { s.Roles[0].Argv = nil },
		"no replica": func(s *backends.Spec) { s.Roles[0].Replicas = 0 },
		"CPUs":       func(s *backends.Spec) { s.Roles[0].CPUs = []int{0} },
		"a mark":     func(s *backends.Spec) { s.Owner = "a\nSWEEP_POD=b" },
		"env":        func(s *backends.Spec) { s.Roles[0].Env = map[string]string{"A=B": "c"} },
	} {
		s := spec(t)
		change(&s)
		if err := b.Check(s); !errors.Is(err, backends.ErrSpec) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, extra := range map[string]backends.Extra{
		"a variable's name": {Env: map[string]string{"A=B": "c"}},
		"a file's name":     {Files: map[string][]byte{"a/b": nil}},
		"too much":          {Files: map[string][]byte{"f": []byte(strings.Repeat("x", 1<<16))}},
	} {
		s := spec(t)
		s.Roles[0].Extra = func(backends.Address) (backends.Extra, error) { return extra, nil }
		if err := b.Check(s); !errors.Is(err, backends.ErrSpec) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, change := range map[string]func(*backends.Spec){
		"no run":  func(s *backends.Spec) { s.RunID = "" },
		"no pod":  func(s *backends.Spec) { s.Pod = "" },
		"no role": func(s *backends.Spec) { s.Roles = nil },
		"over":    func(s *backends.Spec) { s.Expires = s.Expires.AddDate(-1, 0, 0) },
		"no end":  func(s *backends.Spec) { s.Expires = time.Time{} },
	} {
		s := spec(t)
		change(&s)
		if _, err := b.Launch(t.Context(), s, nil); !errors.Is(err, backends.ErrSpec) {
			t.Errorf("%s: Launch: %v", name, err)
		}
	}
}
