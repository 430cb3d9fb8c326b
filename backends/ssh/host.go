package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"sweep.dev/sweep/host"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/netguard"
)

var _ host.Host = (*replica)(nil)

// URL implements [host.Host].
func (r *replica) URL() string { return r.d.b.url(r.port) }

// Path implements [host.Host].
func (r *replica) Path() host.Path { return host.Path(r.d.b.c.Network) }

// Dial implements [host.Host]. It waits, as long as ctx does, for a connection
// that was lost and is being made again.
func (r *replica) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if name, _, err := net.SplitHostPort(addr); err == nil && r.d.b.direct() && name == r.d.b.c.Host {
		return netguard.Dial(ctx, network, addr)
	}
	return r.d.link.dial(ctx, network, addr)
}

// Exec implements [host.Host]. The command ends with ctx, and with the
// connection, together with everything that it has started.
func (r *replica) Exec(ctx context.Context, argv ...string) (out []byte, err error) {
	if len(argv) == 0 || argv[0] == "" {
		return nil, errors.New("no command")
	}
	for _, a := range argv {
		if err := text("an argument", a); err != nil {
			return nil, err
		}
	}
	err = r.d.b.fx.Call(ctx, effect.SSHRead, func(ctx context.Context) (err error) {
		out, _, err = r.d.link.run(ctx, "sw_run "+words(argv...), true)
		return err
	})
	if err != nil {
		return out, fmt.Errorf("%s: %w", argv[0], err)
	}
	return out, nil
}

// Samples are what nvidia-smi on the host says each second, by the agent.
func (r *replica) Samples(ctx context.Context, offset int64) (io.ReadCloser, error) {
	a := r.agentClient()
	if a == nil {
		return nil, host.ErrNotSupported
	}
	return a.Samples(ctx, offset)
}

// Logs implements [host.Host] with the copy that we have of the log, brought up
// to date where the host can be reached.
func (r *replica) Logs(ctx context.Context) (io.ReadCloser, error) {
	if r.log == nil {
		return nil, host.ErrNotSupported
	}
	r.log.sync(ctx)
	return os.Open(r.log.path)
}

// environ is the environment that a replica was started with.
func (l *link) environ(ctx context.Context, workdir, name string, n int) (map[string]string, error) {
	out, err := l.read(ctx, fmt.Sprintf("sw_environ %s %s %d", folder(workdir), quote(name), n))
	if err != nil {
		return nil, err
	}
	env := map[string]string{}
	for v := range strings.SplitSeq(string(out), "\x00") {
		if name, value, ok := strings.Cut(v, "="); ok {
			env[name] = value
		}
	}
	return env, nil
}
