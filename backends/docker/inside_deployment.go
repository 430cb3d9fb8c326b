package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
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
	"sweep.dev/sweep/internal/netguard"
)

// An insideDeployment is one engine in somebody else's container.
type insideDeployment struct {
	b         *Backend
	spec      backends.Spec
	terms     backends.Terms
	name      string // the pod's
	container string
	file      string // the log, in the container
	ports     []int  // that it is known to use
	oom       bool   // the container had that mark before
	host      *containerHost
	agent     *bootstrap.Agent // nil where there is none
	line      *lineWatch       // nil where no line is waited for

	exec     string // Docker's id of what was started
	cancel   context.CancelFunc
	watchers sync.WaitGroup
	*ending.Ending

	stop sync.Mutex // one Stop at a time; guards gone
	gone bool
}

var (
	_ backends.Deployment = (*insideDeployment)(nil)
	_ backends.Rental     = (*insideDeployment)(nil)
)

// followVar marks the process that reads the log for us: it is none of the
// engine's.
const followVar = "SWEEP_DOCKER_FOLLOW"

// start runs the bootstrap in the container. Its answer may get lost; the
// processes carry the pod's name.
func (d *insideDeployment) start(ctx context.Context, role backends.Role, more map[string]string, options bootstrap.Options) error {
	argv, own := bootstrap.Command(options)
	env := map[string]string{}
	for name, value := range d.b.config.Env {
		env[name] = value.Reveal()
	}
	maps.Copy(env, more)
	maps.Copy(env, role.Env)
	maps.Copy(env, backends.Marks(d.spec))
	maps.Copy(env, own)
	env[nameVar] = d.name
	request := client.ExecCreateOptions{User: d.b.config.User, WorkingDir: role.Dir, Cmd: argv}
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
		d.exec = made.ID
		_, err = d.b.api.ExecStart(ctx, made.ID, client.ExecStartOptions{Detach: true})
		return err
	})
	if err != nil {
		if impossible(err) {
			err = fmt.Errorf("%w: %w", backends.ErrSpec, err)
		}
		return fmt.Errorf("start in container %s: %w", d.container[:min(12, len(d.container))], err)
	}
	d.terms.Since = time.Now().UTC()
	return d.watch(ctx)
}

// watch follows the log, and with it the life, of the engine.
func (d *insideDeployment) watch(ctx context.Context) error {
	out := io.Discard
	var log *effect.File
	if d.host.log != "" {
		f, err := d.b.fx.Create(effect.LogCreate, d.host.log)
		if err != nil {
			return err
		}
		log, out = f, f
	}
	if d.b.limits.ready != nil {
		d.line = &lineWatch{pattern: d.b.limits.ready, found: make(chan struct{})}
		out = io.MultiWriter(out, d.line)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d.cancel = cancel
	d.watchers.Go(func() {
		if log != nil {
			defer func() { _ = log.Close() }() // a log that cannot be written must not end a run
		}
		d.follow(life, out)
	})
	if d.agent != nil {
		d.watchers.Go(func() { d.b.beat(life, d.agent) })
	}
	return nil
}

// followScript prints a file from a byte on, as it grows, until a process has
// ended. The process is the parent of what we watch, so that the reader ends
// with the engine whatever becomes of us.
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

// follow copies the log until the engine has ended or ctx has.
func (d *insideDeployment) follow(ctx context.Context, out io.Writer) {
	var have int64
	for ctx.Err() == nil {
		leader := 0
		if s, err := d.b.look(ctx, d.container, false); err == nil {
			for _, p := range leaders(s.of(d.name)) {
				if !p.follows {
					leader = p.pid
				}
			}
			if leader == 0 {
				d.rest(ctx, out, have)
				d.ended(ctx)
				return
			}
			n, _ := d.followOnce(ctx, out, have, leader) // what ends it is seen in the next look
			have += n
		} else if c, err := d.b.inspect(ctx, d.container); gone(err) || err == nil && (c.State == nil || !c.State.Running) {
			d.ended(ctx)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * lookEvery):
		}
	}
}

func (d *insideDeployment) followOnce(ctx context.Context, out io.Writer, have int64, leader int) (int64, error) {
	counted := &skipping{w: out}
	err := d.b.fx.Call(ctx, effect.DockerExec, func(ctx context.Context) error {
		made, err := d.b.api.ExecCreate(ctx, d.container, client.ExecCreateOptions{
			User: d.b.config.User, AttachStdout: true, Env: []string{nameVar + "=" + d.name, followVar + "=1"},
			Cmd: []string{"/bin/sh", "-c", followScript, "sweep-follow", d.file, strconv.FormatInt(have+1, 10), strconv.Itoa(leader)},
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

// rest copies what the reader has not seen of a log that is complete.
func (d *insideDeployment) rest(ctx context.Context, out io.Writer, have int64) {
	text, err := d.b.exec(ctx, d.container, client.ExecCreateOptions{
		User: d.b.config.User, Cmd: []string{"tail", "-c", "+" + strconv.FormatInt(have+1, 10), d.file},
	})
	if err == nil {
		_, _ = out.Write(text) // a log that cannot be written must not end a run
	}
}

// ended notes the end of an engine that nobody asked to end.
func (d *insideDeployment) ended(ctx context.Context) {
	var state container.State
	if res, err := d.b.api.ExecInspect(ctx, d.exec, client.ExecInspectOptions{}); err == nil {
		state.ExitCode = res.ExitCode
	}
	if c, err := d.b.inspect(ctx, d.container); err == nil && c.State != nil {
		state.OOMKilled = c.State.OOMKilled && !d.oom // the mark stays on the container for good
	}
	if ctx.Err() == nil {
		d.Ended(exit(d.spec.Roles[0].Name, 0, state))
	}
}

// ready waits for the line that the configuration names, and then as long as
// it says.
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
	if role != d.spec.Roles[0].Name || replica != 0 {
		panic(fmt.Sprintf("docker: no replica %d of role %q", replica, role))
	}
	return d.host
}

func (d *insideDeployment) Terms() backends.Terms { return d.terms }

// Stop ends exactly what was started, and returns when none of it runs and
// every port that it used is free. The container goes on.
func (d *insideDeployment) Stop(ctx context.Context) error {
	d.Ask()
	d.stop.Lock()
	defer d.stop.Unlock()
	if d.gone {
		return nil
	}
	d.scrape(ctx)
	if err := d.b.endInside(ctx, d.container, d.name, d.spec.Grace, slices.Clone(d.ports)); err != nil {
		return fmt.Errorf("pod %s: %w", d.spec.Pod, err)
	}
	d.gone = true
	if d.cancel != nil {
		d.cancel()
	}
	d.watchers.Wait()
	// It is a file of our own; where it cannot be removed, it harms nobody.
	_, _ = d.b.exec(ctx, d.container, client.ExecCreateOptions{User: d.b.config.User, Cmd: []string{"rm", "-f", d.file}})
	return nil
}

// scrape keeps the engine's last /metrics beside its log: the counters go with
// the process, and the container stays.
func (d *insideDeployment) scrape(ctx context.Context) {
	if d.host.log == "" || d.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	// Nothing here is worth an error: many engines have no such page.
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.host.URL()+"/metrics", http.NoBody)
	if err != nil {
		return
	}
	c := netguard.Client(d.host.Dial, 0)
	defer c.CloseIdleConnections()
	resp, err := c.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return
	}
	f, err := d.b.fx.Create(effect.LogCreate, filepath.Join(filepath.Dir(d.host.log), "metrics-last.txt"))
	if err != nil {
		return
	}
	_, err = io.Copy(f, io.LimitReader(resp.Body, 32<<20))
	_ = errors.Join(err, f.Close())
}

func gone(err error) bool { return cerrdefs.IsNotFound(err) }
