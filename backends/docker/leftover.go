package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
)

// ours says whose pod a container is by its labels, if it provably is one of
// sweep's: a name that only sweep makes, and the owner that it is made of.
func ours(labels map[string]string) (backends.Name, bool) {
	name, ok := backends.ParseName(labels[labelName])
	if !ok || name.Owner != backends.OwnerTag(labels[labelOwner]) || labels[labelPod] == "" || labels[labelRun] == "" {
		return backends.Name{}, false
	}
	return name, true
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

// List finds the pods of an owner, or of all, by the labels of their
// containers, also of those that have ended and are still there. With inside,
// it also finds the engines in that container.
func (b *Backend) List(ctx context.Context, owner string) ([]backends.Listed, error) {
	label := labelOwner
	if owner != "" {
		label += "=" + owner
	}
	all, err := b.containers(ctx, label)
	if err != nil {
		return nil, err
	}
	// A pod of several containers goes by its first one.
	slices.SortStableFunc(all, func(x, y container.Summary) int {
		return cmp.Or(cmp.Compare(x.Labels[labelName], y.Labels[labelName]), cmp.Compare(len(firstName(x)), len(firstName(y))))
	})
	var pods []backends.Listed
	for _, c := range all {
		name, ok := ours(c.Labels)
		if !ok || len(pods) > 0 && pods[len(pods)-1].Name == name.String() {
			continue
		}
		pods = append(pods, backends.Listed{
			Ref: backends.Ref{
				Kind: Kind, RunID: c.Labels[labelRun], Pod: c.Labels[labelPod], ID: c.ID, Name: name.String(),
				Details: map[string]string{atHost: b.api.DaemonHost()},
			},
			Owner: c.Labels[labelOwner], Status: string(c.State), GPU: c.Labels[labelGPU],
			Since: time.Unix(c.Created, 0).UTC(), Expires: expires(c.Labels, name),
		})
	}
	if b.config.Inside != nil {
		inside, err := b.listInside(ctx, owner)
		if err != nil && !errors.Is(err, backends.ErrNotFound) {
			return nil, err
		}
		pods = append(pods, inside...)
	}
	return pods, nil
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

// Terminate ends the containers of a pod, found by its name and by its id.
func (b *Backend) Terminate(ctx context.Context, ref backends.Ref) error {
	if err := b.mine(ref); err != nil {
		return err
	}
	if inside := ref.Details[detailInside]; inside != "" {
		return b.terminateInside(ctx, ref)
	}
	ids, grace, err := b.pod(ctx, ref)
	// A create that was cut short may still be on its way through the daemon.
	for end := time.Now().Add(lookPatience); err == nil && len(ids) == 0 && ref.ID == "" && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * lookEvery):
		}
		ids, grace, err = b.pod(ctx, ref)
	}
	if err != nil {
		return fmt.Errorf("pod %s: %w", ref.Pod, err)
	}
	stopped := each(ids, func(id string) error { return b.halt(ctx, id, grace) })
	// The id again, though no container has it: gone is what is seen to be gone.
	if ref.ID != "" && !slices.Contains(ids, ref.ID) {
		ids = append(ids, ref.ID)
	}
	if err := each(ids, func(id string) error { return b.remove(ctx, id) }); err != nil {
		return errors.Join(fmt.Errorf("pod %s: %w", ref.Pod, err), stopped)
	}
	return nil
}

// mine refuses a ref that this daemon cannot know.
func (b *Backend) mine(ref backends.Ref) error {
	switch at := ref.Details[atHost]; {
	case ref.Kind != Kind:
		return fmt.Errorf("pod %s is of backend %s, not %s: %w", ref.Pod, ref.Kind, Kind, backends.ErrNotFound)
	case at != "" && at != b.api.DaemonHost():
		return fmt.Errorf("pod %s is at the daemon %s, and this one is %s: set DOCKER_HOST, or host in the plan", ref.Pod, at, b.api.DaemonHost())
	case ref.ID == "" && ref.Name == "":
		return fmt.Errorf("ref of pod %s names nothing: %w", ref.Pod, backends.ErrNotFound)
	}
	return nil
}

// pod finds the containers of a pod and the longest grace of theirs. What has
// the pod's id or name and is not provably sweep's is an error: it is not
// touched.
func (b *Backend) pod(ctx context.Context, ref backends.Ref) (ids []string, grace time.Duration, err error) {
	add := func(id string, labels map[string]string) error {
		name, ok := ours(labels)
		if !ok || ref.Name != "" && name.String() != ref.Name {
			return fmt.Errorf("container %s is not this pod's: it is left alone", id)
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		if d, err := time.ParseDuration(labels[labelGrace]); err == nil {
			grace = max(grace, d)
		}
		return nil
	}
	if ref.Name != "" {
		all, err := b.containers(ctx, labelName+"="+ref.Name)
		if err != nil {
			return nil, 0, err
		}
		for _, c := range all {
			if err := add(c.ID, c.Labels); err != nil {
				return nil, 0, err
			}
		}
	}
	if ref.ID != "" && !slices.Contains(ids, ref.ID) {
		c, err := b.inspect(ctx, ref.ID)
		switch {
		case cerrdefs.IsNotFound(err):
		case err != nil:
			return nil, 0, err
		case c.Config == nil:
			return nil, 0, fmt.Errorf("container %s is not this pod's: it is left alone", ref.ID)
		default:
			if err := add(c.ID, c.Config.Labels); err != nil {
				return nil, 0, err
			}
		}
	}
	return ids, grace, nil
}

// halt stops a container with a grace, but not beyond ctx: a container that is
// removed by force needs no more of it.
func (b *Backend) halt(ctx context.Context, id string, grace time.Duration) error {
	// The bootstrap inside gives the engine this grace and then kills it.
	seconds := int((grace+2*time.Second)/time.Second) + 1
	if end, ok := ctx.Deadline(); ok {
		left := int(time.Until(end)/time.Second) - 3
		seconds = max(0, min(seconds, left))
	}
	err := b.call(ctx, effect.DockerStop, func(ctx context.Context) error {
		_, err := b.api.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &seconds})
		return err
	})
	if cerrdefs.IsNotFound(err) || cerrdefs.IsNotModified(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", id, err)
	}
	return nil
}

// remove removes a container and its anonymous volumes, and returns when the
// daemon knows it no more: by its id, and in two successive lists. It tries as
// long as ctx lasts.
func (b *Backend) remove(ctx context.Context, id string) error {
	var last error
	for absent := 0; ; {
		err := b.call(ctx, effect.DockerRemove, func(ctx context.Context) error {
			_, err := b.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			return err
		})
		// A conflict is a removal that is under way already.
		if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) {
			last = err
		}
		if _, fault := errors.AsType[*effect.Fault](err); fault {
			return fmt.Errorf("remove %s: %w", id, err)
		}
		known, err := b.known(ctx, id)
		switch {
		case err != nil:
			absent, last = 0, err
		case known:
			absent = 0
		default:
			if absent++; absent == 2 {
				return nil
			}
			continue
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove %s: not seen to be gone: %w", id, errors.Join(context.Cause(ctx), last))
		case <-time.After(lookEvery):
		}
	}
}

// known asks for a container by its id and in the list of all.
func (b *Backend) known(ctx context.Context, id string) (bool, error) {
	if _, err := b.inspect(ctx, id); err == nil || !cerrdefs.IsNotFound(err) {
		return err == nil, err
	}
	all, err := b.containers(ctx, labelOwner)
	return slices.ContainsFunc(all, func(c container.Summary) bool { return c.ID == id }), err
}

// Pause stops the containers of a pod and keeps their disks.
func (b *Backend) Pause(ctx context.Context, ref backends.Ref) error {
	return b.eachOf(ctx, ref, func(id string, grace time.Duration) error { return b.halt(ctx, id, grace) })
}

// Resume starts them again. Their published ports, and the hour at which they
// end themselves, are what they were told when they were made; where they are
// reached may change.
func (b *Backend) Resume(ctx context.Context, ref backends.Ref) error {
	return b.eachOf(ctx, ref, func(id string, _ time.Duration) error { return b.start(ctx, id) })
}

func (b *Backend) eachOf(ctx context.Context, ref backends.Ref, f func(string, time.Duration) error) error {
	if err := b.mine(ref); err != nil {
		return err
	}
	if ref.Details[detailInside] != "" {
		return fmt.Errorf("pod %s is a process in somebody else's container: it cannot be paused", ref.Pod)
	}
	ids, grace, err := b.pod(ctx, ref)
	if err == nil && len(ids) == 0 {
		err = backends.ErrNotFound
	}
	if err == nil {
		err = each(ids, func(id string) error { return f(id, grace) })
	}
	if err != nil {
		return fmt.Errorf("pod %s: %w", ref.Pod, err)
	}
	return nil
}
