package runpod

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"sweep.dev/sweep/host"
)

// A podHost is the pod as the network shows it.
type podHost struct {
	d    *deployment
	url  string
	path host.Path
	// targets are the addresses that may be dialled, as seen from here or from
	// inside the pod, and where they lead.
	targets map[string]string
}

var _ host.Host = (*podHost)(nil)

func (h *podHost) URL() string     { return h.url }
func (h *podHost) Path() host.Path { return h.path }

// Dial connects to this pod's ports and to nothing else: a connection may carry
// the pod's key.
func (h *podHost) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	target, ok := h.targets[addr]
	if !ok {
		return nil, fmt.Errorf("dial %s: refused: it is no address of pod %s", addr, h.d.ref.ID)
	}
	return h.d.b.dial(ctx, network, target)
}

// Exec runs nvidia-smi or amd-smi in the pod, by its agent.
func (h *podHost) Exec(ctx context.Context, argv ...string) ([]byte, error) {
	if h.d.agent == nil {
		return nil, host.ErrNotSupported
	}
	return h.d.agent.Exec(ctx, argv...)
}

// Samples are what nvidia-smi in the pod says each second, by its agent.
func (h *podHost) Samples(ctx context.Context, offset int64) (io.ReadCloser, error) {
	if h.d.agent == nil {
		return nil, host.ErrNotSupported
	}
	return h.d.agent.Samples(ctx, offset)
}

// firstLine is how long Logs waits for a log that has to come by way of RunPod.
const firstLine = 5 * time.Second

// Logs opens the copy of the container's log on this machine.
func (h *podHost) Logs(ctx context.Context) (io.ReadCloser, error) {
	if h.d.logPath == "" {
		return nil, host.ErrNotSupported
	}
	wait, cancel := context.WithTimeout(ctx, firstLine)
	defer cancel()
	select {
	case <-h.d.logged:
	case <-wait.Done():
	}
	return os.Open(h.d.logPath)
}
