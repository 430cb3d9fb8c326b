// Package owner makes what owns all that a launch makes in a cluster, so that nothing of
// it outlives its run: a Job without pods, with a deadline.
//
// Every object of the launch names the Job in its ownerReferences. The cluster deletes
// them when the Job goes, and it deletes the Job when its deadline has passed. A sign of
// life moves the deadline on, by a lease, and never beyond the expiry time of the
// deployment's name. So when sweep is killed, its machine is asleep or the network is
// gone, everything ends a lease later. Nothing of ours runs in the cluster for that.
//
// A Job does for this what no other kind does: the deadline of a pod cannot be moved on,
// a Lease ends nothing, and a finalizer would need a sweep that lives.
package owner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
)

// Errors that a caller branches on.
var (
	// ErrLost is a deployment that the cluster is deleting, or has deleted: no sign
	// of life brings it back.
	ErrLost = errors.New("the cluster has ended it")
	// ErrTaken is a name that somebody has.
	ErrTaken = errors.New("there is a Job of that name")
)

const (
	startPatience = 10 * time.Second
	lookEvery     = 200 * time.Millisecond
	// minLease leaves room for the Job to be seen, and for signs of life that get lost.
	minLease = 5 * time.Second
)

// A Namespace is where owners are.
type Namespace struct {
	API     *kubeapi.Client
	Name    string
	Effects *effect.Effects
	// Patience is how long a Job may take to start, and an answer may be missing that is
	// insisted on; 0 is 10 seconds. The cluster starts one at once that it is going to start.
	Patience time.Duration
}

// A Request says whose an owner is.
type Request struct {
	Name   backends.Name
	Marks  map[string]string // see [backends.Marks]
	Engine string            // of the deployment; "" for none
	// Image is that of the pod that is never made: rules of a cluster may ask for an
	// image that they know.
	Image string
	// Labels are further ones of the Job.
	Labels map[string]string
	// Lease is how long everything lives without a sign of life.
	Lease time.Duration
}

// An Owner is a Job that owns a launch. Its methods ask no cluster.
type Owner struct {
	Name  backends.Name
	UID   string
	Since time.Time // it was made, by the cluster's clock
	// Ends is when the cluster ends it if no further sign of life comes, by its clock.
	Ends   time.Time
	Status string // Active, or one of those below
	Load   string // see LabelLoad

	marks  map[string]string
	engine string
	seen   time.Time // when it began, by our clock; zero if that is not known. See Extend
	starts time.Time // when it began, by the cluster's; zero if it has not
}

// How an owner is that is not Active.
const (
	Ending    = "Ending"    // it is being deleted
	Failed    = "Failed"    // its deadline has passed
	Suspended = "Suspended" // its deadline does not run
)

// Over reports whether the cluster ends what the owner has: no sign of life helps any more.
func (o *Owner) Over() bool { return o.Status == Ending || o.Status == Failed }

// Reference returns what each object of the launch has.
func (o *Owner) Reference() kubeapi.OwnerReference {
	return kubeapi.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: o.Name.String(), UID: o.UID}
}

// Marks say whose it is.
func (o *Owner) Marks() map[string]string { return merged(o.marks, nil) }

// job is the part of a Job that is read.
type job struct {
	Metadata kubeapi.Meta `json:"metadata"`
	Spec     struct {
		Deadline int64 `json:"activeDeadlineSeconds"`
		Suspend  bool  `json:"suspend"`
	} `json:"spec"`
	Status struct {
		Start      *time.Time          `json:"startTime"`
		Conditions []kubeapi.Condition `json:"conditions"`
	} `json:"status"`
}

// over says how a Job is ending, "" for one that is not.
func (j *job) over() string {
	for _, c := range j.Status.Conditions {
		if (c.Type == "Failed" || c.Type == "FailureTarget") && c.Status == "True" {
			return c.Reason + ": " + c.Message
		}
	}
	if j.Metadata.Deleted != nil {
		return "somebody has deleted its Job"
	}
	return ""
}

func (j *job) status() string {
	switch {
	case j.Metadata.Deleted != nil:
		return Ending
	case j.over() != "":
		return Failed
	case j.Spec.Suspend:
		return Suspended
	}
	return "Active"
}

// owner returns what a Job says. It is false for one that is not provably sweep's.
func (j *job) owner() (Owner, bool) {
	name, ok := backends.ParseName(j.Metadata.Name)
	if !ok || j.Metadata.Labels[LabelManagedBy] != ManagedBy || j.Metadata.Labels[LabelOwner] != name.Owner {
		return Owner{}, false
	}
	o := Owner{
		Name: name, UID: j.Metadata.UID, Since: j.Metadata.Created, Status: j.status(),
		Load: j.Metadata.Labels[LabelLoad], marks: Marks(j.Metadata.Annotations), engine: j.Metadata.Labels[LabelName],
	}
	if j.Status.Start != nil {
		o.starts = *j.Status.Start
		o.Ends = o.starts.Add(time.Duration(j.Spec.Deadline) * time.Second)
	}
	return o, true
}

func (n Namespace) jobs() string {
	return "/apis/batch/v1/namespaces/" + url.PathEscape(n.Name) + "/jobs"
}

func (n Namespace) call(ctx context.Context, p effect.Point, f func(context.Context) error) error {
	return n.Effects.Call(ctx, p, f)
}

// Create makes the owner of a launch, before anything else of it. It returns when the
// cluster counts its deadline. A Job that is held back is deleted again: its deadline
// would not be counted, so that nothing would end what it owns. [ErrTaken] is a name
// that somebody has, and nothing was made; after any other error the name must be deleted.
func (n Namespace) Create(ctx context.Context, r Request) (*Owner, error) {
	if r.Lease < minLease {
		return nil, fmt.Errorf("%w: a lease of %v is shorter than %v", backends.ErrSpec, r.Lease, minLease)
	}
	o := &Owner{Name: r.Name, marks: r.Marks, engine: r.Engine}
	seconds := deadline(0, r.Lease, time.Until(r.Name.Expires))
	manifest := map[string]any{
		"apiVersion": "batch/v1", "kind": "Job",
		"metadata": map[string]any{"name": r.Name.String(), "labels": merged(r.Labels, o.Labels(DeadMan, "", 0)), "annotations": o.Annotations()},
		"spec": map[string]any{
			"parallelism": 0, "completions": 1, "backoffLimit": 0, "activeDeadlineSeconds": seconds, "ttlSecondsAfterFinished": 0,
			"template": never(r.Image, o.Labels(DeadMan, "", 0)),
		},
	}
	var made job
	err := n.call(ctx, effect.KubeCreate, func(ctx context.Context) error { return n.API.Create(ctx, n.jobs(), manifest, &made) })
	if kubeapi.Exists(err) {
		return nil, fmt.Errorf("job %s in namespace %s: %w", r.Name, n.Name, ErrTaken)
	}
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", r.Name, err)
	}
	if err := n.started(ctx, o, made.Metadata.UID); err != nil {
		return nil, err
	}
	return o, nil
}

// never returns the template of the pod that is never made. It asks for next to nothing and
// has no rights, so that no rule of a cluster has anything against it.
func never(image string, labels map[string]string) map[string]any {
	if image == "" {
		image = "none"
	}
	tiny := map[string]string{"cpu": "1m", "memory": "1Mi"}
	return map[string]any{
		"metadata": map[string]any{"labels": labels},
		"spec": map[string]any{
			"restartPolicy": "Never", "automountServiceAccountToken": false,
			"securityContext": map[string]any{"runAsNonRoot": true, "runAsUser": 65534, "seccompProfile": map[string]string{"type": "RuntimeDefault"}},
			"containers": []any{map[string]any{
				"name": "none", "image": image, "resources": map[string]any{"requests": tiny, "limits": tiny},
				"securityContext": map[string]any{"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []string{"ALL"}}},
			}},
		},
	}
}

// deadline returns the deadline of a Job in whole seconds after its start: a lease from now
// on, and not beyond its expiry time, which is left away from now. The Job began age ago.
func deadline(age, lease, left time.Duration) int64 {
	return max(1, int64(math.Ceil((age + min(lease, left)).Seconds())))
}

// started waits until the cluster counts the deadline of a Job.
func (n Namespace) started(ctx context.Context, o *Owner, uid string) error {
	begun, patience := time.Now(), cmp.Or(n.Patience, startPatience)
	var last error
	for {
		var j job
		err := n.get(ctx, o.Name.String(), &j)
		now, sweeps := j.owner()
		switch {
		case kubeapi.NotFound(err):
			return fmt.Errorf("job %s: %w", o.Name, ErrLost)
		case err != nil:
			last = err
		case j.Metadata.UID != uid || !sweeps:
			return fmt.Errorf("job %s in namespace %s is another one by now: %w", o.Name, n.Name, ErrLost)
		case j.Metadata.Deleted != nil:
			return fmt.Errorf("job %s: %w: %s", o.Name, ErrLost, j.over())
		case j.Status.Start != nil && !j.Spec.Suspend:
			o.UID, o.Since, o.starts, o.Ends, o.Status = uid, now.Since, now.starts, now.Ends, now.Status
			o.seen = begun
			return nil
		}
		switch {
		case ctx.Err() != nil:
			return errors.Join(fmt.Errorf("job %s was not seen to start: %w", o.Name, context.Cause(ctx)), last)
		case time.Since(begun) < patience:
			select {
			case <-ctx.Done():
			case <-time.After(lookEvery):
			}
			continue
		}
		held := "its controllers do not start it: is the controller manager at work?"
		if j.Spec.Suspend {
			held = "something suspends Jobs there, as Kueue does with manageJobsWithoutQueueName"
		}
		err = fmt.Errorf("namespace %s holds back the Job that would end the deployment (%s): its deadline does not run, so nothing is started; use a namespace without that rule", n.Name, held)
		if last != nil {
			err = errors.Join(err, last)
		}
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), patience, errors.New("not seen to be gone"))
		defer cancel()
		return errors.Join(err, n.delete(ctx, o.Name.String(), uid, nil))
	}
}

func (n Namespace) get(ctx context.Context, name string, j *job) error {
	return n.call(ctx, effect.KubeRead, func(ctx context.Context) error {
		return n.API.Get(ctx, n.jobs()+"/"+url.PathEscape(name), j)
	})
}
