package docker

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/internal/bootstrap"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/ending"
)

// An insideDeployment is the processes of one launch in somebody else's container.
type insideDeployment struct {
	b         *Backend
	spec      backends.Spec
	terms     backends.Terms
	name      string // the pod's
	container string
	replicas  []*insideReplica // in the order in which they are started
	oom       bool             // the container had that mark before
	line      *lineWatch       // nil where no line is waited for
	*ending.Ending
}

var (
	_ backends.Deployment = (*insideDeployment)(nil)
	_ backends.Rental     = (*insideDeployment)(nil)
)

// followVar marks the process that reads the log for us: it is none of the
// engine's.
const followVar = "SWEEP_DOCKER_FOLLOW"

// ports are those that the replicas are known to use.
func (d *insideDeployment) ports() []int {
	var ports []int
	for _, r := range d.replicas {
		ports = append(ports, r.address.Port)
		ports = append(ports, slices.Sorted(maps.Values(r.address.Ports))...)
	}
	return ports
}

// start runs a replica under its bootstrap in the container. The answer may get
// lost; the processes carry the pod's name.
func (d *insideDeployment) start(ctx context.Context, r *insideReplica) error {
	argv, own := bootstrap.Command(r.options)
	env := maps.Clone(r.env)
	maps.Copy(env, backends.Marks(d.spec))
	maps.Copy(env, own)
	env[nameVar] = d.name
	request := client.ExecCreateOptions{User: d.b.config.User, WorkingDir: r.role.Dir, Cmd: argv}
	for _, k := range slices.Sorted(maps.Keys(env)) {
		request.Env = append(request.Env, k+"="+env[k])
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerPatience)
	defer cancel()
	err := d.b.call(call, effect.DockerExec, func(ctx context.Context) error {
		made, err := d.b.api.ExecCreate(ctx, d.container, request)
		if err != nil {
			return err
		}
		r.exec = made.ID
		_, err = d.b.api.ExecStart(ctx, made.ID, client.ExecStartOptions{Detach: true})
		return err
	})
	if err != nil {
		if impossible(err) {
			err = fmt.Errorf("%w: %w", backends.ErrSpec, err)
		}
		return fmt.Errorf("start in container %s: %w", d.container[:min(12, len(d.container))], err)
	}
	return d.watch(ctx, r)
}

// watch follows the log, and with it the life, of a replica.
func (d *insideDeployment) watch(ctx context.Context, r *insideReplica) error {
	out := io.Discard
	var log *effect.File
	if r.host.log != "" {
		f, err := d.b.fx.Create(effect.LogCreate, r.host.log)
		if err != nil {
			return err
		}
		log, out = f, f
	}
	if d.line != nil && r.address.Replica == 0 && isEntry(d.spec, r.role) {
		out = io.MultiWriter(out, d.line)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	r.watchers.Go(func() {
		if log != nil {
			defer func() { _ = log.Close() }() // a log that cannot be written must not end a run
		}
		d.follow(life, r, out)
	})
	if r.agent != nil {
		r.watchers.Go(func() { d.b.beat(life, r.agent) })
	}
	return nil
}

// followScript prints a file from a byte on, as it grows, until a process has
// ended. The process is the parent of what we watch, so that the reader ends
// with the engine even if sweep is gone.
const followScript = `
f=$1; from=$2; p=$3
: >>"$f"
tail -c "+$from" -f "$f" &
t=$!
while kill -0 "$p" 2>/dev/null; do sleep 1; done
sleep 1
kill "$t" 2>/dev/null
true
`

// follow copies the log until the replica has ended or ctx has, which is after the
// end of everything.
func (d *insideDeployment) follow(ctx context.Context, r *insideReplica, out io.Writer) {
	var have int64
	for ctx.Err() == nil {
		if s, err := d.b.look(ctx, d.container, false); err == nil {
			leader := s.bootstrap(d.name, r.options.Name)
			if leader == 0 {
				break
			}
			n, _ := d.followOnce(ctx, r, out, have, leader) // what ends it is seen in the next look
			have += n
		} else if c, err := d.b.inspect(ctx, d.container); gone(err) || err == nil && (c.State == nil || !c.State.Running) {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * lookEvery):
		}
	}
	d.rest(ctx, r, out, have)
	d.ended(ctx, r)
}

func (d *insideDeployment) followOnce(ctx context.Context, r *insideReplica, out io.Writer, have int64, leader int) (int64, error) {
	counted := &skipping{w: out}
	err := d.b.fx.Call(ctx, effect.DockerExec, func(ctx context.Context) error {
		made, err := d.b.api.ExecCreate(ctx, d.container, client.ExecCreateOptions{
			User: d.b.config.User, AttachStdout: true, Env: []string{nameVar + "=" + d.name, followVar + "=1"},
			Cmd: []string{"/bin/sh", "-c", followScript, "sweep-follow", r.options.LogPath, strconv.FormatInt(have+1, 10), strconv.Itoa(leader)},
		})
		if err != nil {
			return err
		}
		stream, err := d.b.api.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
		if err != nil {
			return err
		}
		defer stream.Close()
		stop := context.AfterFunc(ctx, stream.Close) // it has its own connection, which knows no context
		defer stop()
		_, err = stdcopy.StdCopy(counted, io.Discard, stream.Reader)
		return err
	})
	return counted.passed, err
}

// restPatience bounds the copy of a log's last lines.
const restPatience = 5 * time.Second

// rest copies what the reader has not seen of a log that is complete.
func (d *insideDeployment) rest(ctx context.Context, r *insideReplica, out io.Writer, have int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restPatience)
	defer cancel()
	text, err := d.b.exec(ctx, d.container, client.ExecCreateOptions{
		User: d.b.config.User, Cmd: []string{"tail", "-c", "+" + strconv.FormatInt(have+1, 10), r.options.LogPath},
	})
	if err == nil {
		_, _ = out.Write(text) // a log that cannot be written must not end a run
	}
}

// ended notes the end of a replica that nobody asked to end, unless ctx has ended.
func (d *insideDeployment) ended(ctx context.Context, r *insideReplica) {
	var state container.State
	if res, err := d.b.api.ExecInspect(ctx, r.exec, client.ExecInspectOptions{}); err == nil {
		state.ExitCode = res.ExitCode
	}
	if c, err := d.b.inspect(ctx, d.container); err == nil && c.State != nil {
		state.OOMKilled = c.State.OOMKilled && !d.oom // the mark stays on the container for good
	}
	if ctx.Err() == nil {
		d.Ended(exit(r.role.Name, r.address.Replica, state))
	}
}

// ready waits for the line that the configuration names, in the output of the
// role that requests go to, and then as long as it says.
func (d *insideDeployment) ready(ctx context.Context) error {
	if d.line != nil {
		select {
		case <-d.line.found:
		case <-d.Done():
			return fmt.Errorf("before its ready line: %w", d.Err())
		case <-ctx.Done():
			return fmt.Errorf("no line of its output matches %q: %w", d.b.limits.ready, context.Cause(ctx))
		}
	}
	if d.b.config.Inside.Soak <= 0 {
		return nil
	}
	select {
	case <-time.After(d.b.config.Inside.Soak):
		return nil
	case <-d.Done():
		return fmt.Errorf("while it was left alone: %w", d.Err())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *insideDeployment) Host(role string, replica int) host.Host {
	for _, r := range d.replicas {
		if r.role.Name == role && r.address.Replica == replica {
			return r.host
		}
	}
	panic(fmt.Sprintf("docker: no replica %d of role %q", replica, role))
}

func (d *insideDeployment) Terms() backends.Terms { return d.terms }

// scrapePatience bounds the last look at the metrics.
const scrapePatience = 5 * time.Second

// Stop ends exactly what was started, and returns when none of it runs and
// every port that it used is free. The container goes on.
func (d *insideDeployment) Stop(ctx context.Context) error {
	err := d.StopWith(ctx, func() error { return d.end(ctx) })
	if err != nil {
		return fmt.Errorf("pod %s: %w", d.spec.Pod, err)
	}
	return nil
}

func (d *insideDeployment) end(ctx context.Context) error {
	d.Ask()
	last, cancel := context.WithTimeout(ctx, scrapePatience)
	var scrapes sync.WaitGroup
	for _, r := range d.replicas {
		scrapes.Go(func() { r.scrape(last, d.b.fx) })
	}
	scrapes.Wait()
	cancel()
	if err := d.b.endInside(ctx, d.container, d.name, d.spec.Grace, d.ports()); err != nil {
		return err
	}
	for _, r := range d.replicas {
		if r.cancel != nil {
			r.cancel()
		}
		r.watchers.Wait()
	}
	d.b.tidyInside(ctx, d.container, d.name)
	return nil
}

func gone(err error) bool { return cerrdefs.IsNotFound(err) }
