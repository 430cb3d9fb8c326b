package sim

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/gpustate"
	"sweep.dev/sweep/internal/netguard"
)

// Launch starts the servers of spec. Their commands are ours: of spec's own
// only the arguments count.
func (b *Backend) Launch(ctx context.Context, spec backends.Spec, l backends.Ledger) (backends.Deployment, error) {
	if err := check(spec); err != nil {
		return nil, err
	}
	roles := slices.Clone(spec.Roles)
	given := spec
	for i, role := range roles {
		roles[i].Argv = func(at backends.Address) ([]string, error) { return b.argv(given, role, at) }
	}
	spec.Roles = roles
	d, err := b.Machine.Launch(ctx, spec, l)
	if err != nil {
		return nil, err
	}
	return deployment{d}, nil
}

// A deployment is local servers whose hosts have simulated GPUs.
type deployment struct{ backends.Deployment }

func (d deployment) Host(role string, replica int) host.Host {
	return simulated{d.Deployment.Host(role, replica)}
}

// A simulated host is the place of a simulated server: this machine, but for
// the GPUs.
type simulated struct{ host.Host }

var (
	_ host.Host      = simulated{}
	_ host.Processor = simulated{}
	_ host.Porter    = simulated{}
)

func (h simulated) PIDs() []int {
	if p, ok := h.Host.(host.Processor); ok {
		return p.PIDs()
	}
	return nil
}

// Addr returns the server's one address: the simulator answers there what a real
// server answers on further ports.
func (h simulated) Addr(port string) string {
	p, ok := h.Host.(host.Porter)
	if !ok || p.Addr(port) == "" {
		return ""
	}
	return strings.TrimPrefix(h.URL(), "http://")
}

// otherTools show the GPUs of this machine, and are none of ours.
var otherTools = []string{"dcgmi", "nvitop", "rocm-smi"}

// playedTools are those that the simulator plays.
var playedTools = []string{"nvidia-smi", "amd-smi"}

// Exec runs a command of this machine, where the server really runs; but
// nvidia-smi --query-gpu=... --format=..., nvidia-smi -q -x and amd-smi metric,
// list or process with --json show the simulated GPUs.
func (h simulated) Exec(ctx context.Context, argv ...string) ([]byte, error) {
	if len(argv) == 0 {
		return h.Host.Exec(ctx)
	}
	tool := filepath.Base(argv[0])
	query := url.Values{}
	switch {
	case slices.Contains(otherTools, tool), gpustate.IsTool(tool) && !slices.Contains(playedTools, tool):
		return nil, fmt.Errorf("a simulated host has no %s: %w", tool, host.ErrNotSupported)
	case tool == "amd-smi" && len(argv) == 3 && argv[2] == "--json":
		query.Set("command", argv[1])
	case tool == "nvidia-smi" && slices.Equal(argv[1:], []string{"-q", "-x"}):
		query.Set("xml", "1")
	case !gpustate.IsTool(tool):
		return h.Host.Exec(ctx, argv...)
	default:
		for _, arg := range argv[1:] {
			name, value, _ := strings.Cut(arg, "=")
			switch {
			case tool == "nvidia-smi" && name == "--query-gpu":
				query.Set("query", value)
			case tool == "nvidia-smi" && name == "--format":
				query.Set("format", value)
			default:
				return nil, fmt.Errorf("a simulated %s has no %s: %w", tool, name, host.ErrNotSupported)
			}
		}
	}
	out, status, err := h.get(ctx, "/sim/"+tool+"?"+query.Encode())
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", tool, err)
	case status == http.StatusNotFound:
		return nil, fmt.Errorf("%s: %s: %w", tool, strings.TrimSpace(string(out)), host.ErrNotSupported)
	case status != http.StatusOK:
		return out, fmt.Errorf("%s: exit status 2: %s", tool, strings.TrimSpace(string(out)))
	}
	return out, nil
}

func (h simulated) get(ctx context.Context, path string) (body []byte, status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL()+path, nil)
	if err != nil {
		return nil, 0, err
	}
	// A connection of its own: it must not be in the way of the requests that
	// are measured, nor stay behind.
	client := netguard.Client(h.Dial, 0)
	defer client.CloseIdleConnections()
	resp, err := client.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, host.MaxOutput+1))
	if len(body) > host.MaxOutput {
		return body[:host.MaxOutput], resp.StatusCode, host.ErrTooLong
	}
	return body, resp.StatusCode, err
}
