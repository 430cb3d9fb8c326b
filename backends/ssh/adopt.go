package ssh

import (
	"context"
	"fmt"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/bootstrap"
	"sweep.dev/sweep/internal/ending"
	"sweep.dev/sweep/internal/secret"
)

// Adopt implements [backends.Adopter]. The secrets of the pod are in no file:
// they are read from the environment of its processes.
func (b *Backend) Adopt(ctx context.Context, spec backends.Spec, ref backends.Ref) (_ backends.Deployment, err error) {
	if err := b.Check(spec); err != nil {
		return nil, err
	}
	if _, ok := backends.ParseName(ref.Name); !ok || ref.Kind != Kind {
		return nil, fmt.Errorf("ref %q does not name a pod: %w", ref.ID, backends.ErrNotFound)
	}
	l, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	workdir := b.workdirOf(ref)
	s, err := l.look(ctx, workdir, ref.Name)
	if err != nil {
		return nil, err
	}
	pod := s.pod(ref.Name)
	switch {
	case len(s.live[ref.Name]) == 0:
		// Whoever hears that it is not found takes it for gone: so it has to be.
		if err := l.end(ctx, workdir, ref.Name, 0, false, nil); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("pod %s runs no more: %w", ref.Name, backends.ErrNotFound)
	case pod == nil || !pod.started:
		return nil, fmt.Errorf("pod %s has lost its folder on the host: end it", ref.Name)
	}
	if got := pod.marks[backends.MarkDigest]; got != spec.Digest {
		return nil, fmt.Errorf("pod %s is another server (%.12s)", ref.Name, got)
	}
	name, _ := backends.ParseName(ref.Name)
	if name.Expires.Before(spec.Expires) || spec.Expires.IsZero() {
		spec.Expires = name.Expires // its own end stays
	}
	d := &deployment{
		b: b, link: l, spec: spec, workdir: s.home, since: time.Now(), ref: ref,
		Ending: ending.New(),
	}
	if err := d.recognize(ctx, pod); err != nil {
		return nil, err
	}
	for _, r := range d.replicas {
		if a := r.agentClient(); a != nil {
			if err := a.Keep(ctx, time.Time{}); err != nil { // from here on it needs us again
				return nil, fmt.Errorf("pod %s: %w", ref.Name, err)
			}
		}
	}
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// recognize fills in what a launch would have chosen.
func (d *deployment) recognize(ctx context.Context, pod *found) error {
	ports := pod.ports
	next := func() (port int) {
		if len(ports) > 0 {
			port, ports = ports[0], ports[1:]
		}
		return port
	}
	for _, role := range d.spec.Roles {
		for n := range role.Replicas {
			env, err := d.link.environ(ctx, d.workdir, d.ref.Name, len(d.replicas))
			if err != nil {
				return fmt.Errorf("pod %s: %w", d.ref.Name, err)
			}
			j := job{role: role, replica: n, port: next()}
			if token := env[tokenVar()]; token != "" {
				j.agent = next()
				d.token = secret.New("${SWEEP_POD_KEY}", token)
			}
			if j.port == 0 {
				return fmt.Errorf("pod %s has no port for %s", d.ref.Name, role.Name)
			}
			if key := env[role.KeyEnv]; role.KeyEnv != "" && d.b.direct() && key != "" {
				d.key = secret.New("${SWEEP_POD_KEY}", key)
			}
			d.add(j)
		}
	}
	return nil
}

// tokenVar is the variable in which a bootstrap gets its token.
func tokenVar() string {
	const token = "which-variable-has-it"
	_, env := bootstrap.Command(bootstrap.Options{AgentPort: 1, Token: secret.Plain(token)})
	for name, value := range env {
		if value == token {
			return name
		}
	}
	return ""
}
