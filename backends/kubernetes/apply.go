package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/clients"
	"sweep.dev/sweep/backends/kubernetes/manifests"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/internal/kubeapi"
)

// The keys of a place. Those of the configuration make a backend for it again.
const (
	atServer    = "server"
	atNamespace = "namespace"
)

// place finds a namespace again.
func (b *Backend) place(in owner.Namespace) map[string]string {
	at := map[string]string{atServer: in.API.Server(), atNamespace: b.namespace, "attach": b.attach}
	if b.cluster.Context != "" {
		at["context"] = b.cluster.Context
	}
	if b.cluster.Kubeconfig != "" {
		at["kubeconfig"] = b.cluster.Kubeconfig
	}
	return at
}

// namespaceOf returns the backend's namespace, through a client of its own.
func (b *Backend) namespaceOf() (owner.Namespace, error) {
	api, err := kubeapi.Connect(b.cluster)
	if err != nil {
		return owner.Namespace{}, fmt.Errorf("%w: %w", backends.ErrRefused, err)
	}
	return owner.Namespace{API: api, Name: b.namespace, Effects: b.fx}, nil
}

func (b *Backend) launcher() (*manifests.Launcher, error) {
	in, err := b.namespaceOf()
	if err != nil {
		return nil, err
	}
	return &manifests.Launcher{In: in, Set: b.manifests, Kind: Kind, At: b.place(in), Lease: b.heartbeat}, nil
}

// Applies implements [backends.Applier].
func (b *Backend) Applies() bool { return b.manifests != nil }

// launchManifests makes the stack of the plan's manifests, and returns when it is ready
// and its entry can be reached.
func (b *Backend) launchManifests(ctx context.Context, spec backends.Spec, l backends.Ledger) (backends.Deployment, error) {
	launcher, err := b.launcher()
	if err != nil {
		return nil, err
	}
	if want := spec.Clients; want.N > 0 {
		if err := clients.Copyable(want); err != nil {
			return nil, fmt.Errorf("%w: load.clients: %w", backends.ErrRefused, err)
		}
		ns := cmp.Or(want.Namespace, b.namespace)
		missing, err := lacks(ctx, launcher.In.API, ns)
		if err != nil {
			return nil, err
		}
		if missing != "" {
			return nil, fmt.Errorf("%w: load.clients: this user may not %s in namespace %s: ask for the Role that sweep probe --kube %[3]s --print-load-role prints", backends.ErrRefused, missing, ns)
		}
		if ns != b.namespace {
			launcher.Load, launcher.At[detailLoad] = ns, ns
		}
	}
	run, err := launcher.Launch(ctx, spec, l)
	if err != nil {
		return nil, err
	}
	d, err := b.join(ctx, spec, run)
	if err != nil {
		if left := b.endLoad(ctx, run.Ref); left != nil {
			return nil, errors.Join(err, left, run.Stop(context.WithoutCancel(ctx)))
		}
		return nil, errors.Join(err, run.GiveBack(ctx, l))
	}
	return d, nil
}

// endLoad ends the load pods of a launch that are in a namespace of their own.
func (b *Backend) endLoad(ctx context.Context, ref backends.Ref) error {
	ns := ref.Details[detailLoad]
	if ns == "" {
		return nil
	}
	in, err := b.namespaceOf()
	if err != nil {
		return err
	}
	in.Name = ns
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), releaseWithin, errors.New("the load pods were not seen to be gone in time"))
	defer cancel()
	return in.Delete(ctx, ref.Name, "")
}

// join finds the stack that a launch has made. That its objects are ready does not say
// that an address leads to them already.
func (b *Backend) join(ctx context.Context, spec backends.Spec, run *manifests.Running) (*deployment, error) {
	for {
		d, err := b.found(ctx, spec, nil, run)
		if err == nil {
			d.ref = run.Ref
			return d, nil
		}
		if _, near := errors.AsType[*nearError](err); near || errors.Is(err, backends.ErrRefused) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the objects of the manifests are ready, and %s is not: %w: %w", b.attach, context.Cause(ctx), err)
		case <-run.Done():
			return nil, run.Err()
		case <-time.After(b.every.join):
		}
	}
}

// probeManifests asks whether the manifests can be made at all.
func (b *Backend) probeManifests(ctx context.Context) error {
	launcher, err := b.launcher()
	if err != nil {
		return err
	}
	return launcher.Probe(ctx)
}

// List has what sweep has made in the namespace, of a run that is gone too.
func (b *Backend) List(ctx context.Context, of string) ([]backends.Listed, error) {
	in, err := b.namespaceOf()
	if err != nil {
		return nil, err
	}
	owners, err := in.List(ctx)
	if _, denied := errors.AsType[*kubeapi.Denied](err); denied && b.manifests == nil {
		return nil, nil // who may not see them has not made any
	}
	if err != nil {
		return nil, err
	}
	var all []backends.Listed
	for i := range owners {
		o := &owners[i]
		if of != "" && o.Name.Owner != backends.OwnerTag(of) {
			continue
		}
		marks, at := o.Marks(), b.place(in)
		if o.Load != "" {
			at[detailLoad] = o.Load
		}
		all = append(all, backends.Listed{
			Ref:   backends.Ref{Kind: Kind, RunID: marks[backends.MarkRun], Pod: marks[backends.MarkPod], ID: o.UID, Name: o.Name.String(), Details: at},
			Owner: marks[backends.MarkOwner], Status: o.Status, Since: o.Since, Expires: o.Name.Expires, Lease: o.Ends,
		})
	}
	return all, nil
}

// Terminate ends what a launch has made, in whichever namespace. A stack of somebody else
// is left alone.
func (b *Backend) Terminate(ctx context.Context, ref backends.Ref) (err error) {
	if _, ours := backends.ParseName(ref.Name); !ours {
		return nil
	}
	in, err := b.namespaceOf()
	if err != nil {
		return err
	}
	load := in
	load.Name = ref.Details[detailLoad]
	if there, here := ref.Details[atServer], in.API.Server(); there != "" && there != here {
		return fmt.Errorf("pod %s is at another place than this backend's: its server is %s, and this one is %s: set KUBECONFIG, or kubeconfig and context in the plan", ref.Pod, there, here)
	}
	if onlyLoad(ref) {
		return load.Delete(ctx, ref.Name, "")
	}
	in.Name = cmp.Or(ref.Details[atNamespace], in.Name)
	// What has GPUs first: the load pods may be where this user may do less.
	if err = manifests.End(ctx, in, ref); err != nil {
		err = fmt.Errorf("pod %s: %w", ref.Pod, err)
	}
	if load.Name != "" {
		err = errors.Join(err, load.Delete(ctx, ref.Name, ""))
	}
	return err
}
