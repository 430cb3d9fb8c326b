package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/backends/kubernetes/signs"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
)

// Find finds pods by their labels, also those that have ended and are still there, and
// owners that have none.
func (p provider) Find(ctx context.Context, name string) ([]provision.Instance, error) {
	n, err := p.b.owners()
	if err != nil {
		return nil, err
	}
	// The pods first: an owner is made before its pods.
	var pods []pod
	err = p.b.call(ctx, effect.KubeRead, func(ctx context.Context, api *kubeapi.Client) (err error) {
		pods, err = kubeapi.ListSelected[pod](ctx, api, p.b.path("pods", ""), owner.Selector(name))
		return err
	})
	if err != nil {
		return nil, signs.Denied(err)
	}
	owners, err := n.List(ctx)
	if err != nil {
		return nil, signs.Denied(err)
	}
	var found []provision.Instance
	known := map[string]*owner.Owner{}
	for i := range owners {
		known[owners[i].Name.String()] = &owners[i]
	}
	for i := range pods {
		if at, ok := pods[i].instance(); ok {
			if o := known[at.Pod]; o != nil {
				at.Expires = o.Ends
			}
			found = append(found, at)
		}
	}
	has := map[string]bool{}
	for _, i := range found {
		has[i.Pod] = true
	}
	for _, o := range owners {
		if of := o.Name.String(); !has[of] && (name == "" || name == of) {
			found = append(found, provision.Instance{
				ID: o.UID, Unit: of, Pod: of, Marks: o.Marks(), Status: cmp.Or(o.Status, "Active"), Since: o.Since, Expires: o.Ends,
			})
		}
	}
	return found, nil
}

// instance returns what a pod says of itself. It is false for one that is not provably
// sweep's, and for a load pod, which is no server: its owner has it.
func (p *pod) instance() (provision.Instance, bool) {
	name, ok := backends.ParseName(p.Meta.Labels[owner.LabelInstance])
	if !ok || p.Meta.Labels[owner.LabelComponent] == string(owner.Load) || p.Meta.Labels[owner.LabelManagedBy] != owner.ManagedBy || p.Meta.Labels[owner.LabelOwner] != name.Owner {
		return provision.Instance{}, false
	}
	grace, _ := time.ParseDuration(p.Meta.Annotations[annotationGrace]) // 0 if it is not known
	status := p.Status.Phase
	if p.Meta.Deleted != nil {
		status = "Terminating"
	}
	return provision.Instance{
		ID: p.Meta.UID, Unit: p.Meta.Name, Pod: name.String(), Marks: owner.Marks(p.Meta.Annotations),
		Status: status, Running: p.Status.Phase == "Running", GPU: p.Meta.Annotations[annotationGPU],
		Since: p.Meta.Created, Grace: grace, ImageDigest: p.digest(),
	}, true
}

// Delete deletes a pod and returns when it is seen to be gone. What is not provably
// sweep's is not touched. It tries as long as ctx lasts.
func (p provider) Delete(ctx context.Context, i provision.Instance, grace time.Duration, ended func(context.Context)) error {
	asked := false
	var last error
	for {
		at, err := p.look(ctx, i.Unit)
		switch {
		case kubeapi.NotFound(err) || err == nil && at.Meta.UID != i.ID:
			if ended != nil {
				ended(ctx)
			}
			return nil
		case errors.Is(signs.Denied(err), backends.ErrRefused):
			return signs.Denied(err)
		case err != nil:
			last = err
		default:
			if _, ok := at.instance(); !ok {
				return fmt.Errorf("pod %s in namespace %s was not made by sweep: it is not touched", i.Unit, p.b.place.Namespace)
			}
			last = fmt.Errorf("it is %s", at.Status.Phase)
			if asked && at.Spec.Node != "" {
				last = fmt.Errorf("it is %s, and its node %s has not ended it", at.Status.Phase, at.Spec.Node)
			}
		}
		if err == nil && !asked {
			err := p.b.call(ctx, effect.KubeDelete, func(ctx context.Context, api *kubeapi.Client) error {
				return api.Delete(ctx, p.b.path("pods", i.Unit), kubeapi.Deletion{UID: i.ID, Grace: max(grace, time.Second)})
			})
			if _, fault := errors.AsType[*effect.Fault](err); fault || errors.Is(signs.Denied(err), backends.ErrRefused) {
				return signs.Denied(err)
			}
			if asked = err == nil; !asked {
				last = err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("pod %s in namespace %s is not seen to be gone: %w", i.Unit, p.b.place.Namespace, errors.Join(context.Cause(ctx), last))
		case <-time.After(lookEvery):
		}
	}
}

const lookEvery = 200 * time.Millisecond

// look reads a pod.
func (p provider) look(ctx context.Context, name string) (*pod, error) {
	var at pod
	err := p.b.call(ctx, effect.KubeRead, func(ctx context.Context, api *kubeapi.Client) error {
		return api.Get(ctx, p.b.path("pods", name), &at)
	})
	return &at, err
}
