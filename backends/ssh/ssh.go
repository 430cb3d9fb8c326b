// Package ssh runs engines on a host that already runs and that somebody has
// rented: it logs in, starts the servers detached under a bootstrap (package
// bootstrap), reaches them through the connection, and gives back what it took.
//
// # Trust
//
// A host is who known_hosts says. One that is not in there, and one that shows
// another key, are refused; nothing is ever added. ~/.ssh/config is not read,
// and there is no jump host: what a run depends on stands in its plan.
//
// # What is on the host
//
// One folder for each replica of each role, called by its unit's name (package
// provision), below the workdir: see host.sh, which is all that is ever run there. It arrives on the stdin of a
// shell, so that neither a command line nor a file there has a secret in it;
// secrets stand in the environment of the servers and nowhere else.
//
// # Losing the connection
//
// The servers do not need it. A lost connection is made again, with patience
// (Config.Reconnect), and requests through the tunnel wait for it; only then is
// the deployment over. If sweep is gone for good, the pod ends itself at its
// expiry time, and if the host has python3 also when it misses the heartbeat.
package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/secret"
)

// Kind is the backend's name in a plan.
const Kind = "ssh"

// A Config is the backend's part of a plan.
type Config struct {
	Host       string        `yaml:"host" doc:"Name or address of the host. ~/.ssh/config is not read." example:"gpu.example.com"`
	Port       int           `yaml:"port,omitempty" doc:"Port of the SSH server." default:"22" min:"1" max:"65535" example:"2222"`
	User       string        `yaml:"user,omitempty" doc:"User that logs in." default:"who runs sweep" example:"bench"`
	Key        string        `yaml:"key,omitempty" doc:"File of the private key. Without one, the keys of the SSH agent (SSH_AUTH_SOCK), and without an agent ~/.ssh/id_ed25519, id_ecdsa or id_rsa." example:"~/.ssh/id_ed25519"`
	Passphrase secret.String `yaml:"passphrase,omitempty" doc:"Passphrase of the key file. A reference, never the passphrase itself: ${SWEEP_SSH_PASSPHRASE}." example:"${SWEEP_SSH_PASSPHRASE}"`
	KnownHosts string        `yaml:"known_hosts,omitempty" doc:"File with the keys of known hosts. A host that is not in it is refused." default:"~/.ssh/known_hosts" example:"~/.ssh/known_hosts"`

	Network string                   `yaml:"network,omitempty" doc:"How requests reach a server. tunnel: through the SSH connection. direct: to the host's address, on which the server then listens for everybody, with a random key if the engine supports one." default:"tunnel" enum:"tunnel,direct" example:"direct"`
	Workdir string                   `yaml:"workdir,omitempty" doc:"Folder on the host for the pods' folders; ~ is the user's home there." default:"~/.cache/sweep" example:"/scratch/sweep"`
	Setup   string                   `yaml:"setup,omitempty" doc:"Shell lines that run on the host before each server, in its own shell, for example to activate an environment." example:". ~/vllm/bin/activate"`
	Env     map[string]secret.String `yaml:"env,omitempty" doc:"Environment of the servers, added to that of a login. Credentials by reference only: ${HF_TOKEN}." example:"{HF_TOKEN: '${HF_TOKEN}'}"`

	ConnectTimeout time.Duration `yaml:"connect_timeout,omitempty" doc:"Time limit of one connection attempt, login included." default:"15s" unit:"s" example:"30s"`
	Keepalive      time.Duration `yaml:"keepalive,omitempty" doc:"Interval of keepalive requests. After three without an answer the connection counts as lost." default:"10s" unit:"s" example:"5s"`
	Reconnect      time.Duration `yaml:"reconnect,omitempty" doc:"How long sweep tries to reconnect before the deployment counts as lost." default:"2m" unit:"s" example:"5m"`
	Heartbeat      time.Duration `yaml:"heartbeat,omitempty" doc:"Time after which a server ends itself if it has had no heartbeat from sweep. Needs python3 on the host; without it only the expiry time ends the server." default:"10m" unit:"s" example:"5m"`
}

// Defaults returns the values of what a plan leaves out.
func Defaults() Config {
	return Config{
		Port: 22, KnownHosts: "~/.ssh/known_hosts", Network: string(host.Tunnel), Workdir: "~/.cache/sweep",
		ConnectTimeout: 15 * time.Second, Keepalive: 10 * time.Second, Reconnect: 2 * time.Minute, Heartbeat: 10 * time.Minute,
	}
}

// A Backend starts servers on one host. Its methods may be called concurrently.
// It holds no connection between calls; each deployment has one of its own.
type Backend struct {
	*provision.Layer // over the workdir of the configuration

	fx *effect.Effects
	c  Config

	mu    sync.Mutex
	links map[string]*link // by the pod's name; see hold
}

var (
	_ backends.Backend  = (*Backend)(nil)
	_ backends.Adopter  = (*Backend)(nil)
	_ backends.Accessor = (*Backend)(nil)
	_ backends.Checker  = (*Backend)(nil)
	_ backends.Prober   = (*Backend)(nil)
)

// Factory makes ssh backends.
func Factory(fx *effect.Effects) backends.Factory {
	return backends.Factory{
		Kind:     Kind,
		Doc:      "engines on a host that runs already, over SSH",
		FreeGPU:  true,
		Outlives: true,
		Launch:   2 * time.Minute,
		Settle:   settle,
		Config:   Config{},
		New: func(decode func(any) error) (backends.Backend, error) {
			c := Defaults()
			if err := decode(&c); err != nil {
				return nil, err
			}
			return New(fx, c)
		},
	}
}

// noUser reports whether a character is in no user's name that ssh takes.
func noUser(r rune) bool {
	return r == '@' || r == utf8.RuneError || unicode.IsSpace(r) || unicode.IsControl(r)
}

// New makes a backend of a configuration. The error names everything that is
// wrong with it. Nothing is connected to.
func New(fx *effect.Effects, c Config) (*Backend, error) {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("backend ssh: "+format, args...))
	}
	switch {
	case c.Host == "":
		bad("host: which host?")
	case strings.HasPrefix(c.Host, "-") || strings.ContainsAny(c.Host, "@/ \t\n[]"):
		bad("host: want a name or an address alone, got %q; the user and the port have keys of their own", c.Host)
	}
	if c.Port < 1 || c.Port > 65535 {
		bad("port: want 1 to 65535, got %d", c.Port)
	}
	switch {
	case c.User == "":
		who, err := user.Current()
		if err != nil {
			bad("user: who is to log in? %v", err)
		} else {
			c.User = who.Username
		}
	case strings.HasPrefix(c.User, "-") || strings.ContainsFunc(c.User, noUser):
		bad("user: want the name of a user, without spaces, control characters, @ and a leading dash, got %q", c.User)
	}
	if c.Network != string(host.Tunnel) && c.Network != string(host.Direct) {
		bad("network: want tunnel or direct, got %q", c.Network)
	}
	if !c.Passphrase.IsZero() {
		if c.Key == "" {
			bad("passphrase: of which key? Say the key's file")
		}
		if !strings.Contains(c.Passphrase.Ref(), "${") {
			bad("passphrase: want a reference such as ${SWEEP_SSH_PASSPHRASE}, not the passphrase itself")
		}
	}
	if c.Workdir == "" || strings.ContainsAny(c.Workdir, "\x00\n") || !strings.HasPrefix(c.Workdir, "/") && c.Workdir != "~" && !strings.HasPrefix(c.Workdir, "~/") {
		bad("workdir: want an absolute path, or one below ~/, got %q", c.Workdir)
	}
	if strings.ContainsRune(c.Setup, 0) {
		bad("setup: has a NUL byte")
	}
	for _, d := range []struct {
		name string
		is   time.Duration
		min  time.Duration
	}{
		{"connect_timeout", c.ConnectTimeout, 10 * time.Millisecond},
		{"keepalive", c.Keepalive, 10 * time.Millisecond},
		{"reconnect", c.Reconnect, 10 * time.Millisecond},
		{"heartbeat", c.Heartbeat, time.Second},
	} {
		if d.is < d.min {
			bad("%s: want %v or more, got %v", d.name, d.min, d.is)
		}
	}
	env := map[string]string{}
	for name, value := range c.Env {
		env[name] = value.Reveal()
	}
	if _, err := exports(env); err != nil {
		bad("env: %v", err)
	}
	for _, path := range []*string{&c.Key, &c.KnownHosts} {
		expanded, err := expand(*path)
		if err != nil {
			bad("%v", err)
		}
		*path = expanded
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	b := &Backend{fx: fx, c: c, links: map[string]*link{}}
	b.Layer = provision.New(provision.Settings{
		Kind: Kind, Effects: fx, Env: env, Keyed: b.direct(), SharedDisk: true,
		At: func() map[string]string {
			return map[string]string{"host": c.Host, "port": strconv.Itoa(c.Port), "user": c.User}
		},
		Bootstrap: true, Heartbeat: c.Heartbeat, AgentHost: loopback,
		LogTo: func(string) string { return os.DevNull }, // the unit's own log has it; a second file would only grow
		Late:  late, Settle: settle,
	}, units{b, c.Workdir})
	return b, nil
}

// unitsOf returns those in the workdir that a pod is in: the plan may name another by
// now.
func (b *Backend) unitsOf(ref backends.Ref) units {
	dir := ref.Details[detailDir]
	if i := strings.LastIndexByte(dir, '/'); i > 0 {
		return units{b, dir[:i]}
	}
	return units{b, b.c.Workdir}
}

func (b *Backend) over(p units) *provision.Layer { return provision.New(b.Settings, p) }

// Launch implements [backends.Backend].
func (b *Backend) Launch(ctx context.Context, spec backends.Spec, ledger backends.Ledger) (backends.Deployment, error) {
	if spec.Expires.IsZero() {
		return nil, fmt.Errorf("%w: a pod on a host needs an expiry time", backends.ErrSpec)
	}
	return b.Layer.Launch(ctx, spec, ledger)
}

// Adopt implements [backends.Adopter].
func (b *Backend) Adopt(ctx context.Context, spec backends.Spec, ref backends.Ref) (backends.Deployment, error) {
	return b.over(b.unitsOf(ref)).Adopt(ctx, spec, ref)
}

// Terminate implements [backends.Backend].
func (b *Backend) Terminate(ctx context.Context, ref backends.Ref) error {
	return b.over(b.unitsOf(ref)).Terminate(ctx, ref)
}

// expand replaces a leading ~/ by our home.
func expand(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~/")
	if !ok {
		return path, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return filepath.Join(home, rest), nil
}

// address returns host:port of the SSH server.
func (b *Backend) address() string { return net.JoinHostPort(b.c.Host, strconv.Itoa(b.c.Port)) }

// where returns what finds a pod on the host again: keys of a Config, none of them a
// credential. A key with a passphrase cannot be used from there; an agent that has
// it can.
func (b *Backend) where() map[string]string {
	at := map[string]string{"known_hosts": b.c.KnownHosts, "workdir": b.c.Workdir}
	if b.c.Key != "" && b.c.Passphrase.IsZero() {
		at["key"] = b.c.Key
	}
	return at
}

const loopback = "127.0.0.1"

func (b *Backend) direct() bool { return b.c.Network == string(host.Direct) }

// urlOf returns where a port of the host is reached from here, directly or by a tunnel.
func (b *Backend) urlOf(port int, direct bool) string {
	name := loopback
	if direct {
		name = b.c.Host
	}
	return "http://" + net.JoinHostPort(name, strconv.Itoa(port))
}

// Probe implements [backends.Prober]: it logs in and looks for the tools that
// host.sh needs.
func (b *Backend) Probe(ctx context.Context) error {
	l, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	_, err = l.read(ctx, "sw_survey "+folder(b.c.Workdir))
	return err
}
