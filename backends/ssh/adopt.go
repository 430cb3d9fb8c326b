package ssh

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/bootstrap"
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
	workdir, ok := strings.CutSuffix(ref.Details[detailDir], "/"+ref.Name)
	if !ok {
		return nil, fmt.Errorf("ref %q has no folder: %w", ref.ID, backends.ErrNotFound)
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
	s, err := l.look(ctx, workdir, ref.Name)
	if err != nil {
		return nil, err
	}
	pod := s.pod(ref.Name)
	if pod == nil || !pod.started || len(s.live[ref.Name]) == 0 {
		return nil, fmt.Errorf("pod %s runs no more: %w", ref.Name, backends.ErrNotFound)
	}
	if got := pod.marks[backends.MarkDigest]; got != spec.Digest {
		return nil, fmt.Errorf("pod %s is another server (%.12s): %w", ref.Name, got, backends.ErrNotFound)
	}
	name, _ := backends.ParseName(ref.Name)
	if name.Expires.Before(spec.Expires) || spec.Expires.IsZero() {
		spec.Expires = name.Expires // its own end stays
	}
	d := &deployment{
		b: b, link: l, spec: spec, workdir: workdir, since: time.Now(), ref: ref,
		done: make(chan struct{}), turn: make(chan struct{}, 1),
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
				return fmt.Errorf("pod %s: %w: %w", d.ref.Name, backends.ErrNotFound, err)
			}
			j := job{role: role, replica: n, port: next()}
			if token := env[tokenVar()]; token != "" {
				j.agent = next()
				d.token = secret.New("${SWEEP_POD_KEY}", token)
			}
			if j.port == 0 {
				return fmt.Errorf("pod %s has no port for %s: %w", d.ref.Name, role.Name, backends.ErrNotFound)
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
