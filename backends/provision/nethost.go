package provision

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"

	"sweep.dev/sweep/backends/bootstrap"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/netguard"
)

// A NetHost is a replica that is reached by the network alone: nothing is run
// beside it but what its bootstrap's agent runs.
type NetHost struct {
	Place Place
	// Seen is where a port of the replica is reached from here, as host:port.
	Seen  func(port int) string
	Via   host.Path
	Log   string           // its log here; "" for none
	Agent *bootstrap.Agent // nil for none
}

var (
	_ host.Host   = (*NetHost)(nil)
	_ host.Porter = (*NetHost)(nil)
)

// URL implements [host.Host].
func (h *NetHost) URL() string { return "http://" + h.Seen(h.Place.Port) }

// Path implements [host.Host].
func (h *NetHost) Path() host.Path { return h.Via }

// Addr implements [host.Porter].
func (h *NetHost) Addr(name string) string {
	if port, ok := h.Place.Ports[name]; ok {
		return inside("127.0.0.1", port)
	}
	return ""
}

func inside(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// Dial connects to the ports of this replica and to nothing else: a connection may
// carry its key. An address is as seen from the replica, or from here.
func (h *NetHost) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ports := []int{h.Place.Port, h.Place.Agent}
	for _, port := range h.Place.Ports {
		ports = append(ports, port)
	}
	for _, port := range ports {
		switch seen := h.Seen(port); addr {
		case seen, inside("127.0.0.1", port), inside("localhost", port), inside(h.Place.Host, port):
			return netguard.Dial(ctx, network, seen)
		}
	}
	return nil, fmt.Errorf("dial %s: refused: it is not an address of this server", addr)
}

// Exec runs a tool that reports the GPU's state, through the agent.
func (h *NetHost) Exec(ctx context.Context, argv ...string) ([]byte, error) {
	return h.Agent.Exec(ctx, argv...)
}

// Samples returns what such a tool says each second.
func (h *NetHost) Samples(ctx context.Context, offset int64) (io.ReadCloser, error) {
	return h.Agent.Samples(ctx, offset)
}

// Logs implements [host.Host].
func (h *NetHost) Logs(context.Context) (io.ReadCloser, error) { return host.OpenLog(h.Log) }
