package runpod

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/backends/runpodapi"
)

// recent is how old a list of the account may be from which a pod's address is
// taken: who asks has just listed it.
const recent = 30 * time.Second

// networkOf returns how a port of a pod is reached, by what was asked of RunPod.
func networkOf(p runpodapi.Pod, port int) string {
	if slices.Contains(p.Ports, strconv.Itoa(port)+"/http") {
		return networkProxy
	}
	return networkTCP
}

// Access implements [backends.Accessor] from the list of the account: it has
// each pod's environment, with the engine's key, and its public ports.
func (b *Backend) Access(ctx context.Context, ref backends.Ref) ([]backends.Access, error) {
	found, err := provision.New(b.Settings, pods{b: b, age: recent}).Instances(ctx, ref)
	if err != nil {
		return nil, err
	}
	n := slices.IndexFunc(found, func(i provision.Instance) bool { return i.ID == ref.ID || ref.ID == "" })
	if n < 0 {
		return nil, fmt.Errorf("%w: runpod lists no pod %s of sweep's", backends.ErrNotFound, cmp.Or(ref.ID, ref.Name))
	}
	p, _ := found[n].Data.(runpodapi.Pod)
	envs, err := environs(p)
	if err != nil {
		return nil, err
	}
	var all []backends.Access
	for _, env := range envs {
		a, err := backends.AccessOf(func(name string) string { return env[name] }, "the pod's environment at RunPod")
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", p.ID, err)
		}
		b.reach(&a, p)
		all = append(all, a)
	}
	slices.SortFunc(all, backends.ByReplica)
	return all, nil
}

// reach adds to an access where the pod's ports are.
func (b *Backend) reach(a *backends.Access, p runpodapi.Pod) {
	_, _, mapped := p.Runtime.Mapped(a.Port)
	switch network := networkOf(p, a.Port); {
	case p.Status == runpodapi.StatusExited:
		a.Nowhere("the pod is stopped: sweep pods start starts it, and its address will be another one")
	case p.Status != runpodapi.StatusRunning:
		a.Nowhere("the pod is " + strings.ToUpper(p.Status))
	case network == networkProxy:
		from := Config{ProxyURL: cmp.Or(p.Env[proxyVar], b.ProxyURL)}
		a.At(host.Proxy, "RunPod's HTTP proxy, over TLS; it ends a request that gives no byte for 100 s",
			func(port int) string { return from.proxied(p.ID, port) })
	case !mapped:
		a.Nowhere("RunPod has not reported the pod's public port yet: its image may still be loading")
	default:
		a.At(host.Direct, "the pod's public TCP port, without TLS: prompts, answers and the key are in clear text", func(port int) string {
			ip, public, ok := p.Runtime.Mapped(port)
			if !ok {
				return ""
			}
			return "http://" + backends.Address{Host: ip, Port: public}.String()
		})
	}
}
