package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
)

// inside is the [provision.Provider] of servers in somebody else's container: a
// unit is one replica, in a session of its own under the bootstrap, with its log in
// a file there. Every process of it carries the unit's name.
type inside struct {
	b  *Backend
	id string // of the container; "" is the one that the configuration means
}

// insideLayer returns the layer over what runs inside a container.
func (b *Backend) insideLayer(id string) *provision.Layer {
	s := b.Settings
	s.Images, s.SharedDisk, s.Bootstrap = false, true, true
	s.LogTo = insideLog
	s.Late = lookPatience / 4 // a start that was cut short may still be on its way through the daemon
	return provision.New(s, inside{b, id})
}

// insideLog returns where the container has a unit's output.
func insideLog(unit string) string { return "/tmp/sweep-" + unit + ".log" }

// An insideDeployment is the processes started in a container. They are never kept:
// they end with their run.
type insideDeployment struct{ backends.Deployment }

// Terms implements [backends.Rental].
func (d insideDeployment) Terms() backends.Terms {
	if r, ok := d.Deployment.(backends.Rental); ok {
		return r.Terms()
	}
	return backends.Terms{}
}

// launchInside starts the replicas of all roles in a container that runs already.
func (b *Backend) launchInside(ctx context.Context, spec backends.Spec, l backends.Ledger) (backends.Deployment, error) {
	d, err := b.insideLayer("").Launch(ctx, spec, l)
	if err != nil {
		return nil, err
	}
	if err := b.config.Inside.ready(ctx, spec, d, b.limits.ready); err != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), spec.Grace+releasePatience)
		defer cancel()
		if stop := d.Stop(end); stop != nil {
			return nil, errors.Join(err, stop)
		}
		return nil, errors.Join(err, l.Record(end, backends.Transition{Pod: spec.Pod, State: backends.Gone}))
	}
	return insideDeployment{d}, nil
}

// place returns the container's id.
func (p inside) place(ctx context.Context) (string, error) {
	if p.id != "" {
		return p.id, nil
	}
	c, err := p.b.chooseInside(ctx)
	return c.ID, err
}

// Allocate finds the container and chooses ports in it.
func (p inside) Allocate(ctx context.Context, spec backends.Spec, pod backends.Name) (provision.Allocation, error) {
	var none provision.Allocation
	found, err := p.b.chooseInside(ctx)
	if err != nil {
		return none, err
	}
	c, err := p.b.inspect(ctx, found.ID)
	if err != nil {
		return none, fmt.Errorf("container %s: %w", found.ID, err)
	}
	before, err := p.b.look(ctx, c.ID, true)
	if err != nil {
		return none, err
	}
	img, err := p.b.inspectImage(ctx, c.Image)
	if err != nil {
		return none, err
	}
	if named, err := p.b.inspectImage(ctx, found.Image); err == nil && named.id == img.id {
		img = named // by the name that it was started by
	}
	units, err := p.b.insideUnits(spec, pod, &insidePlace{
		id: c.ID, name: strings.TrimPrefix(c.Name, "/"), network: reachOf(c), seen: before,
		oom: c.State != nil && c.State.OOMKilled, digest: img.digest,
	})
	return provision.Allocation{Units: units, At: map[string]string{detailInside: c.ID}}, err
}

// Create runs a replica under its bootstrap in the container. The answer may get
// lost; the processes carry the unit's name.
func (p inside) Create(ctx context.Context, u *provision.Unit) (provision.Instance, error) {
	r, place := u.Replicas[0], u.Data.(*insidePlace)
	env := maps.Clone(r.Env)
	env[nameVar] = u.Name
	request := client.ExecCreateOptions{User: p.b.config.User, WorkingDir: r.Role.Dir, Cmd: r.Argv}
	for _, k := range slices.Sorted(maps.Keys(env)) {
		request.Env = append(request.Env, k+"="+env[k])
	}
	i := provision.Instance{
		ID: place.id[:min(12, len(place.id))] + "/" + u.Name, ImageDigest: place.digest, Since: time.Now().UTC(),
		Data: &insideProgram{place: place, replica: r, host: p.hostOf(place, r)},
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerPatience)
	defer cancel()
	err := p.b.call(call, effect.DockerExec, func(ctx context.Context) error {
		made, err := p.b.api.ExecCreate(ctx, place.id, request)
		if err != nil {
			return err
		}
		i.Data.(*insideProgram).exec = made.ID
		_, err = p.b.api.ExecStart(ctx, made.ID, client.ExecStartOptions{Detach: true})
		return err
	})
	if err == nil {
		return i, nil
	}
	if impossible(err) {
		err = fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	// It may run all the same: what carries the name is ended.
	return i, fmt.Errorf("start in container %s: %w", place.id[:min(12, len(place.id))], err)
}

// Find finds what sweep has started in the container.
func (p inside) Find(ctx context.Context, pod string) ([]provision.Instance, error) {
	id, err := p.place(ctx)
	if err != nil {
		return nil, err
	}
	s, err := p.b.look(ctx, id, false)
	if err != nil {
		if p.b.down(ctx, id) {
			return nil, nil // a container that does not run has ended all
		}
		return nil, err
	}
	var found []provision.Instance
	for _, pid := range slices.Sorted(maps.Keys(s.processes)) {
		env := s.processes[pid].environ
		unit := env[nameVar]
		name, _, _ := strings.Cut(unit, ".")
		if _, ok := backends.ParseName(name); !ok || pod != "" && pod != name || env[followVar] != "" ||
			slices.ContainsFunc(found, func(i provision.Instance) bool { return i.Unit == unit }) {
			continue
		}
		marks := map[string]string{}
		for _, mark := range []string{backends.MarkOwner, backends.MarkRun, backends.MarkPod, backends.MarkDigest} {
			marks[mark] = env[mark]
		}
		found = append(found, provision.Instance{
			ID: id[:min(12, len(id))] + "/" + unit, Unit: unit, Marks: marks, Status: "running", Running: true,
			Details: map[string]string{detailInside: id},
		})
	}
	return found, nil
}

// down reports whether a container does not run.
func (b *Backend) down(ctx context.Context, id string) bool {
	c, err := b.inspect(ctx, id)
	return cerrdefs.IsNotFound(err) || err == nil && (c.State == nil || !c.State.Running)
}

// Delete ends exactly the processes of a unit, and returns when two successive
// looks find none of them and no listener on the ports that they had. The oldest
// of them is the bootstrap, which ends the engine politely. The container
// goes on.
func (p inside) Delete(ctx context.Context, i provision.Instance, grace time.Duration, ended func(context.Context)) error {
	id, err := p.place(ctx)
	if err != nil {
		return err
	}
	var ports []int
	if program, ok := i.Data.(*insideProgram); ok {
		last, cancel := context.WithTimeout(ctx, scrapePatience)
		program.scrape(last, p.b.fx)
		cancel()
		ports = program.ports()
	}
	if err := p.end(ctx, id, i.Unit, grace, ports); err != nil {
		return err
	}
	if ended != nil {
		ended(ctx)
	}
	p.tidy(ctx, id, i.Unit)
	return nil
}

func (p inside) end(ctx context.Context, id, unit string, grace time.Duration, ports []int) error {
	kill := time.Now().Add(grace + 2*time.Second)
	asked, absent := false, 0
	for {
		if p.b.down(ctx, id) {
			return nil
		}
		s, err := p.b.look(ctx, id, false)
		if err != nil {
			if p.b.down(ctx, id) {
				return nil
			}
			return err
		}
		mine := s.of(unit)
		// Who only reads the log for us ends by itself, but not at once.
		readers := !slices.ContainsFunc(mine, func(p *insideProcess) bool { return !p.follows })
		for _, p := range s.ports(mine) {
			if !slices.Contains(ports, p) {
				ports = append(ports, p)
			}
		}
		switch {
		case len(mine) == 0 && s.firstInUse(ports) == 0:
			if absent++; absent == 2 {
				return nil
			}
			continue
		case len(mine) == 0 && time.Now().After(kill.Add(5*time.Second)):
			all, err := p.b.look(ctx, id, true)
			if err != nil {
				return err
			}
			return fmt.Errorf("port %d is still taken, by %s", s.firstInUse(ports), all.holder(s.firstInUse(ports)))
		case len(mine) > 0 && !readers && !asked:
			asked = true
			err = p.b.signal(ctx, id, "TERM", leaders(mine))
		case readers || time.Now().After(kill):
			err = p.b.signal(ctx, id, "KILL", mine)
		}
		if err != nil {
			return err
		}
		absent = 0
		select {
		case <-ctx.Done():
			return fmt.Errorf("its processes are not confirmed gone: %w", context.Cause(ctx))
		case <-time.After(2 * lookEvery):
		}
	}
}

// tidyScript removes what a unit has written into a container: its log, and the
// folders of its bootstrap.
const tidyScript = `
[ -n "$1" ] || exit 1
rm -f "$2"
for d in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm; do
	rm -rf "$d/.sweep-$1" "$d/.sweep-$1.files"
done
`

// tidy removes the files of a unit that has ended; files that stay do no harm.
func (p inside) tidy(ctx context.Context, id, unit string) {
	_, _ = p.b.exec(ctx, id, client.ExecCreateOptions{User: p.b.config.User, Cmd: []string{"/bin/sh", "-c", tidyScript, "sweep-tidy", unit, insideLog(unit)}})
}

// leaders returns those that no other of them has started.
func leaders(processes []*insideProcess) []*insideProcess {
	return slices.DeleteFunc(slices.Clone(processes), func(p *insideProcess) bool {
		return slices.ContainsFunc(processes, func(q *insideProcess) bool { return q.pid == p.parent })
	})
}
