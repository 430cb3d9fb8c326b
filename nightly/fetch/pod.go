package fetch

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
)

// Commands of the pod, below the one of sweep that is hidden.
const (
	Command = "__files"
	Hold    = "hold" // waits to be ended
	ListOf  = "list" // [List] of the volume
	SendOf  = "send" // [Send] from it
)

// MountPath is where a pod has the volume.
const MountPath = "/data"

const (
	container = "files"
	// startTime is how long a pod may take to start: an image is pulled, a volume attached.
	startTime = 5 * time.Minute
	endTime   = 30 * time.Second
	lookEvery = 500 * time.Millisecond
)

//go:embed role.yaml
var role string

// RoleYAML returns the Role, as a manifest, that a fetch from this namespace needs.
func RoleYAML(namespace string) string { return strings.ReplaceAll(role, "NAMESPACE", namespace) }

// A Source is the volume of some nights.
type Source struct {
	API       *kubeapi.Client
	Effects   *effect.Effects
	Namespace string
	Object    string        // the name of the CronJob and of the claim
	Image     string        // "" is the CronJob's
	Time      time.Duration // after which the cluster ends the pod in any case
	Latest    int           // runs; 0 is all
}

// A Pod has a volume mounted for reading. Its Job owns it: the cluster ends both at their
// deadline, also if this program is gone.
type Pod struct {
	source Source
	job    string
	name   string
}

var _ Remote = (*Pod)(nil)

// template is the part of a CronJob that the pod takes over, so that it runs where nights
// run.
type template struct {
	Spec struct {
		JobTemplate struct {
			Spec struct {
				Template struct {
					Spec struct {
						SecurityContext  json.RawMessage
						ImagePullSecrets json.RawMessage
						NodeSelector     json.RawMessage
						Tolerations      json.RawMessage
						Containers       []struct{ Image, ImagePullPolicy string }
					}
				}
			}
		}
	}
}

// Start makes the pod and waits until it runs. After an error there is none, unless it has a
// [LeftError].
func (s Source) Start(ctx context.Context) (_ *Pod, err error) {
	var cron template
	if err := s.API.Get(ctx, "/apis/batch/v1/namespaces/"+url.PathEscape(s.Namespace)+"/cronjobs/"+url.PathEscape(s.Object), &cron); err != nil {
		if kubeapi.NotFound(err) {
			err = fmt.Errorf("there are no nights of that name in namespace %s (no CronJob %s)", s.Namespace, s.Object)
		}
		return nil, err
	}
	var id [4]byte
	if _, err := rand.Read(id[:]); err != nil {
		panic(err) // documented never to happen
	}
	p, made := &Pod{source: s, job: "sweep-fetch-" + hex.EncodeToString(id[:])}, false
	defer func() {
		if _, refused := errors.AsType[*kubeapi.Denied](err); err != nil && !(refused && !made) {
			err = errors.Join(err, p.End(context.WithoutCancel(ctx)))
		}
	}()
	err = s.Effects.Call(ctx, effect.KubeCreate, func(ctx context.Context) error {
		return s.API.Create(ctx, s.jobs(), s.manifest(p.job, cron), nil)
	})
	if err != nil {
		return nil, err
	}
	made = true
	return p, p.ready(ctx)
}

func (s Source) jobs() string {
	return "/apis/batch/v1/namespaces/" + url.PathEscape(s.Namespace) + "/jobs"
}

// manifest returns the Job of the pod.
func (s Source) manifest(name string, cron template) map[string]any {
	of := cron.Spec.JobTemplate.Spec.Template.Spec
	image, policy := s.Image, ""
	if len(of.Containers) > 0 {
		policy = of.Containers[0].ImagePullPolicy
		if image == "" {
			image = of.Containers[0].Image
		}
	}
	main := podContainer{
		Name: container, Image: image, PullPolicy: policy, Command: []string{"/sweep", Command, Hold},
		Resources: map[string]any{"requests": map[string]string{"cpu": "50m", "memory": "64Mi"}},
		Mounts:    []any{map[string]any{"name": "data", "mountPath": MountPath, "readOnly": true}},
		Security:  map[string]any{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": map[string]any{"drop": []string{"ALL"}}},
	}
	pod := map[string]any{
		"restartPolicy": "Never", "automountServiceAccountToken": false, "enableServiceLinks": false, "terminationGracePeriodSeconds": 5,
		"containers": []any{main},
		"volumes":    []any{map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": s.Object, "readOnly": true}}},
	}
	for key, value := range map[string]json.RawMessage{
		"securityContext": of.SecurityContext, "imagePullSecrets": of.ImagePullSecrets, "nodeSelector": of.NodeSelector, "tolerations": of.Tolerations,
	} {
		if len(value) > 0 {
			pod[key] = value
		}
	}
	labels := map[string]string{"app.kubernetes.io/managed-by": "sweep", "app.kubernetes.io/component": "fetch"}
	return map[string]any{
		"apiVersion": "batch/v1", "kind": "Job",
		"metadata": map[string]any{"name": name, "namespace": s.Namespace, "labels": labels},
		"spec": map[string]any{
			"backoffLimit": 0, "activeDeadlineSeconds": int(s.Time.Seconds()), "ttlSecondsAfterFinished": 0,
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pod},
		},
	}
}

// A podContainer is the one container of the pod.
type podContainer struct {
	Name       string         `json:"name"`
	Image      string         `json:"image"`
	PullPolicy string         `json:"imagePullPolicy,omitempty"`
	Command    []string       `json:"command"`
	Resources  map[string]any `json:"resources"`
	Mounts     []any          `json:"volumeMounts"`
	Security   map[string]any `json:"securityContext"`
}

// podState is the part of a Pod that is read.
type podState struct {
	Metadata kubeapi.Meta      `json:"metadata"`
	Status   kubeapi.PodStatus `json:"status"`
}

// ready waits until the pod runs.
func (p *Pod) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("it has not started within %v", startTime))
	defer cancel()
	why := "no pod"
	for {
		list, err := p.pods(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
		case err != nil:
			return err
		case len(list) > 0:
			p.name, why = list[0].Metadata.Name, list[0].why()
			switch list[0].Status.Phase {
			case "Running":
				return nil
			case "Failed", "Succeeded":
				return fmt.Errorf("pod %s ended at once: %s", p.name, why)
			}
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return fmt.Errorf("pod of job %s: %w: %s", p.job, context.Cause(ctx), why)
		}
	}
}

// why says in what state a pod is.
func (s podState) why() string {
	for _, c := range s.Status.Containers {
		if w := cmp.Or(c.State.Waiting, c.State.Terminated); w != nil {
			return strings.TrimSpace(w.Reason + " " + w.Message)
		}
	}
	for _, c := range s.Status.Conditions {
		if c.Status == "False" && c.Message != "" {
			return c.Reason + " " + c.Message
		}
	}
	return strings.TrimSpace(s.Status.Phase + " " + s.Status.Message)
}

func (p *Pod) pods(ctx context.Context) ([]podState, error) {
	return kubeapi.ListSelected[podState](ctx, p.source.API, "/api/v1/namespaces/"+url.PathEscape(p.source.Namespace)+"/pods", "job-name="+p.job)
}

// List implements [Remote].
func (p *Pod) List(ctx context.Context, out io.Writer) error {
	return p.exec(ctx, nil, out, ListOf, "--latest", strconv.Itoa(p.source.Latest), MountPath)
}

// Send implements [Remote].
func (p *Pod) Send(ctx context.Context, in io.Reader, out io.Writer) error {
	return p.exec(ctx, in, out, SendOf, MountPath)
}

func (p *Pod) exec(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	return p.source.API.Exec(ctx, kubeapi.Command{
		Namespace: p.source.Namespace, Pod: p.name, Container: container, Argv: append([]string{"/sweep", Command}, args...), In: in, Out: out,
	})
}

// A LeftError is why the pod of a fetch may still be there.
type LeftError struct{ err error }

func (e *LeftError) Error() string { return e.err.Error() }
func (e *LeftError) Unwrap() error { return e.err }

// End deletes the Job with its pod, and waits for the pod to be gone. Its error is a
// [LeftError].
func (p *Pod) End(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, endTime, fmt.Errorf("not gone within %v", endTime))
	defer cancel()
	err := p.source.Effects.Call(ctx, effect.KubeDelete, func(ctx context.Context) error {
		return p.source.API.Delete(ctx, p.source.jobs()+"/"+p.job, kubeapi.Deletion{Propagation: kubeapi.Background})
	})
	for err == nil {
		var list []podState
		if list, err = p.pods(ctx); err != nil || len(list) == 0 {
			break
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return &LeftError{fmt.Errorf("end of job %s: %w: the cluster ends it after %v", p.job, err, p.source.Time)}
	}
	return nil
}
