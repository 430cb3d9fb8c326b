package manifests

import (
	"context"

	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
)

// Refs finds the objects.
func (r *Release) Refs() (refs []owner.Ref) {
	for _, o := range r.objects {
		refs = append(refs, o.at)
	}
	return refs
}

// live is an object of the cluster, as far as it is read.
type live struct {
	owner.Object
	Spec   spec   `json:"spec"`
	Status status `json:"status"`
}

// look returns an object of the cluster, nil for none.
func look(ctx context.Context, in owner.Namespace, at owner.Ref) (*live, error) {
	var have live
	found, err := in.Read(ctx, at, &have)
	if !found || err != nil {
		return nil, err
	}
	return &have, nil
}

func podsOf(ctx context.Context, in owner.Namespace, launch string) (pods []pod, err error) {
	err = in.Effects.Call(ctx, effect.KubeRead, func(ctx context.Context) (err error) {
		pods, err = kubeapi.ListSelected[pod](ctx, in.API, kubeapi.Collection("v1", in.Name, "pods"), owner.LabelLaunch+"="+launch)
		return err
	})
	return pods, err
}
