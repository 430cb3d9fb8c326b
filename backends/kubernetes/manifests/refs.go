package manifests

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
)

// A ref finds an object.
type ref struct{ apiVersion, resource, name string }

// String is the ref as the owner's annotation and the ledger have it.
func (r ref) String() string { return r.apiVersion + "/" + r.resource + "/" + r.name }

func parseRef(text string) (ref, bool) {
	parts := strings.Split(text, "/")
	if len(parts) < 3 || len(parts) > 4 || slices.Contains(parts, "") {
		return ref{}, false
	}
	n := len(parts)
	return ref{strings.Join(parts[:n-2], "/"), parts[n-2], parts[n-1]}, true
}

// Refs is the objects as one text, for whoever sees to their end later: see [Gone].
func (r *Release) Refs() string {
	var all []string
	for _, o := range r.objects {
		all = append(all, o.at.String())
	}
	return strings.Join(all, " ")
}

// Annotation is where the owner has the same text.
const Annotation = "sweep.dev/objects"

// Note writes the objects into the owner, before the first of them is made.
func (r *Release) Note(ctx context.Context, o *owner.Owner) error {
	patch := map[string]any{"metadata": map[string]any{"uid": o.UID, "annotations": map[string]string{Annotation: r.Refs()}}}
	return r.call(ctx, effect.KubeExtend, func(ctx context.Context) error {
		return r.in.API.Merge(ctx, ref{"batch/v1", "jobs", o.Name.String()}.path(r.in.Name), patch, nil)
	})
}

// live is the part of an object in the cluster that all kinds have.
type live struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name        string            `json:"name"`
		UID         string            `json:"uid"`
		Generation  int64             `json:"generation"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		Finalizers  []string          `json:"finalizers"`
		Deleted     *time.Time        `json:"deletionTimestamp"`
		Owners      []owner.Reference `json:"ownerReferences"`
	} `json:"metadata"`
	Spec   spec   `json:"spec"`
	Status status `json:"status"`
}

func (l *live) ownedBy(o *owner.Owner) bool { return slices.Contains(l.Metadata.Owners, o.Reference()) }

// held says by whom an object is held that is to go, "" for nobody.
func (l *live) held() string {
	waits := slices.DeleteFunc(slices.Clone(l.Metadata.Finalizers), func(f string) bool {
		return f == "foregroundDeletion" || f == "kubernetes.io/pvc-protection"
	})
	if l.Metadata.Deleted == nil || len(waits) == 0 {
		return ""
	}
	return fmt.Sprintf(", held by the finalizer %s (is its operator at work?)", strings.Join(waits, ", "))
}

// look is an object of the cluster, nil for none.
func look(ctx context.Context, in owner.Namespace, at ref) (*live, error) {
	var have live
	err := in.Effects.Call(ctx, effect.KubeRead, func(ctx context.Context) error { return in.API.Get(ctx, at.path(in.Name), &have) })
	if kubeapi.NotFound(err) {
		return nil, nil //nolint:nilnil // none is no error
	}
	if err != nil {
		return nil, err
	}
	return &have, nil
}

// Noted is the text of [Release.Note] that the owner of a name has; "" if there is no
// such owner, or if it is none of manifests.
func Noted(ctx context.Context, in owner.Namespace, name string) (string, error) {
	have, err := look(ctx, in, ref{"batch/v1", "jobs", name})
	if have == nil || err != nil {
		return "", err
	}
	return have.Metadata.Annotations[Annotation], nil
}

// Gone returns when the objects of a launch and its pods are seen to be gone, after its
// owner was deleted. refs is what [Release.Refs] or [Noted] has said. When ctx ends, the
// error names what is left, and what holds it.
func Gone(ctx context.Context, in owner.Namespace, launch, refs string) error {
	var left []string
	for {
		now, err := remains(ctx, in, launch, refs)
		if err == nil && len(now) == 0 {
			return nil
		}
		if err == nil {
			left = now
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not seen to be gone: %s: %w", strings.Join(left, "; "), context.Cause(ctx))
		case <-time.After(lookEvery):
		}
	}
}

// remains says in words what is left of a launch.
func remains(ctx context.Context, in owner.Namespace, launch, refs string) (left []string, err error) {
	for text := range strings.FieldsSeq(refs) {
		at, ok := parseRef(text)
		if !ok {
			continue
		}
		have, err := look(ctx, in, at)
		if err != nil {
			return nil, err
		}
		if have != nil && have.Metadata.Labels[LabelLaunch] == launch {
			left = append(left, at.resource+" "+at.name+have.held())
		}
	}
	pods, err := podsOf(ctx, in, launch)
	for _, p := range pods {
		left = append(left, "pod "+p.Metadata.Name)
	}
	return left, err
}

func podsOf(ctx context.Context, in owner.Namespace, launch string) (pods []pod, err error) {
	err = in.Effects.Call(ctx, effect.KubeRead, func(ctx context.Context) (err error) {
		pods, err = kubeapi.ListSelected[pod](ctx, in.API, "/api/v1/namespaces/"+url.PathEscape(in.Name)+"/pods", LabelLaunch+"="+launch)
		return err
	})
	return pods, err
}
