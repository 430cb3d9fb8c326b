package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/foreign"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/kubernetes/clients"
	"sweep.dev/sweep/backends/kubernetes/manifests"
	"sweep.dev/sweep/backends/kubernetes/stack"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// A deployment is a stack that was found: somebody else's, or that of a launch.
type deployment struct {
	run   *manifests.Running // nil for somebody else's
	b     *Backend
	api   *kubeapi.Client
	spec  backends.Spec
	ref   backends.Ref
	entry entry
	relay *relay
	done  chan struct{} // never closed
	once  sync.Once
	logs  *logbook // nil: the launch has no folder for them

	fleet  *clients.Fleet // the load pods; nil: there are none
	remote bool           // the entry is reached from them alone

	view *stack.View // of one watcher at a time

	mu     sync.Mutex // of what follows
	stack  *stack.Stack
	places map[string][]place // by the spec's roles
	known  map[string]place   // by the pods' UIDs and roles, so that each is tried once
	made   hardware
}

// A place is a pod that plays a role of the spec, or a container beside its main one.
type place struct {
	plays string // the role
	role  string // of the stack; "" for a container beside the main one
	pod   stack.Pod
	port  int // of its metrics; 0: its manifest names none
	host  *podHost
	why   string // its metrics cannot be read; "" if they can
}

func (p *place) key() string { return p.pod.UID + " " + p.plays }

var (
	_ backends.Rental  = (*deployment)(nil)
	_ backends.Server  = (*deployment)(nil)
	_ backends.Found   = (*deployment)(nil)
	_ backends.Watched = (*deployment)(nil)
)

// serves says why a stack is none yet: without a ready engine nothing answers.
func serves(s *stack.Stack) error {
	ready := slices.ContainsFunc(s.Roles, func(r stack.Role) bool { return slices.Contains(engines, r.Name) && r.Ready() > 0 })
	if ready {
		return nil
	}
	return fmt.Errorf("%s in namespace %s has no ready pod of an engine: %s", s.Name, s.Namespace, strings.Join(s.Findings, "; "))
}

// begin finds the servers for the first time.
func (d *deployment) begin(ctx context.Context) error {
	d.stack, d.known = d.view.Stack, map[string]place{}
	d.find(ctx, d.stack)
	d.made = d.hardwareOf(ctx, d.stack)
	d.made.version = d.versionOf(ctx)
	return context.Cause(ctx)
}

// maxTries bounds the connections that are tried at once.
const maxTries = 16

// find places the pods of a stack in the roles of the spec.
func (d *deployment) find(ctx context.Context, s *stack.Stack) {
	var all []place
	for i := range s.Roles {
		role := &s.Roles[i]
		plays := profileRole(&d.spec, role.Name)
		if plays == "" || !leads(role.Name) {
			continue
		}
		for _, p := range role.Pods {
			all = append(all, place{plays: plays, role: role.Name, pod: p, port: d.portOf(plays, &p)})
			all = append(all, besides(&d.spec, &p)...)
		}
	}
	var g errgroup.Group
	g.SetLimit(maxTries)
	for i := range all {
		if before, ok := d.known[all[i].key()]; ok && before.why == "" {
			all[i].host = before.host
			continue
		}
		g.Go(func() error { d.reach(ctx, &all[i], s); return nil })
	}
	_ = g.Wait() // what cannot be reached is in its place
	places := map[string][]place{}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range all {
		d.known[p.key()] = p
		places[p.plays] = append(places[p.plays], p)
	}
	d.places = places
}

// reach finds how the metrics of a pod are read: directly, else through the API server.
func (d *deployment) reach(ctx context.Context, p *place, s *stack.Stack) {
	switch {
	case p.port == 0:
		p.why = "its manifest names no port"
	case p.pod.IP == "":
		p.why = "it has no address"
	}
	if p.why != "" {
		return
	}
	at := &url.URL{Scheme: "http", Host: net.JoinHostPort(p.pod.IP, strconv.Itoa(p.port))}
	h := &podHost{Host: foreign.Host{At: at, Guard: d.b.guard}}
	to := relayed{pod: p.pod.Name, port: p.port}
	if p.role == picker {
		to.token = d.b.token
	}
	refused := d.b.refuses(ctx, at)
	to.proxied = refused != ""
	switch {
	case to.proxied && !slices.ContainsFunc(s.Rights, func(r stack.RightStatus) bool { return r.Resource == "pods/proxy" && r.Held }):
		p.why = fmt.Sprintf("%s, and this user may not get pods/proxy, which would read them through the API server", refused)
		return
	case to.proxied:
		h.By = host.Proxy
	case to.token.IsZero():
		p.host = h
		return
	}
	d.relay.add(at.Host, to)
	h.dialer, p.host = d.relay.dial, h
}

// portOf returns the port of the metrics of a pod: the one that its manifest names, else the one
// that the plan's engine serves the role on; 0 if neither names one.
func (d *deployment) portOf(role string, p *stack.Pod) int {
	if c := p.Main(); c != nil {
		if port := c.MetricsPort(); port > 0 {
			return port
		}
	}
	for _, r := range d.spec.Roles {
		if r.Name == role {
			return r.Port
		}
	}
	return 0
}

// Authorize adds what every request to the entry carries.
func (d *deployment) Authorize(h backends.Header) { d.entry.headers.Set(h) }

// Roles implements [backends.Found].
func (d *deployment) Roles() []backends.Role {
	d.mu.Lock()
	defer d.mu.Unlock()
	var roles []backends.Role
	for _, r := range d.spec.Roles {
		r.Replicas = len(d.places[r.Name])
		if r.Name == d.spec.Entry {
			r.Replicas = max(r.Replicas, 1)
		}
		if r.Replicas > 0 {
			roles = append(roles, r)
		}
	}
	return roles
}

// Metrics implements [backends.Found].
func (d *deployment) Metrics(role string, replica int) (host.Host, string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if replica >= len(d.places[role]) {
		return nil, "the stack has no pod of it"
	}
	p := d.places[role][replica]
	if p.why != "" {
		return nil, p.pod.Name + ": " + p.why
	}
	return p.host, ""
}

// Host implements [backends.Deployment]. That of the entry is the stack's address.
func (d *deployment) Host(role string, replica int) host.Host {
	if role == d.spec.Entry {
		return d.entry.host
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if replica < 0 || replica >= len(d.places[role]) {
		panic(fmt.Sprintf("kubernetes: no replica %d of role %q", replica, role))
	}
	if p := d.places[role][replica]; p.host != nil {
		return p.host
	}
	return d.entry.host // nothing is read there: its metrics are none
}

// Done is closed when the cluster has ended what a launch has made. A stack of somebody
// else is never done.
func (d *deployment) Done() <-chan struct{} {
	if d.run != nil {
		return d.run.Done()
	}
	return d.done
}

// Err says why.
func (d *deployment) Err() error {
	if d.run != nil {
		return d.run.Err()
	}
	return nil
}

// close ends what reads from the stack.
func (d *deployment) close() {
	d.logs.close()
	d.relay.close()
}

// Stop ends what a launch has made, the load pods first. In a stack of somebody else it changes nothing.
func (d *deployment) Stop(ctx context.Context) error {
	d.once.Do(d.close)
	var errs []error
	if d.fleet != nil {
		errs = append(errs, d.fleet.Close(ctx))
	}
	if d.run != nil {
		errs = append(errs, d.run.Stop(ctx))
	}
	return errors.Join(errs...)
}

// Terms implements [backends.Rental].
func (d *deployment) Terms() backends.Terms {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := backends.Terms{Ref: d.ref, GPU: d.made.gpu, GPUs: d.made.gpus, Version: d.made.version, ImageDigest: digests(d.stack)}
	if list := d.stack.Findings; len(list) > 0 {
		t.Findings = append(t.Findings, result.Finding{Code: finding.StackUneven, Text: "before the run look at this: " + strings.Join(list, "; ")})
	}
	if names := roleless(&d.spec, d.stack); len(names) > 0 {
		t.Findings = append(t.Findings, result.Finding{Code: finding.StackRole, Text: fmt.Sprintf(
			"the engine %s of the plan has no role for the pods of %s, so no column is of them; llm-d and dynamo-disagg have prefill and decode", d.spec.Engine, strings.Join(names, " and "))})
	}
	return t
}

// look reads the stack again.
func (d *deployment) look(ctx context.Context, read func(context.Context) error) (*stack.Stack, error) {
	if err := read(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stack = d.view.Stack
	return d.stack, nil
}
