package pods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/internal/bounded"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/netguard"
)

// A podHost is a server in a pod.
type podHost struct {
	p      provider
	l      *launch // nil: it has none
	pod    string
	place  provision.Place
	ip     string
	direct string // host:port of the server
	why    string // it cannot be reached there; "" if it can
	log    string // "" if there is none
}

var (
	_ host.Host   = (*podHost)(nil)
	_ host.Porter = (*podHost)(nil)
)

// reach finds how a pod that runs is reached, and what it runs on.
func (r *remote) reach(ctx context.Context) error {
	s := r.sight()
	replica := r.unit.Replicas[0]
	l, _ := r.unit.Data.(*launch)
	h := &podHost{p: r.p, l: l, pod: r.unit.Name, place: replica.Place, ip: s.pod.Status.IP}
	h.direct = net.JoinHostPort(h.ip, strconv.Itoa(replica.Place.Port))
	if replica.Role.LogPath != nil {
		h.log = replica.Role.LogPath(replica.Place.Replica)
	}
	h.why = r.p.b.refuses(ctx, h.direct)
	gpu := ""
	if replica.Role.GPUs > 0 {
		gpu = r.p.gpuAt(ctx, s.pod.Spec.Node)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.host, r.gpu = h, gpu
	return context.Cause(ctx)
}

// refuses says why an address cannot be reached from here, or "". A port that nothing
// listens on yet was reached.
func (b *Backend) refuses(ctx context.Context, addr string) string {
	ctx, cancel := context.WithTimeoutCause(ctx, b.every.connect, fmt.Errorf("no connection within %v", b.every.connect))
	defer cancel()
	conn, err := netguard.Dial(ctx, "tcp", addr)
	switch {
	case err == nil:
		conn.Close()
		return ""
	case errors.Is(err, syscall.ECONNREFUSED):
		return ""
	case ctx.Err() != nil:
		return context.Cause(ctx).Error()
	}
	return err.Error()
}

// gpuAt returns the GPU of a node; "" if the node may not be read, or does not say it.
func (p provider) gpuAt(ctx context.Context, node string) string {
	at, err := p.lookNode(ctx, node)
	if err != nil {
		return ""
	}
	for _, key := range []string{p.b.config.GPULabel, "nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator", "karpenter.k8s.aws/instance-gpu-name"} {
		if product := at.Meta.Labels[key]; product != "" {
			return catalog.NameOfLabel(product)
		}
	}
	return ""
}

// URL implements [host.Host].
func (h *podHost) URL() string { return "http://" + h.direct }

// Path implements [host.Host].
func (h *podHost) Path() host.Path { return h.l.path(h.why == "") }

// Addr implements [host.Porter].
func (h *podHost) Addr(name string) string {
	if port, ok := h.place.Ports[name]; ok {
		return backends.Address{Host: "127.0.0.1", Port: port}.String()
	}
	return ""
}

// Dial connects to a port of this pod and to nothing else. An address is as seen from
// here or from the pod.
func (h *podHost) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	name, text, err := net.SplitHostPort(addr)
	port, badPort := strconv.Atoi(text)
	if err := errors.Join(err, badPort); err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	switch name {
	case h.ip, "127.0.0.1", "localhost", "::1", h.place.Host:
	default:
		return nil, fmt.Errorf("dial %s: refused: it is not an address of pod %s", addr, h.pod)
	}
	if h.why == "" {
		return netguard.Dial(ctx, network, net.JoinHostPort(h.ip, text))
	}
	var conn net.Conn
	err = h.p.b.call(ctx, effect.KubeRead, func(ctx context.Context, api *kubeapi.Client) (err error) {
		conn, err = api.Dial(ctx, h.p.b.place.Namespace, h.pod, port)
		return err
	})
	return conn, err
}

// Logs implements [host.Host].
func (h *podHost) Logs(context.Context) (io.ReadCloser, error) { return host.OpenLog(h.log) }

// Exec runs a command in the container.
func (h *podHost) Exec(ctx context.Context, argv ...string) ([]byte, error) {
	if len(argv) == 0 {
		return nil, errors.New("no command")
	}
	out := &bounded.Buffer{Max: host.MaxOutput, Full: func() error { return host.ErrTooLong }}
	err := h.p.b.call(ctx, effect.KubeRead, func(ctx context.Context, api *kubeapi.Client) error {
		return api.Exec(ctx, kubeapi.Command{Namespace: h.p.b.place.Namespace, Pod: h.pod, Container: container, Argv: argv, Out: out})
	})
	if _, ok := errors.AsType[*kubeapi.Denied](err); ok {
		return nil, fmt.Errorf("%w: %w", host.ErrNotSupported, err)
	}
	if err != nil {
		return out.Bytes(), fmt.Errorf("%s: %w", argv[0], err)
	}
	return out.Bytes(), nil
}
