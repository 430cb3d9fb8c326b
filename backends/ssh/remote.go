package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/bootstrap"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// A remote is access to one unit, and the place where its server runs.
type remote struct {
	b       *Backend
	link    *link
	release func() // of the link
	workdir string
	unit    string
	role    backends.Role
	at      provision.Place
	agent   *bootstrap.Agent // nil if there is none
	*follower
}

var (
	_ provision.Remote       = (*remote)(nil)
	_ provision.TermsUpdater = (*remote)(nil)
	_ host.Host              = (*remote)(nil)
	_ host.Porter            = (*remote)(nil)
)

// Attach implements [provision.Provider].
func (p units) Attach(ctx context.Context, i provision.Instance, u *provision.Unit) (provision.Remote, error) {
	l, release, err := p.b.hold(ctx, podOf(i.Unit))
	if err != nil {
		return nil, err
	}
	replica := u.Replicas[0]
	r := &remote{
		b: p.b, link: l, release: release, workdir: p.workdir, unit: i.Unit, role: replica.Role, at: replica.Place, follower: newFollower(),
	}
	if port := r.at.Agent; port != 0 {
		r.agent = bootstrap.NewAgent(l.dial, "http://"+net.JoinHostPort(loopback, strconv.Itoa(port)), u.Token)
	}
	return r, nil
}

// Host implements [provision.Remote].
func (r *remote) Host(int) host.Host { return r }

// Close implements [provision.Remote].
func (r *remote) Close() { r.release() }

// UpdateTerms implements [provision.TermsUpdater].
func (r *remote) UpdateTerms(t *backends.Terms) {
	without := result.Finding{Code: finding.NoHeartbeat, Text: "the host has no python3: the server ends itself at its expiry time, not when sweep is gone"}
	if r.agent == nil && !slices.Contains(t.Findings, without) {
		t.Findings = append(t.Findings, without)
	}
}

// URL implements [host.Host].
func (r *remote) URL() string { return r.b.urlOf(r.at.Port, r.b.direct()) }

// Path implements [host.Host].
func (r *remote) Path() host.Path { return host.Path(r.b.c.Network) }

// Addr implements [host.Porter].
func (r *remote) Addr(name string) string {
	if port, ok := r.at.Ports[name]; ok {
		return net.JoinHostPort(loopback, strconv.Itoa(port))
	}
	return ""
}

// Dial implements [host.Host]. It waits, as long as ctx does, for a connection
// that was lost and is being made again.
func (r *remote) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if name, _, err := net.SplitHostPort(addr); err == nil && r.b.direct() && name == r.b.c.Host {
		return netguard.Dial(ctx, network, addr)
	}
	return r.link.dial(ctx, network, addr)
}

// Exec implements [host.Host]. The command ends with ctx, and with the
// connection, together with everything that it has started.
func (r *remote) Exec(ctx context.Context, argv ...string) (out []byte, err error) {
	if len(argv) == 0 || argv[0] == "" {
		return nil, errors.New("no command")
	}
	for _, a := range argv {
		if err := text("an argument", a); err != nil {
			return nil, err
		}
	}
	err = r.b.fx.Call(ctx, effect.SSHRead, func(ctx context.Context) (err error) {
		out, _, err = r.link.run(ctx, "sw_run "+words(argv...), true)
		return err
	})
	if err != nil {
		return out, fmt.Errorf("%s: %w", argv[0], err)
	}
	return out, nil
}

// Samples returns the output of nvidia-smi on the host, each second, by the agent.
func (r *remote) Samples(ctx context.Context, offset int64) (io.ReadCloser, error) {
	return r.agent.Samples(ctx, offset)
}

// Logs implements [host.Host] with the copy that we have of the log, brought up
// to date where the host can be reached.
func (r *remote) Logs(ctx context.Context) (io.ReadCloser, error) {
	if r.role.LogPath == nil {
		return nil, host.ErrNotSupported
	}
	r.sync(ctx)
	return os.Open(r.role.LogPath(r.at.Replica))
}
