package ssh

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/internal/bootstrap"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/ending"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// A deployment is the processes of one pod.
type deployment struct {
	b        *Backend
	link     *link
	spec     backends.Spec
	workdir  string // on the host, absolute
	since    time.Time
	ref      backends.Ref
	token    secret.String // of the bootstraps' agents
	key      secret.String // of the engines; empty where nobody else reaches them
	replicas []*replica

	watching context.CancelFunc // ends what follows the pod; nil before begin
	watchers sync.WaitGroup
	*ending.Ending
}

// A replica is one process, and the place where it runs.
type replica struct {
	job
	d   *deployment
	log *follower // nil where nobody wants it
}

var (
	_ backends.Deployment = (*deployment)(nil)
	_ backends.Keeper     = (*deployment)(nil)
	_ backends.Rental     = (*deployment)(nil)
	_ backends.Server     = (*deployment)(nil)
)

func (d *deployment) add(j job) { d.replicas = append(d.replicas, &replica{job: j, d: d}) }

// saw adds to the ref what the host says of the pod.
func (d *deployment) saw(s sighting) {
	p := s.pod(d.ref.Name)
	if p == nil {
		return
	}
	var pids []string
	for n := range d.replicas {
		pids = append(pids, p.processes[n])
	}
	d.ref.Details[detailPIDs] = strings.Join(pids, " ")
	d.ref.Details[detailBoot] = p.boots[0]
}

// begin follows the pod: its logs, its end, our heartbeat.
func (d *deployment) begin(ctx context.Context) error {
	for _, r := range d.replicas {
		if r.role.LogPath == nil {
			continue
		}
		f, err := follow(d.b.fx, r.role.LogPath(r.replica))
		if err != nil {
			d.closeLogs()
			return err
		}
		r.log = f
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d.watching = cancel
	d.watchers.Go(func() { d.watch(life) })
	for _, r := range d.replicas {
		a := r.agentClient()
		if a == nil {
			continue
		}
		beat := func(ctx context.Context) error { return d.b.fx.Call(ctx, effect.AgentBeat, a.Beat) }
		// A beat that fails is made up for by the next; if none gets through,
		// the pod's end is what will be seen.
		d.watchers.Go(func() { bootstrap.Keepalive(life, d.b.c.Heartbeat/10, beat, func(error) {}) })
	}
	return nil
}

// agentClient is our end of the talk with the replica's bootstrap; nil where it
// has no agent.
func (r *replica) agentClient() *bootstrap.Agent {
	if r.agent == 0 {
		return nil
	}
	return bootstrap.NewAgent(r.d.link.dial, "http://"+loopback+":"+strconv.Itoa(r.agent), r.d.token)
}

// watch follows the pod until something of it ends by itself, or life is over.
func (d *deployment) watch(life context.Context) {
	defer func() {
		for _, r := range d.replicas {
			if r.log != nil {
				r.log.end()
			}
		}
	}()
	for life.Err() == nil {
		client, _, err := d.link.current(life)
		if err == nil {
			if err = d.attend(life); err == nil {
				return
			}
			if life.Err() == nil && errors.Is(err, errLost) {
				err = d.link.next(life, client)
			}
		}
		if asFailure(err) != nil { // its folder is gone: so is the pod
			err = &backends.Exit{Role: d.replicas[0].role.Name, Code: -1, Signal: syscall.SIGKILL.String()}
		}
		if err != nil && life.Err() == nil {
			d.Ended(err)
			return
		}
	}
}

// watchEvery is the time between two looks at a log.
const watchEvery = 300 * time.Millisecond

// attend asks for the state of all replicas over one session, again and again.
// It returns nil when the pod has ended by itself and its logs are complete, and
// an error when the session is over.
func (d *deployment) attend(life context.Context) error {
	var w *watcher
	err := d.b.fx.Call(life, effect.SSHRead, func(ctx context.Context) (err error) {
		w, err = d.link.watcher(ctx, d.workdir, d.ref.Name)
		return err
	})
	if err != nil {
		return err
	}
	defer w.close()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	wake := make(chan struct{}, 1)
	for _, r := range d.replicas {
		if r.log != nil {
			r.log.wakes(wake)
		}
	}
	for {
		for n, r := range d.replicas {
			exit, err := w.step(n, r)
			if err != nil {
				return err
			}
			if exit != nil {
				d.Ended(exit)
				return nil
			}
		}
		select {
		case <-life.Done():
			return nil
		case <-tick.C:
		case <-wake:
		}
	}
}

// Host implements [backends.Deployment].
func (d *deployment) Host(role string, n int) host.Host {
	for _, r := range d.replicas {
		if r.role.Name == role && r.replica == n {
			return r
		}
	}
	panic(fmt.Sprintf("ssh: no replica %d of role %q", n, role))
}

// Terms implements [backends.Rental]: the host costs what it costs with or
// without us.
func (d *deployment) Terms() backends.Terms {
	t := backends.Terms{Ref: d.ref, Since: d.since}
	if d.replicas[0].agent == 0 {
		t.Findings = append(t.Findings, result.Finding{
			Code: finding.NoHeartbeat, Text: "the host has no python3: the server ends itself at its expiry time, not when sweep is gone",
		})
	}
	return t
}

// Authorize implements [backends.Server].
func (d *deployment) Authorize(h http.Header) {
	if !d.key.IsZero() {
		h.Set("Authorization", "Bearer "+d.key.Reveal())
	}
}

// Keep implements [backends.Keeper]. A host without python3 cannot be told a
// date; there the pod can only be kept until it ends anyway.
func (d *deployment) Keep(ctx context.Context, until time.Time) error {
	err := d.KeepWith(ctx, func() error { return d.keep(ctx, until) })
	if err != nil {
		return fmt.Errorf("pod %s: %w", d.ref.Name, err)
	}
	return nil
}

func (d *deployment) keep(ctx context.Context, until time.Time) error {
	if until.After(d.spec.Expires.Add(time.Second)) {
		return fmt.Errorf("%w: it ends at %v, before %v", backends.ErrSpec, d.spec.Expires, until)
	}
	for _, r := range d.replicas {
		a := r.agentClient()
		if a == nil {
			if until.Before(d.spec.Expires.Add(-time.Minute)) {
				return fmt.Errorf("the host has no python3: it runs until %v or is stopped: %w", d.spec.Expires, host.ErrNotSupported)
			}
			continue
		}
		err := d.b.fx.Call(ctx, effect.AgentEnd, func(ctx context.Context) error { return a.Keep(ctx, until) })
		if err != nil {
			return err
		}
	}
	d.quiet()
	return nil
}

// quiet ends everything here that follows the pod.
func (d *deployment) quiet() {
	d.Ask()
	if d.watching != nil {
		d.watching()
	}
	d.watchers.Wait()
	d.closeLogs()
	d.link.close()
}

func (d *deployment) closeLogs() {
	for _, r := range d.replicas {
		if r.log != nil {
			r.log.close()
		}
	}
}

// lastWords completes the logs of a pod that has ended, before its folder goes.
// What cannot be had is missing.
func (d *deployment) lastWords(ctx context.Context, l *link) {
	if d.watching != nil {
		d.watching()
	}
	d.watchers.Wait()
	w, err := l.watcher(ctx, d.workdir, d.ref.Name)
	if err != nil {
		return
	}
	defer w.close()
	for n, r := range d.replicas {
		if r.log != nil && r.log.isOpen() {
			if _, err := w.step(n, r); err != nil {
				return
			}
		}
	}
}

// Stop implements [backends.Deployment].
func (d *deployment) Stop(ctx context.Context) error {
	err := d.StopWith(ctx, func() error { return d.end(ctx) })
	if err != nil {
		return fmt.Errorf("pod %s: %w", d.ref.Name, err)
	}
	return nil
}

func (d *deployment) end(ctx context.Context) error {
	d.Ask()
	l := d.link
	if _, _, err := l.current(ctx); err != nil { // given up: perhaps the host is back
		fresh, err := d.b.open(ctx)
		if err != nil {
			d.quiet()
			return err
		}
		defer fresh.close()
		l = fresh
	}
	err := l.end(ctx, d.workdir, d.ref.Name, d.spec.Grace, false, func(ctx context.Context) { d.lastWords(ctx, l) })
	d.quiet()
	return err
}
