// Package manifests makes the objects of a user's own manifests in a cluster, waits until
// they are ready, and sees them gone.
//
// Everything that can be refused is refused before anything is made ([Launcher.Prepare]): kinds
// that the cluster does not have or that belong to all of it, kinds that the account may
// not make, names that somebody has, fields that the API does not know. Then each object
// is made by a create, whose name is the fence: an apply would take over an object that
// somebody made in the meantime. All are owned by the Job of package owner, which takes
// them along, also if sweep is gone by then.
package manifests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/backends/kubernetes/signs"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/internal/syntax"
)

// lookEvery is the time between two looks at the objects.
const lookEvery = 500 * time.Millisecond

// A Release is the objects of one launch.
type Release struct {
	in      owner.Namespace
	objects []*object
}

// An object is one of them.
type object struct {
	*manifest.Object
	at  owner.Ref
	doc manifest.Document
	uid string // "" until it is made
}

// Check says what of manifests cannot be made in a namespace. It asks no cluster.
func Check(set *manifest.Set, namespace string) error {
	var r syntax.Report
	for _, o := range set.Objects {
		if o.Namespace != "" && o.Namespace != namespace {
			d := r.Node(o.At("metadata", "namespace"), "namespace", "%s is for namespace %s, and the backend's is %s", o, o.Namespace, namespace)
			d.Hint = "one deployment has one namespace; leave metadata.namespace out"
		}
	}
	return r.Err()
}

// Prepare asks the cluster whether the objects of a spec can be made, and makes nothing.
// What cannot be made is a [backends.ErrSpec] or, if the account may not,
// [backends.ErrRefused]. It waits, as long as ctx lasts, for what an earlier launch of
// the same run has left and that is on its way to be gone.
func (l *Launcher) Prepare(ctx context.Context, spec backends.Spec) (*Release, error) {
	r, err := l.planned(spec.Manifest)
	if err != nil {
		return nil, err
	}
	if err := r.possible(ctx); err != nil {
		return nil, err
	}
	if err := r.free(ctx, spec); err != nil {
		return nil, err
	}
	return r, r.tryOut(ctx)
}

// planned returns the objects with values of axes, in the order in which they are made.
func (l *Launcher) planned(values map[string]any) (*Release, error) {
	docs, err := l.Set.Documents(values)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	r := &Release{in: l.In}
	for i, o := range l.Set.Objects {
		r.objects = append(r.objects, &object{Object: o, doc: docs[i], at: owner.Ref{APIVersion: o.APIVersion, Name: o.Name}})
	}
	slices.SortStableFunc(r.objects, func(a, b *object) int { return cmp.Compare(rank(a.Kind), rank(b.Kind)) })
	return r, nil
}

// possible reports whether the cluster has the kinds, and the account the rights.
func (r *Release) possible(ctx context.Context) error {
	if err := r.discover(ctx); err != nil {
		return err
	}
	return r.permitted(ctx)
}

// rank orders kinds: what pods name when they start is made before them.
func rank(kind string) int {
	if i := slices.Index([]string{"ServiceAccount", "ConfigMap", "PersistentVolumeClaim", "Role", "RoleBinding", "Service"}, kind); i >= 0 {
		return i
	}
	return 100
}

func (r *Release) call(ctx context.Context, p effect.Point, f func(context.Context) error) error {
	return r.in.Effects.Call(ctx, p, f)
}

// bad returns an error about an object, at its place.
func bad(o *object, kind error, format string, args ...any) error {
	at := o.Place()
	return fmt.Errorf("%w: %s:%d: %s %s", kind, at.Src.Name, at.Line, o, fmt.Sprintf(format, args...))
}

// discover finds the resource of each object. Objects of the whole cluster are refused:
// they have no owner in a namespace, and are not one launch's.
func (r *Release) discover(ctx context.Context) error {
	known := map[string][]kubeapi.Kind{}
	var errs []error
	for _, o := range r.objects {
		kinds, ok := known[o.APIVersion]
		if !ok {
			err := r.call(ctx, effect.KubeRead, func(ctx context.Context) (err error) {
				kinds, err = r.in.API.Kinds(ctx, o.APIVersion)
				return err
			})
			if err != nil {
				return err
			}
			known[o.APIVersion] = kinds
		}
		i := slices.IndexFunc(kinds, func(k kubeapi.Kind) bool { return k.Kind == o.Kind })
		switch {
		case len(kinds) == 0:
			errs = append(errs, bad(o, backends.ErrSpec, "cannot be made: the cluster has no API %s; is its operator installed?", o.APIVersion))
		case i < 0:
			var names []string
			for _, k := range kinds {
				names = append(names, k.Kind)
			}
			text := ""
			if near := syntax.Nearest(o.Kind, names); near != "" {
				text = "; did you mean " + near + "?"
			}
			errs = append(errs, bad(o, backends.ErrSpec, "cannot be made: %s has no kind %s%s", o.APIVersion, o.Kind, text))
		case !kinds[i].Namespaced:
			errs = append(errs, bad(o, backends.ErrSpec, "belongs to the whole cluster, and sweep changes one namespace: make it beforehand, and leave it out"))
		default:
			o.at.Resource = kinds[i].Resource
		}
	}
	return errors.Join(errs...)
}

// permitted asks for the rights to make the objects with their owner, and to look at them.
func (r *Release) permitted(ctx context.Context) error {
	rights := []kubeapi.Right{{Verb: "list", Resource: "pods"}} // to see them ready, and gone
	for _, verb := range []string{"create", "get", "list", "patch", "delete"} {
		rights = append(rights, kubeapi.Right{Verb: verb, Group: "batch", Resource: "jobs"}) // what owns them
	}
	for _, o := range r.objects {
		for _, verb := range []string{"create", "get"} {
			right := kubeapi.Right{Verb: verb, Group: o.Group(), Resource: o.at.Resource}
			if !slices.Contains(rights, right) {
				rights = append(rights, right)
			}
		}
	}
	var held []bool
	err := r.call(ctx, effect.KubeRead, func(ctx context.Context) (err error) {
		held, err = r.in.API.Review(ctx, r.in.Name, rights)
		return err
	})
	if err != nil {
		return err
	}
	var lacks []string
	for i, right := range rights {
		if !held[i] {
			lacks = append(lacks, right.Verb+" "+kubeapi.Qualified(right.Group, right.Resource))
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("%w: this user may not %s in namespace %s, and the manifests need it: add the rights to the user's Role", backends.ErrRefused, strings.Join(lacks, ", "), r.in.Name)
	}
	return nil
}

// free refuses names that somebody has, and waits for those of our own run that are on
// their way out.
func (r *Release) free(ctx context.Context, spec backends.Spec) error {
	for _, o := range r.objects {
		for {
			have, err := look(ctx, r.in, o.at)
			if err != nil {
				return err
			}
			if have == nil {
				break
			}
			launch, ours := have.Metadata.Labels[owner.LabelLaunch]
			switch {
			case !ours:
				return bad(o, backends.ErrSpec, "is in namespace %s already, and sweep did not make it: it is not touched; give it another name, or delete it", r.in.Name)
			case have.Metadata.Labels[owner.LabelRun] != owner.Value(backends.RunTag(spec.RunID)):
				return bad(o, backends.ErrSpec, "is in namespace %s already, of the launch %s: another run uses it, or sweep gc ends it", r.in.Name, launch)
			}
			select {
			case <-ctx.Done():
				return bad(o, backends.ErrSpec, "is still there, of the launch %s of this run%s: %v", launch, have.HeldBy(), context.Cause(ctx))
			case <-time.After(lookEvery):
			}
		}
	}
	return nil
}

// tryOut has the API server judge each object as if it were made. Only what is wrong
// with an object itself counts: one may need another that is made before it, and a rule
// of admission may not like rehearsals.
func (r *Release) tryOut(ctx context.Context) error {
	var errs []error
	for _, o := range r.objects {
		err := r.call(ctx, effect.KubeRead, func(ctx context.Context) error { return r.in.API.Try(ctx, r.collection(o.at), o.doc) })
		at, ok := errors.AsType[*kubeapi.StatusError](err)
		switch {
		case ok && (at.Code == http.StatusUnprocessableEntity || at.Code == http.StatusBadRequest && !strings.Contains(at.Message, "dry run")):
			errs = append(errs, bad(o, backends.ErrSpec, "is refused by the API server: %s", at.Message))
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
	return errors.Join(errs...)
}

func (r *Release) collection(at owner.Ref) string {
	return kubeapi.Collection(at.APIVersion, r.in.Name, at.Resource)
}

// Apply makes the objects. Nothing of it is undone by an error: the owner takes it along.
func (r *Release) Apply(ctx context.Context, o *owner.Owner) error {
	labels := map[string]string{owner.LabelLaunch: o.Name.String()}
	for k, v := range o.Labels(owner.Engine, "", 0) {
		if strings.HasPrefix(k, "sweep.dev/") {
			labels[k] = v
		}
	}
	for _, one := range r.objects {
		one.Label(one.doc, manifest.Labels{
			Set: labels, Add: map[string]string{owner.LabelManagedBy: owner.ManagedBy}, Annotations: o.Annotations(),
		})
		meta, _ := one.doc["metadata"].(map[string]any)
		meta["ownerReferences"] = []kubeapi.OwnerReference{o.Reference()}
		if err := (signs.Room{}).Await(ctx, func() error { return r.make(ctx, one, o) }); err != nil {
			return err
		}
	}
	return nil
}

// make makes one object. Where the answer is lost it looks whether the object is there,
// and tries again if it is not.
func (r *Release) make(ctx context.Context, one *object, o *owner.Owner) error {
	for {
		var made live
		err := r.call(ctx, effect.KubeCreate, func(ctx context.Context) error {
			return r.in.API.Create(ctx, r.collection(one.at), one.doc, &made)
		})
		if _, fault := errors.AsType[*effect.Fault](err); fault {
			return err
		}
		if err == nil {
			one.uid = made.Metadata.UID
			return nil
		}
		if kubeapi.Exists(err) {
			have, lookErr := look(ctx, r.in, one.at)
			if lookErr == nil && have != nil && have.OwnedBy(o) {
				one.uid = have.Metadata.UID
				return nil
			}
			return bad(one, backends.ErrSpec, "was made by somebody else in the meantime: it is not touched")
		}
		if _, denied := errors.AsType[*kubeapi.Denied](err); denied {
			return fmt.Errorf("%w: %w", backends.ErrRefused, err)
		}
		if kubeapi.Refused(err) {
			return refusal(one, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", one, context.Cause(ctx), err)
		case <-time.After(lookEvery):
		}
	}
}

// refusal returns the error of a create that the cluster has refused.
func refusal(o *object, err error) error {
	at := o.Place()
	return signs.Refusal(true, fmt.Sprintf("%s:%d: %s is refused by the API server", at.Src.Name, at.Line, o), err)
}
