package local

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/guard"
	"sweep.dev/sweep/internal/procfs"
)

// Access implements [backends.Accessor] from the environment of the pod's
// processes, as long as they live: they end with their run.
func (m *Machine) Access(ctx context.Context, ref backends.Ref) ([]backends.Access, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	run, pod, _ := strings.Cut(ref.ID, "/")
	var all []backends.Access
	for _, p := range procfs.With(map[string]string{MarkBackend: m.Kind, backends.MarkRun: run, backends.MarkPod: pod}) {
		environ := procfs.ReadEnviron(p.PID)
		if _, guards := environ.Lookup(guard.GuardVar); guards {
			continue // it has the marks and not the key
		}
		a, err := backends.AccessOf(func(name string) string { value, _ := environ.Lookup(name); return value }, "the environment of its process")
		if err != nil {
			continue // it ended in between, or has an environment of its own
		}
		if slices.ContainsFunc(all, func(b backends.Access) bool { return a.Role == b.Role && a.Replica == b.Replica }) {
			continue // a process that the first one has started
		}
		a.At(host.Direct, "this machine's loopback", func(port int) string {
			return "http://" + backends.Address{Host: a.Host, Port: port}.String()
		})
		all = append(all, a)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("pod %s: no process of it is seen here: %w", ref.ID, backends.ErrNotFound)
	}
	slices.SortFunc(all, backends.ByReplica)
	return all, nil
}
