package provision

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/secret"
)

// Adopt implements [backends.Adopter]: it takes over the running units of a
// deployment that an earlier run has kept. What they were started with says
// where they are. Their heartbeat begins again; the logs are copied from their
// start. Before it returns [backends.ErrNotFound] it ends what is left of the
// deployment, because the caller forgets it then.
func (l *Layer) Adopt(ctx context.Context, spec backends.Spec, ref backends.Ref) (_ backends.Deployment, err error) {
	if err := l.Check(spec); err != nil {
		return nil, err
	}
	inspector, ok := l.provider.(Inspector)
	if !ok {
		return nil, fmt.Errorf("pod %s: backend %s keeps nothing: %w", ref.Pod, l.Kind, host.ErrNotSupported)
	}
	if err := l.Mine(ref); err != nil {
		return nil, err
	}
	release, err := l.hold(ctx, ref.Name)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", ref.Pod, err)
	}
	var found []Instance
	defer func() {
		if errors.Is(err, backends.ErrNotFound) {
			if left := l.delete(ctx, ref.Name, found, nil); left != nil {
				err = fmt.Errorf("pod %s can neither be taken over (%v) nor ended: %w", ref.Pod, err, left) //nolint:errorlint // it is not gone
			}
		}
		if err != nil {
			release()
		}
	}()
	if found, err = l.Instances(ctx, ref); err != nil {
		return nil, err
	}
	pod, ok := backends.ParseName(ref.Name)
	if len(found) == 0 || !ok {
		return nil, fmt.Errorf("pod %s does not run any more: %w", ref.Pod, backends.ErrNotFound)
	}
	if spec.Expires.IsZero() || pod.Expires.Before(spec.Expires) {
		spec.Expires = pod.Expires // its own end stays
	}
	for _, i := range found {
		if err := i.same(spec); err != nil {
			return nil, fmt.Errorf("pod %s: %w", ref.Pod, err)
		}
	}
	d := l.newDeployment(spec, pod, Allocation{})
	_, d.grouped = l.provider.(Grouper)
	defer func() {
		if err != nil {
			d.LetGo()
			err = fmt.Errorf("pod %s: %w", ref.Pod, err)
		}
	}()
	for _, i := range found {
		if !i.Running {
			return nil, fmt.Errorf("%s is %s: %w", i.Unit, i.Status, backends.ErrNotFound)
		}
		environs, err := inspector.Inspect(ctx, i)
		if err != nil {
			return nil, err
		}
		u, err := recall(spec, pod, i, environs)
		if err != nil {
			return nil, err
		}
		i.Grace = cmp.Or(i.Grace, spec.Grace)
		d.members = append(d.members, &member{unit: u, instance: i})
	}
	if err := d.complete(); err != nil {
		return nil, err
	}
	var begin func(context.Context) error
	if r, ok := l.provider.(Resumer); ok {
		a, err := r.Resume(ctx, pod, d.units())
		if err != nil {
			return nil, err
		}
		d.release, d.clients, d.keep, begin = a.Close, a.Clients, a.Keep, a.Begin
	}
	connect(d.units())
	for _, m := range d.members {
		d.learn(m)
	}
	d.terms.Ref = ref
	for _, m := range d.members {
		if err := d.attach(ctx, m); err != nil {
			return nil, err
		}
	}
	// From now on it is us who keep it alive.
	if begin != nil {
		err = begin(ctx)
	} else {
		err = d.extendAgents(ctx, time.Time{})
	}
	if err != nil {
		return nil, err
	}
	own := d.release
	d.release = func() {
		if own != nil {
			own()
		}
		release()
	}
	return d.seen(), nil
}

// same says why a unit is not one of a spec. It goes on: that is no
// [backends.ErrNotFound].
func (i Instance) same(spec backends.Spec) error {
	switch {
	case i.Marks[backends.MarkOwner] != spec.Owner:
		return fmt.Errorf("%s belongs to another owner", i.Unit)
	case i.Marks[backends.MarkDigest] != spec.Digest:
		return fmt.Errorf("%s is another server (%.12s, not %.12s)", i.Unit, i.Marks[backends.MarkDigest], spec.Digest)
	}
	return nil
}

// recall makes a unit of what its replicas were started with.
func recall(spec backends.Spec, pod backends.Name, i Instance, environs []map[string]string) (*Unit, error) {
	u := &Unit{Spec: spec, Pod: pod, Name: i.Unit, Marks: i.Marks}
	for _, env := range environs {
		var at backends.Listener
		if err := json.Unmarshal([]byte(env[backends.MarkServer]), &at); err != nil {
			return nil, fmt.Errorf("%s: %s gave an answer that sweep cannot read: %w", i.Unit, backends.MarkServer, err)
		}
		role, ok := roleOf(spec, at.Role)
		if !ok || at.Replica >= role.Replicas {
			return nil, fmt.Errorf("%s is replica %d of %s, which is not in the plan: %w", i.Unit, at.Replica, at.Role, backends.ErrNotFound)
		}
		r := &Replica{Role: role, Env: env, Place: Place{Address: backends.Address{
			Bind: at.Host, Host: at.Host, Port: at.Port, Ports: at.Ports, Replica: at.Replica,
		}}}
		if token := env[tokenVar]; token != "" {
			u.Token = secret.New("${SWEEP_POD_KEY}", token)
			r.Place.Agent, _ = strconv.Atoi(env[agentVar])
		}
		if key := env[role.KeyEnv]; role.KeyEnv != "" && key != "" {
			u.key = secret.New("${SWEEP_POD_KEY}", key)
		}
		u.Replicas = append(u.Replicas, r)
	}
	return u, nil
}

func roleOf(spec backends.Spec, name string) (backends.Role, bool) {
	for _, r := range spec.Roles {
		if r.Name == name {
			return r, true
		}
	}
	return backends.Role{}, false
}

// complete reports whether every replica of the spec is there.
func (d *deployment) complete() error {
	var missing []error
	for _, role := range d.spec.Roles {
		for n := range role.Replicas {
			if !d.has(role.Name, n) {
				missing = append(missing, fmt.Errorf("%s does not run any more: %w", role.ReplicaName(n), backends.ErrNotFound))
			}
		}
	}
	return errors.Join(missing...)
}

func (d *deployment) has(role string, replica int) bool {
	for _, m := range d.members {
		for _, r := range m.unit.Replicas {
			if r.Role.Name == role && r.Place.Replica == replica {
				return true
			}
		}
	}
	return false
}
