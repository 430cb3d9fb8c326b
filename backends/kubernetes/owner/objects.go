package owner

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
)

// LabelLaunch has the name of the owner, on objects whose other labels may be a user's
// own, and on their pods.
const LabelLaunch = "sweep.dev/launch"

// LabelLoad has the namespace of a launch's load pods, where they are in another one: an
// owner of the same name has them there.
const LabelLoad = "sweep.dev/load-namespace"

// annotationObjects has the refs of the objects that an owner notes.
const annotationObjects = "sweep.dev/objects"

// A Ref finds an object of any kind in a namespace.
type Ref struct{ APIVersion, Resource, Name string }

// String returns the ref as [ParseRefs] reads it.
func (r Ref) String() string { return r.APIVersion + "/" + r.Resource + "/" + r.Name }

// Path returns that of the object.
func (r Ref) Path(namespace string) string {
	return kubeapi.Collection(r.APIVersion, namespace, r.Resource) + "/" + url.PathEscape(r.Name)
}

// ParseRefs reads refs between which there are blanks. What is none is left out.
func ParseRefs(text string) (refs []Ref) {
	for one := range strings.FieldsSeq(text) {
		parts := strings.Split(one, "/")
		if n := len(parts); (n == 3 || n == 4) && !slices.Contains(parts, "") {
			refs = append(refs, Ref{strings.Join(parts[:n-2], "/"), parts[n-2], parts[n-1]})
		}
	}
	return refs
}

// RefsText returns refs as one text.
func RefsText(refs []Ref) string {
	all := make([]string, len(refs))
	for i, r := range refs {
		all[i] = r.String()
	}
	return strings.Join(all, " ")
}

// An Object is the part of an object that all kinds have.
type Object struct {
	Metadata kubeapi.Meta `json:"metadata"`
}

// OwnedBy reports whether an owner has the object.
func (l *Object) OwnedBy(o *Owner) bool { return slices.Contains(l.Metadata.Owners, o.Reference()) }

// HeldBy returns the finalizers that keep an object which was deleted; "" for none.
func (l *Object) HeldBy() string {
	waits := slices.DeleteFunc(slices.Clone(l.Metadata.Finalizers), func(f string) bool {
		return f == "foregroundDeletion" || f == "kubernetes.io/pvc-protection"
	})
	if l.Metadata.Deleted == nil || len(waits) == 0 {
		return ""
	}
	return fmt.Sprintf(", held by the finalizer %s (is its operator at work?)", strings.Join(waits, ", "))
}

// Read reads an object into out, which is another one's [Object] at least; found is false
// if there is none.
func (n Namespace) Read(ctx context.Context, r Ref, out any) (found bool, err error) {
	err = n.call(ctx, effect.KubeRead, func(ctx context.Context) error { return n.API.Get(ctx, r.Path(n.Name), out) })
	if kubeapi.NotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// Note has the owner remember objects before they are made, so that whoever deletes it
// later, on whichever machine, sees them gone.
func (n Namespace) Note(ctx context.Context, o *Owner, objects []Ref) error {
	patch := map[string]any{"metadata": map[string]any{"uid": o.UID, "annotations": map[string]string{annotationObjects: RefsText(objects)}}}
	return n.call(ctx, effect.KubeExtend, func(ctx context.Context) error {
		return n.API.Merge(ctx, n.jobs()+"/"+url.PathEscape(o.Name.String()), patch, nil)
	})
}

// remains says in words what is left of the objects of a launch and of their pods.
func (n Namespace) remains(ctx context.Context, launch string, objects []Ref) (left []string, err error) {
	if len(objects) == 0 {
		return nil, nil
	}
	for _, r := range objects {
		var have Object
		found, err := n.Read(ctx, r, &have)
		if err != nil {
			return nil, err
		}
		if found && have.Metadata.Labels[LabelLaunch] == launch {
			left = append(left, r.Resource+" "+r.Name+have.HeldBy())
		}
	}
	pods, err := n.podsWith(ctx, LabelLaunch+"="+launch)
	if len(pods) > 0 {
		left = append(left, "pods "+strings.Join(pods, ", "))
	}
	return left, err
}
