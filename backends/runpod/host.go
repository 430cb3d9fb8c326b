package runpod

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
)

// A podHost is the pod as the network shows it.
type podHost struct {
	r    *remote
	url  string
	path host.Path
	log  string // "" if there is none
	// logged is closed with the log's first line, by first.
	logged chan struct{}
	first  sync.Once
	// targets are the addresses that may be dialled, as seen from here or from
	// inside the pod, and where they lead.
	targets map[string]string
	ports   map[string]int // further ones by name
}

var (
	_ host.Host   = (*podHost)(nil)
	_ host.Porter = (*podHost)(nil)
)

func (h *podHost) URL() string     { return h.url }
func (h *podHost) Path() host.Path { return h.path }

// Addr implements [host.Porter].
func (h *podHost) Addr(name string) string {
	port, ok := h.ports[name]
	if !ok || h.path == host.Proxy { // which is for HTTP alone
		return ""
	}
	return backends.Address{Host: "127.0.0.1", Port: port}.String()
}

// Dial connects to this pod's ports and to nothing else: a connection may carry
// the pod's key.
func (h *podHost) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	target, ok := h.targets[addr]
	if !ok {
		return nil, fmt.Errorf("dial %s: refused: it is not an address of pod %s", addr, h.r.id)
	}
	return h.r.b.dial(ctx, network, target)
}

// Exec runs nvidia-smi or amd-smi in the pod, by its agent.
func (h *podHost) Exec(ctx context.Context, argv ...string) ([]byte, error) {
	return h.r.agent.Exec(ctx, argv...)
}

// Samples returns the output of nvidia-smi in the pod, each second, by its agent.
func (h *podHost) Samples(ctx context.Context, offset int64) (io.ReadCloser, error) {
	return h.r.agent.Samples(ctx, offset)
}

// firstLine is how long Logs waits for a log that has to come by way of RunPod.
const firstLine = 5 * time.Second

// Logs opens the copy of the container's log on this machine.
func (h *podHost) Logs(ctx context.Context) (io.ReadCloser, error) {
	if h.log == "" {
		return nil, host.ErrNotSupported
	}
	wait, cancel := context.WithTimeout(ctx, firstLine)
	defer cancel()
	select {
	case <-h.logged:
	case <-wait.Done():
	}
	return os.Open(h.log)
}
