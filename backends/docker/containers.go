package docker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
)

const (
	// answerPatience bounds a create or a start, which must not be cut short by
	// a context: its result would be unknown.
	answerPatience = time.Minute
	// lookPatience is how long a container is looked for whose create was sent
	// and never answered.
	lookPatience = 10 * time.Second
	// releasePatience bounds the removal of containers, beyond the grace.
	releasePatience = 30 * time.Second
	lookEvery       = 100 * time.Millisecond
)

// containers is the [provision.Provider] of containers of our own, one for each
// replica.
type containers struct{ b *Backend }

var (
	_ provision.Provider  = containers{}
	_ provision.Starter   = containers{}
	_ provision.Grouper   = containers{}
	_ provision.Inspector = containers{}
)

// A containerPlan is what a container depends on beside its unit.
type containerPlan struct {
	image   image
	gpus    []string
	network string // "" for the daemon's own choice
	volume  string // that it shares with the others of its deployment; "" for none
}

// Allocate fetches the images, which costs nothing, and claims GPUs.
func (p containers) Allocate(ctx context.Context, spec backends.Spec, pod backends.Name) (provision.Allocation, error) {
	b := p.b
	images, err := b.images(ctx, spec)
	if err != nil {
		return provision.Allocation{}, err
	}
	a := provision.Allocation{Units: provision.PerReplica(spec, pod)}
	var claimed []string
	a.Close = func() { b.unclaim(claimed) }
	for _, u := range a.Units {
		r := u.Replicas[0]
		ids, err := b.claimGPUs(ctx, r.Role.GPUs)
		if err != nil {
			a.Close()
			return provision.Allocation{}, err
		}
		claimed = append(claimed, ids...)
		plan := &containerPlan{image: images[r.Role.Image], gpus: ids, network: b.config.Network}
		several := len(a.Units) > 1
		r.Place = provision.PlaceOf(r.Role, r.Place.Replica, loopbackIP, true)
		if several {
			r.Place.Host = u.Name
			if plan.network == "" {
				plan.network = pod.String()
			}
		}
		if b.config.DeadMan {
			r.Place.Dir = bootstrapFiles(u.Name)
			if several {
				plan.volume = pod.String()
				r.Place.Dir = sharedDir + "/" + u.Name
			}
		} else {
			r.Place.Agent = 0
		}
		u.Data = plan
	}
	return a, nil
}

// Create makes a container and does not start it.
func (p containers) Create(ctx context.Context, u *provision.Unit) (provision.Instance, error) {
	plan, _ := u.Data.(*containerPlan)
	request, err := p.b.config.request(p.b.limits, u, plan)
	if err != nil {
		return provision.Instance{}, err
	}
	made := provision.Instance{ImageDigest: plan.image.digest, Since: time.Now().UTC()}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerPatience)
	defer cancel()
	err = p.b.call(call, effect.DockerCreate, func(ctx context.Context) error {
		res, err := p.b.api.ContainerCreate(ctx, request)
		made.ID = res.ID
		return err
	})
	switch {
	case err == nil:
		return made, nil
	case refused(err):
		return provision.Instance{}, fmt.Errorf("container %s: %w: %w", u.Name, createClass(err), err)
	case answered(err):
		// The daemon has said no; the name may be in use by a request of ours
		// whose answer got lost below HTTP.
		c, look := p.b.inspect(call, u.Name)
		if name, ok := labelled(c); look == nil && ok && name == u.Name {
			made.ID = c.ID
			return made, nil
		}
		if cerrdefs.IsNotFound(look) {
			return provision.Instance{}, fmt.Errorf("container %s: %w", u.Name, err)
		}
	}
	return provision.Instance{}, fmt.Errorf("container %s: %w: %w", u.Name, provision.ErrUnsure, err)
}

// labelled returns the unit's name on the labels of a container that is ours.
func labelled(c container.InspectResponse) (string, bool) {
	if c.Config == nil {
		return "", false
	}
	if _, ok := ours(c.Config.Labels); !ok {
		return "", false
	}
	return strings.TrimPrefix(c.Name, "/"), true
}

// refused reports whether the daemon has understood a request and has not done it.
// A name in use is not among these: it may be ours, of a request whose answer
// got lost below HTTP.
func refused(err error) bool {
	return cerrdefs.IsInvalidArgument(err) || cerrdefs.IsNotFound(err) || cerrdefs.IsUnauthorized(err) ||
		cerrdefs.IsPermissionDenied(err) || cerrdefs.IsNotImplemented(err)
}

// answered reports whether err is an answer of the daemon, not the lack of one.
func answered(err error) bool {
	return cerrdefs.IsInternal(err) || cerrdefs.IsConflict(err) || refused(err)
}

func createClass(err error) error {
	if cerrdefs.IsUnauthorized(err) || cerrdefs.IsPermissionDenied(err) {
		return backends.ErrRefused
	}
	return backends.ErrSpec
}

// Start starts a container. A start that was cut short needs no answer: its
// container is removed in any case.
func (p containers) Start(ctx context.Context, i provision.Instance) error {
	err := p.b.call(ctx, effect.DockerStart, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, answerPatience)
		defer cancel()
		_, err := p.b.api.ContainerStart(ctx, i.ID, client.ContainerStartOptions{})
		return err
	})
	if err != nil && impossible(err) {
		return fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	return err
}

// impossible reports whether a container will not start the next time either. The
// daemon has one status for all of these, and not the same in all versions.
func impossible(err error) bool {
	text := err.Error()
	for _, sign := range []string{
		"could not select device driver", // no GPU runtime
		"unknown device", "device error",
		"executable file not found", "no such file or directory", "permission denied",
		"invalid mount", "bind source path does not exist",
		"Requested CPUs are not available",
	} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// Find finds containers by their labels, also those that have ended and are still
// there.
func (p containers) Find(ctx context.Context, pod string) ([]provision.Instance, error) {
	label := labelOwner
	if pod != "" {
		label = labelName + "=" + pod
	}
	all, err := p.b.containers(ctx, label)
	if err != nil {
		return nil, err
	}
	var found []provision.Instance
	for _, c := range all {
		name, ok := ours(c.Labels)
		switch {
		case !ok && pod != "":
			return nil, fmt.Errorf("container %s does not belong to this pod: it is not touched", c.ID)
		case !ok:
			continue
		}
		grace, _ := time.ParseDuration(c.Labels[labelGrace]) // 0 if it is not known
		found = append(found, provision.Instance{
			ID: c.ID, Unit: strings.TrimPrefix(firstName(c), "/"), Pod: name.String(), Marks: marksOf(c.Labels), Status: string(c.State),
			Running: c.State == container.StateRunning, GPU: c.Labels[labelGPU],
			Since: time.Unix(c.Created, 0).UTC(), Expires: expires(c.Labels, name), Grace: grace,
		})
	}
	return found, nil
}

// Delete stops a container and removes it. What is not provably sweep's is not
// touched.
func (p containers) Delete(ctx context.Context, i provision.Instance, grace time.Duration, ended func(context.Context)) error {
	c, err := p.b.inspect(ctx, i.ID)
	switch {
	case err != nil && !cerrdefs.IsNotFound(err):
		return err
	case err == nil:
		if _, ok := labelled(c); !ok {
			return fmt.Errorf("container %s does not belong to this pod: it is not touched", i.ID)
		}
		stopped := p.b.halt(ctx, i.ID, grace)
		if ended != nil {
			ended(ctx)
		}
		// A container that cannot be stopped may still be removed.
		if err := p.b.remove(ctx, i.ID); err != nil {
			return errors.Join(err, stopped)
		}
		return nil
	}
	return p.b.remove(ctx, i.ID) // gone is what is seen to be gone
}

// Inspect implements [provision.Inspector].
func (p containers) Inspect(ctx context.Context, i provision.Instance) ([]map[string]string, error) {
	c, err := p.b.inspect(ctx, i.ID)
	if err != nil {
		return nil, err
	}
	return []map[string]string{environOf(c)}, nil
}

// ours says whose pod a container is by its labels, if it provably is one of
// sweep's: a name that only sweep makes, and the owner that it is made of.
func ours(labels map[string]string) (backends.Name, bool) {
	name, ok := backends.ParseName(labels[labelName])
	if !ok || name.Owner != backends.OwnerTag(labels[labelOwner]) || labels[labelPod] == "" || labels[labelRun] == "" {
		return backends.Name{}, false
	}
	return name, true
}

// marksOf returns the marks on labels, by their own names.
func marksOf(labels map[string]string) map[string]string {
	marks := map[string]string{}
	for _, mark := range []string{backends.MarkOwner, backends.MarkRun, backends.MarkPod, backends.MarkExpires, backends.MarkDigest} {
		if value, ok := labels[labelFor(mark)]; ok {
			marks[mark] = value
		}
	}
	return marks
}

func labelFor(mark string) string {
	return labelPrefix + strings.ToLower(strings.TrimPrefix(mark, "SWEEP_"))
}

// containers lists what has all of the labels (key or key=value), running or
// not.
func (b *Backend) containers(ctx context.Context, labels ...string) ([]container.Summary, error) {
	var out []container.Summary
	err := b.call(ctx, effect.DockerRead, func(ctx context.Context) error {
		res, err := b.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labels...)})
		if err != nil {
			return fmt.Errorf("list containers: %w", err)
		}
		out = res.Items
		return nil
	})
	return out, err
}

func (b *Backend) inspect(ctx context.Context, id string) (container.InspectResponse, error) {
	var out container.InspectResponse
	err := b.call(ctx, effect.DockerRead, func(ctx context.Context) error {
		res, err := b.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		out = res.Container
		return err
	})
	return out, err
}

func firstName(c container.Summary) string {
	if len(c.Names) == 0 {
		return ""
	}
	return c.Names[0]
}

func expires(labels map[string]string, name backends.Name) time.Time {
	if n, err := strconv.ParseInt(labels[labelExpires], 10, 64); err == nil {
		return time.Unix(n, 0).UTC()
	}
	return name.Expires
}
