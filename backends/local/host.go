package local

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/bounded"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/guard"
	"sweep.dev/sweep/internal/netguard"
)

// A localHost is one replica.
type localHost struct {
	fx      *effect.Effects
	address backends.Address
	log     string // "" if there is none
	process *guard.Process
}

var (
	_ host.Host      = (*localHost)(nil)
	_ host.Processor = (*localHost)(nil)
	_ host.Porter    = (*localHost)(nil)
)

func (h *localHost) URL() string     { return "http://" + h.address.String() }
func (h *localHost) Path() host.Path { return host.Direct }
func (h *localHost) PIDs() []int     { return h.process.PIDs() }

func (h *localHost) Addr(name string) string {
	port, ok := h.address.Ports[name]
	if !ok {
		return ""
	}
	return net.JoinHostPort(h.address.Host, strconv.Itoa(port))
}

func (h *localHost) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return netguard.Dial(ctx, network, addr)
}

func (h *localHost) Logs(context.Context) (io.ReadCloser, error) { return host.OpenLog(h.log) }

// Exec runs a command of this machine. Whatever it started ends with it when
// the context does.
func (h *localHost) Exec(ctx context.Context, argv ...string) ([]byte, error) {
	out := &bounded.Buffer{Max: host.MaxOutput, Full: func() error { return host.ErrTooLong }}
	err := h.fx.Run(ctx, effect.SpawnTool, effect.KillTool, argv, nil, out)
	if err != nil && len(argv) > 0 {
		err = fmt.Errorf("%s: %w", argv[0], err)
	}
	return out.Bytes(), err
}
