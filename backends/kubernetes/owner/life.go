package owner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
)

// Extend gives a sign of life: from now on everything lives for a lease, but not beyond the
// expiry time of its name. [ErrLost] is final; after any other error another sign may get
// through.
//
// Our clock and the cluster's may differ, so that only differences of each count: what is
// moved is the deadline that the cluster counts from the start by its own clock, by how
// much time has passed since then by ours. The wall clock, since a machine that sleeps
// does not count its sleep otherwise.
//
// The owner is one of [Namespace.Create] or [Namespace.Find]: of those of a list it is not
// known how long ago they began.
func (n Namespace) Extend(ctx context.Context, o *Owner, lease time.Duration) error {
	if o.seen.IsZero() {
		return fmt.Errorf("job %s: how long its deadline runs already is not known: the Job has not started, or the API server's answers have no Date", o.Name)
	}
	now := time.Now()
	return n.move(ctx, o, deadline(wall(now).Sub(wall(o.seen)), lease, wall(o.Name.Expires).Sub(wall(now))))
}

// move moves the deadline of an owner to so many seconds after its start.
func (n Namespace) move(ctx context.Context, o *Owner, seconds int64) error {
	patch := map[string]any{"metadata": map[string]string{"uid": o.UID}, "spec": map[string]any{"activeDeadlineSeconds": seconds}}
	var j job
	err := n.call(ctx, effect.KubeExtend, func(ctx context.Context) error {
		return n.API.Merge(ctx, n.jobs()+"/"+url.PathEscape(o.Name.String()), patch, &j)
	})
	if kubeapi.NotFound(err) || another(err) {
		return fmt.Errorf("job %s is gone: %w", o.Name, ErrLost)
	}
	if err != nil {
		return fmt.Errorf("job %s: %w", o.Name, err)
	}
	if why := j.over(); why != "" {
		return fmt.Errorf("job %s: %w: %s", o.Name, ErrLost, why)
	}
	return nil
}

func wall(t time.Time) time.Time { return t.Round(0) }

// another reports whether a patch was refused because the object has another UID.
func another(err error) bool {
	at, ok := errors.AsType[*kubeapi.StatusError](err)
	return ok && (at.Code == http.StatusUnprocessableEntity || at.Code == http.StatusConflict) && strings.Contains(at.Message, "metadata.uid")
}

// Find returns the owner of a name. [backends.ErrNotFound] if there is none.
//
// How long ago it began is by the cluster's clock alone, which tells the time of its answer.
func (n Namespace) Find(ctx context.Context, name string) (*Owner, error) {
	var j job
	var answered time.Time // by the cluster's clock
	err := n.call(ctx, effect.KubeRead, func(ctx context.Context) (err error) {
		answered, err = n.API.GetDated(ctx, n.jobs()+"/"+url.PathEscape(name), &j)
		return err
	})
	o, ok := j.owner()
	switch {
	case kubeapi.NotFound(err):
		return nil, fmt.Errorf("job %s: %w", name, backends.ErrNotFound)
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("job %s in namespace %s was not made by sweep: it is not touched", name, n.Name)
	}
	if !o.starts.IsZero() && !answered.IsZero() {
		o.seen = time.Now().Add(-max(0, answered.Sub(o.starts)))
	}
	return &o, nil
}

// List has all owners that sweep made in the namespace, of any user.
func (n Namespace) List(ctx context.Context) ([]Owner, error) {
	var all []job
	err := n.call(ctx, effect.KubeRead, func(ctx context.Context) (err error) {
		all, err = kubeapi.ListSelected[job](ctx, n.API, n.jobs(), Selector(""))
		return err
	})
	if err != nil {
		return nil, err
	}
	var owners []Owner
	for i := range all {
		if o, ok := all[i].owner(); ok {
			owners = append(owners, o)
		}
	}
	slices.SortFunc(owners, func(a, b Owner) int { return strings.Compare(a.Name.String(), b.Name.String()) })
	return owners, nil
}

// Delete deletes the owner of a name and all that it owns, and returns when the Job and
// the pods with its label are seen to be gone. A Job that sweep did not make is not
// touched. uid is that of the Job, "" if it is not known. It tries as long as ctx lasts.
//
// Objects of other kinds are seen to be gone as well: those that the Job notes
// ([Namespace.Note]), and those that the caller knows, if the Job is gone already. The
// error names what holds them. What lost its Job is deleted by itself; without the right to the
// error names the command for it.
func (n Namespace) Delete(ctx context.Context, name, uid string, objects ...Ref) error {
	if _, ok := backends.ParseName(name); !ok {
		return fmt.Errorf("job %q: sweep gives no such name: it is not touched", name)
	}
	if err := n.delete(ctx, name, uid, objects); err != nil {
		return fmt.Errorf("job %s in namespace %s: %w", name, n.Name, err)
	}
	return nil
}

func (n Namespace) delete(ctx context.Context, name, uid string, objects []Ref) error {
	objects = slices.Clone(objects)
	asked, lost := false, 0
	var last error
	for first := true; ; first = false {
		left, err := n.left(ctx, name, uid, &objects)
		gone := first && err == nil && left != itsJob
		if err == nil && left != "" && left != itsJob {
			var k int
			if k, err = n.orphans(ctx, name, objects); refused(err) {
				return n.orphaned(name, "jobs,pods,secrets,services", err)
			}
			lost += k
		}
		switch {
		case err == nil && left == "" && (gone || lost > 0):
			return n.unlisted(ctx, name, lost)
		case err == nil && left == "":
			return nil
		case err != nil && (errors.Is(err, errForeign) || refused(err)):
			return err
		case err != nil && (ctx.Err() == nil || last == nil): // else what was left tells more
			last = err
		case err == nil:
			last = errors.New("left are " + left)
		}
		if !asked {
			err := n.call(ctx, effect.KubeDelete, func(ctx context.Context) error {
				return n.API.Delete(ctx, n.jobs()+"/"+url.PathEscape(name), kubeapi.Deletion{UID: uid, Propagation: kubeapi.Foreground})
			})
			if _, fault := errors.AsType[*effect.Fault](err); fault || refused(err) {
				return err
			}
			if asked = err == nil; asked {
				continue
			}
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not seen to be gone: %w", errors.Join(context.Cause(ctx), last))
		case <-time.After(lookEvery):
		}
	}
}

var errForeign = errors.New("sweep did not make it: it is not touched")

func refused(err error) bool {
	_, denied := errors.AsType[*kubeapi.Denied](err)
	return denied
}

// itsJob is what is left as long as the Job is there.
const itsJob = "its Job"

// left says in words what is left of an owner, "" for nothing. As long as the Job is there
// it adds what that notes to objects.
func (n Namespace) left(ctx context.Context, name, uid string, objects *[]Ref) (string, error) {
	var j job
	err := n.get(ctx, name, &j)
	_, sweeps := j.owner()
	switch {
	case kubeapi.NotFound(err):
	case err != nil:
		return "", err
	case !sweeps:
		return "", errForeign
	case uid == "" || j.Metadata.UID == uid:
		for _, r := range ParseRefs(j.Metadata.Annotations[annotationObjects]) {
			if !slices.Contains(*objects, r) {
				*objects = append(*objects, r)
			}
		}
		return itsJob, nil
	}
	pods, err := n.Pods(ctx, name)
	if err != nil {
		return "", err
	}
	var left []string
	if len(pods) > 0 {
		left = append(left, "pods: "+strings.Join(pods, ", "))
	}
	others, err := n.remains(ctx, name, *objects)
	return strings.Join(append(left, others...), "; "), err
}

// Pods returns the names of the pods with the label of a deployment.
func (n Namespace) Pods(ctx context.Context, name string) (names []string, err error) {
	return n.podsWith(ctx, Selector(name))
}

// podsWith returns the names of the pods with some labels.
func (n Namespace) podsWith(ctx context.Context, labels string) (names []string, err error) {
	var pods []Object
	err = n.call(ctx, effect.KubeRead, func(ctx context.Context) (err error) {
		pods, err = kubeapi.ListSelected[Object](ctx, n.API, kubeapi.Collection("v1", n.Name, "pods"), labels)
		return err
	})
	for _, p := range pods {
		names = append(names, p.Metadata.Name)
	}
	return names, err
}
