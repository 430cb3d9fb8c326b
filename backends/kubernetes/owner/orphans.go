package owner

import (
	"context"
	"fmt"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
)

// orphans deletes what a launch still has though nobody owns it: somebody deleted its Job and
// told the cluster to leave the rest (--cascade=orphan). It returns how many objects it asked to
// go. Whatever has an owner goes with that.
func (n Namespace) orphans(ctx context.Context, launch string, objects []Ref) (asked int, err error) {
	end := func(r Ref, o Object) error {
		if m := o.Metadata; len(m.Owners) == 0 && m.Deleted == nil {
			asked++
			return n.call(ctx, effect.KubeDelete, func(ctx context.Context) error {
				return n.API.Delete(ctx, r.Path(n.Name), kubeapi.Deletion{UID: m.UID, Propagation: kubeapi.Background})
			})
		}
		return nil
	}
	for _, r := range []Ref{{"batch/v1", "jobs", ""}, {"v1", "pods", ""}} {
		var all []Object
		err := n.call(ctx, effect.KubeRead, func(ctx context.Context) (err error) {
			all, err = kubeapi.ListSelected[Object](ctx, n.API, kubeapi.Collection(r.APIVersion, n.Name, r.Resource), Selector(launch))
			return err
		})
		for _, o := range all {
			if r.Name = o.Metadata.Name; err == nil {
				err = end(r, o)
			}
		}
		if err != nil {
			return asked, err
		}
	}
	for _, r := range objects {
		var o Object
		found, err := n.Read(ctx, r, &o)
		if found && o.Metadata.Labels[LabelLaunch] == launch {
			err = end(r, o)
		}
		if err != nil {
			return asked, err
		}
	}
	return asked, nil
}

// unlisted deletes what a launch without a Job may still have of the kinds that sweep does not
// list: it reads no Secret. Without the right to, that is an error of a launch that had orphans,
// with the command for it.
func (n Namespace) unlisted(ctx context.Context, launch string, orphans int) error {
	var j job
	if err := n.get(ctx, launch, &j); !kubeapi.NotFound(err) {
		return err // another Job of the name has its own
	}
	for _, resource := range []string{"secrets", "services"} {
		err := n.call(ctx, effect.KubeDelete, func(ctx context.Context) error {
			return n.API.DeleteSelected(ctx, kubeapi.Collection("v1", n.Name, resource), Selector(launch))
		})
		switch {
		case refused(err) && orphans == 0:
			return nil // nothing says that there are any
		case err != nil:
			return n.orphaned(launch, "secrets,services", err)
		}
	}
	return nil
}

// orphaned returns the error of a launch that has orphans which are not deleted.
func (n Namespace) orphaned(launch, kinds string, err error) error {
	return fmt.Errorf("somebody deleted it without what it owned (--cascade=orphan): %w; delete that with: kubectl delete -n %s %s -l %s", err, n.Name, kinds, Selector(launch))
}
