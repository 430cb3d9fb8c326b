package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/bootstrap"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/ending"
	"sweep.dev/sweep/internal/secret"
)

const (
	// answerPatience bounds a create or a start, which must not be cut short by
	// a context: nobody would know what has become of it.
	answerPatience = time.Minute
	// lookPatience is how long a container is looked for whose create was sent
	// and never answered.
	lookPatience = 10 * time.Second
	// releasePatience bounds the end of what a failed launch has made, beyond
	// the grace.
	releasePatience = 30 * time.Second
	lookEvery       = 100 * time.Millisecond
)

// Check implements [backends.Checker].
func (b *Backend) Check(spec backends.Spec) error {
	if len(spec.Roles) == 0 {
		return fmt.Errorf("%w: no role", backends.ErrSpec)
	}
	for _, role := range spec.Roles {
		if role.Argv == nil || role.Replicas < 1 {
			return fmt.Errorf("%w: role %s has no command or no replica", backends.ErrSpec, role.Name)
		}
		if role.Port < 0 || role.Port > 65535 {
			return fmt.Errorf("%w: no port %d", backends.ErrSpec, role.Port)
		}
		if b.config.Inside == nil && imageOf(spec, role) == "" {
			return fmt.Errorf("%w: role %s has no image: set engines.%s.image", backends.ErrSpec, role.Name, spec.Engine)
		}
	}
	if b.config.Inside != nil {
		return b.checkInside(spec)
	}
	if err := backends.CheckPlain(spec); err != nil {
		return err
	}
	for _, role := range spec.Roles {
		extra, err := role.ExtraAt(b.config.address(containerPlan{spec: spec, role: role}))
		if err != nil {
			return err
		}
		if err := bootstrap.CheckFiles(extra.Files); err != nil {
			return fmt.Errorf("%w: %w", backends.ErrSpec, err)
		}
	}
	return b.config.checkGPUs(spec)
}

// Launch makes and starts the containers of a spec. It fetches images first,
// before anything is owed.
func (b *Backend) Launch(ctx context.Context, spec backends.Spec, l backends.Ledger) (backends.Deployment, error) {
	if err := b.Check(spec); err != nil {
		return nil, err
	}
	if spec.RunID == "" || spec.Pod == "" || spec.Owner == "" {
		return nil, fmt.Errorf("%w: a pod needs an owner, a run and a name", backends.ErrSpec)
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if b.config.Inside != nil {
		return b.launchInside(ctx, spec, l)
	}
	images, err := b.images(ctx, spec)
	if err != nil {
		return nil, err
	}
	plans, err := b.plans(spec, images)
	if err != nil {
		return nil, err
	}
	give := func() {}
	for i := range plans {
		ids, giveOne, err := b.takeGPUs(ctx, plans[i].role.GPUs)
		if err != nil {
			give()
			return nil, err
		}
		plans[i].gpus = ids
		give = func(before func()) func() { return func() { giveOne(); before() } }(give)
	}
	// Once they are made, the containers' labels say who has which GPU.
	defer give()

	d := &deployment{b: b, spec: spec, terms: backends.Terms{ImageDigest: images[imageOf(spec, spec.Roles[0])].digest}, Ending: ending.New()}
	la := &launch{b: b, ledger: l, spec: spec, name: plans[0].name, d: d}
	if err := la.run(ctx, plans); err != nil {
		return nil, err
	}
	return d, nil
}

// plans are the containers of a spec, in the order in which they are made.
func (b *Backend) plans(spec backends.Spec, images map[string]image) ([]containerPlan, error) {
	now := time.Now()
	expires := spec.Expires
	if expires.IsZero() {
		expires = now.Add(defaultLife)
	}
	if !expires.After(now) {
		return nil, fmt.Errorf("%w: pod %s would be over before it begins", backends.ErrSpec, spec.Pod)
	}
	spec.Expires = expires
	name := backends.NewName(spec.Owner, spec.RunID, expires)
	var plans []containerPlan
	for _, role := range spec.Roles {
		img := images[imageOf(spec, role)]
		for n := range role.Replicas {
			token := rand.Text()
			plans = append(plans, containerPlan{
				spec: spec, role: role, replica: n, name: name,
				image: img.id, entrypoint: img.entrypoint,
				token: secret.New("(the pod's own token)", token), lifetime: expires.Sub(now),
			})
		}
	}
	return plans, nil
}

// A launch is one pod on its way from an intent to running containers.
type launch struct {
	b      *Backend
	ledger backends.Ledger
	spec   backends.Spec
	name   backends.Name
	d      *deployment
}

func (la *launch) record(ctx context.Context, a backends.Arrow) error {
	a.Pod = la.spec.Pod
	if err := la.ledger.Record(ctx, a); err != nil {
		return fmt.Errorf("record of pod %s: %w", la.spec.Pod, err)
	}
	return nil
}

// begin records what is about to be made. Where it fails, nothing was made.
func (la *launch) begin(ctx context.Context, more map[string]string) error {
	expires := la.name.Expires
	at := map[string]string{atHost: la.b.api.DaemonHost()}
	maps.Copy(at, more)
	err := la.record(ctx, backends.Arrow{
		State: backends.Intended, Kind: Kind, Name: la.name.String(), Expires: &expires,
		At: at,
	})
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), la.record(ctx, backends.Arrow{State: backends.Gone}))
	}
	return la.record(ctx, backends.Arrow{State: backends.Sent})
}

func (la *launch) run(ctx context.Context, plans []containerPlan) (err error) {
	// Everything that can be wrong with a request is found before the intent.
	requests := make([]client.ContainerCreateOptions, len(plans))
	for i, p := range plans {
		if requests[i], err = la.b.config.request(la.b.limits, p); err != nil {
			return err
		}
	}
	if err := la.begin(ctx, nil); err != nil {
		return err
	}
	var ids []string
	defer func() {
		if err != nil && len(ids) > 0 {
			err = errors.Join(err, la.release(ctx, ids))
		}
	}()
	for i, p := range plans {
		id, made, err := la.b.create(ctx, p, requests[i])
		if made {
			ids = append(ids, id)
		}
		if err != nil {
			if len(ids) == 0 && errors.Is(err, errNothingMade) {
				err = errors.Join(err, la.record(ctx, backends.Arrow{State: backends.Gone}))
			}
			return fmt.Errorf("container %s: %w", p.containerName(), err)
		}
		if i == 0 {
			la.d.terms.Ref = backends.Ref{
				Kind: Kind, RunID: la.spec.RunID, Pod: la.spec.Pod, ID: id, Name: la.name.String(),
				Details: map[string]string{atHost: la.b.api.DaemonHost()},
			}
			la.d.terms.Since = time.Now().UTC()
			ref := la.d.terms.Ref
			ref.Details = maps.Clone(ref.Details)
			if err := la.record(ctx, backends.Arrow{State: backends.Created, Ref: &ref}); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	for i, p := range plans {
		if err := la.b.start(ctx, ids[i]); err != nil {
			return fmt.Errorf("container %s: %w", p.containerName(), err)
		}
		if err := la.d.watch(ctx, ids[i], p.role, p.replica); err != nil {
			return err
		}
	}
	return nil
}

// release ends what a failed launch has made, even if ctx is over; if that
// fails, the ledger still owes it.
func (la *launch) release(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), la.spec.Grace+releasePatience)
	defer cancel()
	err := la.d.end(ctx, ids)
	if err != nil {
		return err
	}
	return la.record(ctx, backends.Arrow{State: backends.Gone})
}

// errNothingMade marks a create that has certainly made nothing.
var errNothingMade = errors.New("nothing was made")

// create makes one container and returns its id; made says whether there is
// one, whatever the error. An answer that never came is not asked for again:
// the container is looked for by its name, which no other has.
func (b *Backend) create(ctx context.Context, p containerPlan, request client.ContainerCreateOptions) (id string, made bool, err error) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerPatience)
	defer cancel()
	err = b.call(call, effect.DockerCreate, func(ctx context.Context) error {
		res, err := b.api.ContainerCreate(ctx, request)
		id = res.ID
		return err
	})
	if err == nil {
		return id, true, nil
	}
	if refused(err) {
		return "", false, fmt.Errorf("%w: %w", createClass(err), err)
	}
	look, cancelLook := context.WithTimeout(context.WithoutCancel(ctx), lookPatience)
	defer cancelLook()
	for {
		id, found, lookErr := b.find(look, p)
		switch {
		case lookErr == nil && found:
			return id, true, nil
		case lookErr == nil && answered(err):
			// The daemon has said no, and it knows no such name.
			return "", false, fmt.Errorf("%w: %w", errNothingMade, err)
		}
		select {
		case <-look.Done():
			return "", false, errors.Join(fmt.Errorf("whether it was made is not known: %w", err), lookErr)
		case <-time.After(lookEvery):
		}
	}
}

// find looks for the container of a plan by its name, and holds it against the
// plan: a name can be somebody else's only by malice, but it costs nothing.
func (b *Backend) find(ctx context.Context, p containerPlan) (id string, found bool, err error) {
	c, err := b.inspect(ctx, p.containerName())
	switch {
	case cerrdefs.IsNotFound(err):
		return "", false, nil
	case err != nil:
		return "", false, err
	case c.Config == nil || c.Config.Labels[labelName] != p.name.String() || c.Config.Labels[labelOwner] != p.spec.Owner:
		return "", false, nil
	}
	return c.ID, true, nil
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

// refused says that the daemon has understood a request and has not done it.
// A name in use is not among these: it may be ours, of a request whose answer
// got lost below HTTP.
func refused(err error) bool {
	return cerrdefs.IsInvalidArgument(err) || cerrdefs.IsNotFound(err) || cerrdefs.IsUnauthorized(err) ||
		cerrdefs.IsPermissionDenied(err) || cerrdefs.IsNotImplemented(err)
}

// answered says that err is an answer of the daemon, not the lack of one.
func answered(err error) bool {
	return cerrdefs.IsInternal(err) || cerrdefs.IsConflict(err) || refused(err)
}

func createClass(err error) error {
	if cerrdefs.IsUnauthorized(err) || cerrdefs.IsPermissionDenied(err) {
		return errors.Join(backends.ErrRefused, errNothingMade)
	}
	return errors.Join(backends.ErrSpec, errNothingMade)
}

// start starts a container. A start that was cut short needs no answer: its
// container is removed in any case.
func (b *Backend) start(ctx context.Context, id string) error {
	err := b.call(ctx, effect.DockerStart, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, answerPatience)
		defer cancel()
		_, err := b.api.ContainerStart(ctx, id, client.ContainerStartOptions{})
		return err
	})
	if err != nil && impossible(err) {
		return fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	return err
}

// impossible says that a container will not start the next time either. The
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
