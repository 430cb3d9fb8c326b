package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/internal/bootstrap"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/ending"
	"sweep.dev/sweep/internal/secret"
)

// A deployment is the containers of one launch.
type deployment struct {
	b     *Backend
	spec  backends.Spec
	terms backends.Terms

	*ending.Ending

	replicas []*replica // complete before anybody else has the deployment
}

var (
	_ backends.Deployment = (*deployment)(nil)
	_ backends.Rental     = (*deployment)(nil)
	_ backends.Keeper     = (*deployment)(nil)
)

// A replica is one container, and those who watch it.
type replica struct {
	id    string
	role  string
	n     int
	host  *containerHost
	agent *bootstrap.Agent // nil where there is none

	cancel   context.CancelFunc // ends the watchers
	watchers sync.WaitGroup
	logged   chan struct{} // closed when the log is complete
}

// watch begins to look after a container that has just been started.
func (d *deployment) watch(ctx context.Context, id string, role backends.Role, n int) error {
	c, err := d.b.inspect(ctx, id)
	if err != nil {
		return fmt.Errorf("container %s: %w", id, err)
	}
	port := role.Port
	if port == 0 {
		port = defaultPort
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &replica{id: id, role: role.Name, n: n, cancel: cancel, logged: make(chan struct{})}
	r.host = &containerHost{b: d.b, id: id, network: reachOf(c), address: addressOf(c, port), user: d.b.config.User}
	if role.LogPath != nil {
		r.host.log = role.LogPath(n)
	}
	d.replicas = append(d.replicas, r)

	var log *effect.File
	if r.host.log != "" {
		if log, err = d.b.fx.Create(effect.LogCreate, r.host.log); err != nil {
			cancel()
			close(r.logged)
			return err
		}
	}
	r.watchers.Go(func() {
		defer close(r.logged)
		d.b.copyLog(life, id, log)
	})
	r.watchers.Go(func() {
		if err := d.b.wait(life, id, r); err != nil {
			d.Ended(err)
		}
	})
	if base, token := agentOf(c); base != "" {
		r.agent = bootstrap.NewAgent(nil, base, secret.New("(the pod's own token)", token))
		if d.b.config.Heartbeat > 0 {
			r.watchers.Go(func() { d.b.beat(life, r.agent) })
		}
	}
	return nil
}

// beat tells a container that we are there, until ctx ends. A beat that fails
// is no event: there may be no python3, and the container has its expiry time.
func (b *Backend) beat(ctx context.Context, agent *bootstrap.Agent) {
	bootstrap.Keepalive(ctx, b.config.Heartbeat/4, func(ctx context.Context) error {
		return b.fx.Call(ctx, effect.AgentBeat, agent.Beat)
	}, func(error) {})
}

func (d *deployment) Host(role string, replica int) host.Host {
	for _, r := range d.replicas {
		if r.role == role && r.n == replica {
			return r.host
		}
	}
	panic(fmt.Sprintf("docker: no replica %d of role %q", replica, role))
}

// Terms implements [backends.Rental]: a container costs nothing, but somebody
// has to give it back.
func (d *deployment) Terms() backends.Terms { return d.terms }

// Keep implements [backends.Keeper]. A container whose image has no python3
// cannot be told anything, and is not kept.
func (d *deployment) Keep(ctx context.Context, until time.Time) error {
	err := d.KeepWith(ctx, func() error { return d.keep(ctx, until) })
	if err != nil {
		return fmt.Errorf("keep %s: %w", d.spec.Pod, err)
	}
	return nil
}

func (d *deployment) keep(ctx context.Context, until time.Time) error {
	for _, r := range d.replicas {
		if r.agent == nil {
			return fmt.Errorf("it has no dead-man switch that could be told when to end: %w", host.ErrNotSupported)
		}
		keep := func(ctx context.Context) error { return r.agent.Keep(ctx, until) }
		if err := d.b.call(ctx, effect.AgentEnd, keep); err != nil {
			return err
		}
	}
	d.letGo()
	return nil
}

// letGo ends everybody who watches.
func (d *deployment) letGo() {
	d.Ask()
	for _, r := range d.replicas {
		r.cancel()
	}
	for _, r := range d.replicas {
		r.watchers.Wait()
	}
}

// Stop implements [backends.Deployment]. A second call waits for the first.
func (d *deployment) Stop(ctx context.Context) error {
	ids := make([]string, len(d.replicas))
	for i, r := range d.replicas {
		ids[i] = r.id
	}
	err := d.StopWith(ctx, func() error { return d.end(ctx, ids) })
	if err != nil {
		return fmt.Errorf("pod %s: %w", d.spec.Pod, err)
	}
	return nil
}

// logPatience is how long a stopped container's last lines are waited for.
const logPatience = 5 * time.Second

// end stops containers, has their logs copied to the end, removes them, and
// returns when they are seen to be gone.
func (d *deployment) end(ctx context.Context, ids []string) error {
	d.Ask()
	err := each(ids, func(id string) error { return d.b.halt(ctx, id, d.spec.Grace) })
	// What cannot be stopped may still be removed.
	for _, r := range d.replicas {
		select {
		case <-r.logged:
		case <-time.After(logPatience):
		case <-ctx.Done():
		}
	}
	if gone := each(ids, func(id string) error { return d.b.remove(ctx, id) }); gone != nil {
		return errors.Join(gone, err)
	}
	d.letGo()
	return nil
}

// each calls f for every id at once and joins what they return. A panic of one
// is one of the caller, who can still end the others.
func each(ids []string, f func(id string) error) error {
	errs, panics := make([]error, len(ids)), make([]any, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() {
			defer func() { panics[i] = recover() }()
			errs[i] = f(id)
		})
	}
	all.Wait()
	for _, v := range panics {
		if v != nil {
			panic(v)
		}
	}
	return errors.Join(errs...)
}

// wait returns how a container has ended, or nil when ctx has.
func (b *Backend) wait(ctx context.Context, id string, r *replica) error {
	for ctx.Err() == nil {
		status, gone, err := b.waitOnce(ctx, id)
		if err != nil || ctx.Err() != nil {
			select { // a daemon that is being restarted
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			continue
		}
		if !gone {
			// What the daemon says of the end, where it is still there to be asked.
			if c, err := b.inspect(ctx, id); err == nil && c.State != nil {
				return exit(r.role, r.n, *c.State)
			}
		}
		return exit(r.role, r.n, container.State{ExitCode: status})
	}
	return nil
}
