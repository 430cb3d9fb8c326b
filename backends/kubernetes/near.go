package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/kubernetes/clients"
	"sweep.dev/sweep/backends/kubernetes/stack"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/load/worker"
	"sweep.dev/sweep/result"
)

// detailLoad is the namespace of load pods in a ref. One of them alone says so, or has no place:
// that of a version before.
const (
	detailLoad = "load_namespace"
	detailOnly = "only"
)

// onlyLoad reports whether a ref is of load pods alone, and not of servers too.
func onlyLoad(ref backends.Ref) bool {
	return ref.Details[detailLoad] != "" && (ref.Details[detailOnly] != "" || ref.Details[atServer] == "")
}

const (
	// longest is how long load pods live at most, of a run that has no end of its own.
	longest = 7 * 24 * time.Hour
	// releaseWithin bounds the clean-up after a launch that failed.
	releaseWithin = time.Minute
)

var _ backends.ClientHost = (*deployment)(nil)

// A way is how requests get to a stack.
type way struct {
	entries []entry // the first that answers is taken
	pods    bool    // load pods send
	remote  error   // why nothing else can; nil: this process could too
	want    backends.ClientsWant
}

// wayTo decides who sends: load pods if the plan wants them, and one if no address of the
// stack can be reached from here.
func (b *Backend) wayTo(ctx context.Context, s *stack.Stack, want backends.ClientsWant) (way, error) {
	e, err := b.entryOf(ctx, s)
	w := way{entries: []entry{e}, pods: want.N > 0, want: want}
	none, closed := errors.AsType[*closedError](err)
	switch {
	case err == nil:
	case !closed || len(none.usable) == 0:
		return w, fmt.Errorf("%w: %s", err, elsewhere)
	case want.Processes:
		return w, fmt.Errorf("%w: the clients of load.clients are processes of this machine; leave kind: process out, or %s", err, elsewhere)
	default:
		w.entries, w.pods, w.remote = none.usable, true, err
	}
	if by := w.entries[0].host.Path(); w.pods && by != host.Direct {
		return w, fmt.Errorf("backend.url: %s is an address of a %s that is here alone, and load pods would not find it: leave it out, or give one that leads to the stack from within the cluster", b.url, by)
	}
	w.want.N, w.want.Namespace = max(1, want.N), cmp.Or(want.Namespace, b.namespace)
	return w, nil
}

const elsewhere = "run sweep inside the cluster, or set backend.url to an address that leads to it; a port-forward will not do, its trials are INVALID"

// mayLoad fails unless this user may make load pods.
func (b *Backend) mayLoad(ctx context.Context, api *kubeapi.Client, none *closedError) error {
	if len(none.usable) == 0 {
		return fmt.Errorf("%w: %s", none, elsewhere)
	}
	missing, err := lacks(ctx, api, b.namespace)
	if err == nil && missing != "" {
		err = fmt.Errorf("%w: %w, and a load pod would reach it, but this user may not %s in namespace %s: ask for the Role that sweep probe --kube %[4]s --print-load-role prints, or %[5]s",
			backends.ErrRefused, none, missing, b.namespace, elsewhere)
	}
	return err
}

// lacks returns the rights, in words, that this user needs for load pods and has not; "" for
// none.
func lacks(ctx context.Context, api *kubeapi.Client, namespace string) (string, error) {
	rights := clients.Needed()
	held, err := api.Review(ctx, namespace, rights)
	if err != nil {
		return "", err
	}
	var missing []string
	for i, r := range rights {
		if !held[i] {
			missing = append(missing, r.Verb+" "+kubeapi.Qualified(r.Group, r.Resource))
		}
	}
	return strings.Join(slices.Compact(missing), ", "), nil
}

// near makes the load pods, and finds the entry by one of them. The ledger has all that
// has to be given back before it is made. Those of a launch of manifests go with it: the
// ledger has them already.
func (d *deployment) near(ctx context.Context, l backends.Ledger, w way) error {
	if err := clients.Copyable(w.want); err != nil {
		return w.failed(fmt.Errorf("%w: %w", backends.ErrRefused, err))
	}
	d.remote = w.remote != nil
	c := clients.Config{API: d.api, Effects: d.b.fx, Marks: backends.Marks(d.spec), Engine: d.spec.Engine, Want: w.want, Lease: d.b.heartbeat}
	if d.run != nil {
		c.Name = d.run.Owner().Name
		if w.want.Namespace == d.b.namespace {
			c.Owner = d.run.Owner()
		}
		d.fleet = clients.New(c)
		if err := d.fleet.Own(ctx); err != nil {
			return w.failed(err)
		}
		return d.gather(ctx, w)
	}
	expires := d.spec.Expires
	if expires.IsZero() {
		expires = time.Now().Add(longest)
	}
	name := backends.NewName(d.spec.Owner, d.spec.RunID, expires)
	in, err := d.b.namespaceOf()
	if err != nil {
		return err
	}
	at := d.b.place(in)
	at[detailLoad], at[detailOnly] = w.want.Namespace, "load"
	d.ref.Name, d.ref.Details = name.String(), at
	intent := backends.Transition{Pod: d.spec.Pod, State: backends.Intended, Kind: Kind, Name: name.String(), At: d.ref.Details}
	if err := record(ctx, l, intent); err != nil {
		return err
	}
	c.Name = name
	d.fleet = clients.New(c)
	if err := record(ctx, l, backends.Transition{Pod: d.spec.Pod, State: backends.Sent}); err != nil {
		return err
	}
	if err := d.fleet.Own(ctx); err != nil {
		return w.failed(err)
	}
	d.ref.ID = name.String()
	if err := record(ctx, l, backends.Transition{Pod: d.spec.Pod, State: backends.Created, Ref: &d.ref}); err != nil {
		return err
	}
	return d.gather(ctx, w)
}

// gather waits for the load pods, and for an entry that one of them reaches.
func (d *deployment) gather(ctx context.Context, w way) error {
	if _, err := d.fleet.Clients(ctx, w.want.N); err != nil {
		return w.failed(err)
	}
	for {
		err := d.enter(ctx, w)
		if err == nil || d.run == nil {
			return err
		}
		// That the objects of a launch are ready does not say that an address leads to them.
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-d.run.Done():
			return d.run.Err()
		case <-time.After(d.b.every.join):
		}
	}
}

// A nearError is that of load pods: what they need does not come with time.
type nearError struct{ error }

func (e *nearError) Unwrap() error { return e.error }

// record writes a transition down, if there is a ledger for it.
func record(ctx context.Context, l backends.Ledger, t backends.Transition) error {
	if l == nil {
		return nil
	}
	if err := l.Record(ctx, t); err != nil {
		return fmt.Errorf("record of pod %s: %w", t.Pod, err)
	}
	return nil
}

// failed returns the error of load pods that could not be made, with what to do.
func (w way) failed(err error) error {
	if _, denied := errors.AsType[*kubeapi.Denied](err); denied {
		err = fmt.Errorf("%w: %w: ask for the Role that sweep probe --kube %s --print-load-role prints", backends.ErrRefused, err, w.want.Namespace)
	}
	if w.remote != nil {
		return fmt.Errorf("%w; a load pod would, but: %w; or %s", w.remote, err, elsewhere)
	}
	return err
}

// enter takes the first entry that a load pod can connect to.
func (d *deployment) enter(ctx context.Context, w way) error {
	var tried []string
	for _, e := range w.entries {
		conn, err := d.within(ctx, addressOf(e.host.At))
		if err != nil {
			tried = append(tried, e.host.URL()+": "+err.Error())
			continue
		}
		conn.Close()
		d.entry = e
		if d.remote {
			d.entry.host.dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				// As from here: the host of the entry, and no other.
				if name, _, err := net.SplitHostPort(addr); err != nil || !strings.EqualFold(name, e.host.At.Hostname()) {
					return nil, fmt.Errorf("dial %s: refused: the server is %s", addr, e.host.At.Hostname())
				}
				return d.within(ctx, addr)
			}
		}
		return nil
	}
	err := fmt.Errorf("no address of the stack can be reached from a load pod in namespace %s (%s): look at its network policies", w.want.Namespace, strings.Join(tried, "; "))
	return &backends.Failure{Class: result.ErrConnect, Err: err}
}

// within connects to an address from where the first load pod is.
func (d *deployment) within(ctx context.Context, addr string) (net.Conn, error) {
	c, err := d.fleet.First(ctx)
	if err != nil {
		return nil, err
	}
	return worker.Dial(ctx, worker.Address{URL: c.URL, Token: c.Token, Dial: c.Dial}, addr)
}

// release gives back what a launch that failed has made.
func (d *deployment) release(ctx context.Context, l backends.Ledger) error {
	d.once.Do(d.close)
	if d.fleet == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), releaseWithin, errors.New("the load pods were not seen to be gone in time"))
	defer cancel()
	if err := d.fleet.Close(ctx); err != nil || d.run != nil {
		return err // what a launch of manifests owes it gives back itself
	}
	return record(ctx, l, backends.Transition{Pod: d.spec.Pod, State: backends.Gone})
}

// Clients implements [backends.ClientHost].
func (d *deployment) Clients(ctx context.Context, n int) ([]backends.Client, error) {
	if d.fleet == nil {
		return nil, fmt.Errorf("load.clients: this launch has no load pods")
	}
	return d.fleet.Clients(ctx, n)
}

// Remote implements [backends.ClientHost].
func (d *deployment) Remote() bool { return d.remote }
