package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/ending"
)

// Details of a ref of a pod inside somebody else's container.
const (
	detailInside = "inside" // the container's id
	detailGrace  = "grace"
	detailPorts  = "ports" // known to be used, separated by commas
)

// glob makes a regular expression of a pattern in which * is anything.
func glob(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`^` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `$`)
}

// matches says whether a running container is the one that is meant.
func (i Inside) matches(c container.Summary) bool {
	if i.Image != "" && !glob(i.Image).MatchString(c.Image) {
		return false
	}
	if i.Name != "" && !slices.ContainsFunc(c.Names, func(n string) bool { return glob(i.Name).MatchString(strings.TrimPrefix(n, "/")) }) {
		return false
	}
	if i.Label != "" {
		key, want, valued := strings.Cut(i.Label, "=")
		value, ok := c.Labels[key]
		if !ok || valued && value != want {
			return false
		}
	}
	return true
}

func (i Inside) String() string {
	var parts []string
	for _, p := range [][2]string{{"image", i.Image}, {"label", i.Label}, {"name", i.Name}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+p[1])
		}
	}
	return strings.Join(parts, " and ")
}

// choose finds the one container that is meant.
func (i Inside) choose(running []container.Summary) (container.Summary, error) {
	var found []container.Summary
	var names []string
	for _, c := range running {
		if i.matches(c) {
			found = append(found, c)
			names = append(names, strings.TrimPrefix(firstName(c), "/"))
		}
	}
	switch len(found) {
	case 0:
		return container.Summary{}, fmt.Errorf("no running container has %s: %w", i, backends.ErrNotFound)
	case 1:
		return found[0], nil
	}
	slices.Sort(names)
	return container.Summary{}, fmt.Errorf("%w: %d running containers have %s (%s): say more of the one that is meant",
		backends.ErrSpec, len(found), i, strings.Join(names, ", "))
}

func (b *Backend) chooseInside(ctx context.Context) (container.Summary, error) {
	var running []container.Summary
	err := b.call(ctx, effect.DockerRead, func(ctx context.Context) error {
		res, err := b.api.ContainerList(ctx, client.ContainerListOptions{})
		running = res.Items
		return err
	})
	if err != nil {
		return container.Summary{}, fmt.Errorf("list containers: %w", err)
	}
	return b.config.Inside.choose(running)
}

// launchInside starts the replicas of all roles in a container that runs already,
// each in a session of its own under the bootstrap, with its log in a file there.
func (b *Backend) launchInside(ctx context.Context, spec backends.Spec, l backends.Ledger) (_ backends.Deployment, err error) {
	found, err := b.chooseInside(ctx)
	if err != nil {
		return nil, err
	}
	c, err := b.inspect(ctx, found.ID)
	if err != nil {
		return nil, fmt.Errorf("container %s: %w", found.ID, err)
	}
	before, err := b.look(ctx, c.ID, true)
	if err != nil {
		return nil, err
	}
	if spec.Expires.IsZero() {
		spec.Expires = time.Now().Add(defaultLife)
	}
	name := backends.NewName(spec.Owner, spec.RunID, spec.Expires)
	replicas, err := b.insideReplicas(spec, name.String(), &insidePlace{
		id: c.ID, name: strings.TrimPrefix(c.Name, "/"), network: reachOf(c), seen: before,
	})
	if err != nil {
		return nil, err
	}
	img, err := b.inspectImage(ctx, c.Image)
	if err != nil {
		return nil, err
	}
	if named, err := b.inspectImage(ctx, found.Image); err == nil && named.id == img.id {
		img = named // by the name that it was started by
	}
	d := &insideDeployment{
		b: b, spec: spec, name: name.String(), container: c.ID, replicas: replicas,
		oom: c.State != nil && c.State.OOMKilled, Ending: ending.New(),
	}
	if b.limits.ready != nil {
		d.line = &lineWatch{pattern: b.limits.ready, found: make(chan struct{})}
	}
	var ports []string
	for _, n := range d.ports() {
		ports = append(ports, strconv.Itoa(n))
	}
	d.terms = backends.Terms{ImageDigest: img.digest, Ref: backends.Ref{
		Kind: Kind, RunID: spec.RunID, Pod: spec.Pod, Name: name.String(),
		ID: c.ID[:min(12, len(c.ID))] + "/" + name.String(),
		Details: map[string]string{
			atHost: b.api.DaemonHost(), detailInside: c.ID, detailGrace: spec.Grace.String(), detailPorts: strings.Join(ports, ","),
		},
	}}

	la := &launch{b: b, ledger: l, spec: spec, name: name, d: &deployment{b: b, terms: d.terms}}
	if err := la.begin(ctx, map[string]string{detailInside: c.ID}); err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			return
		}
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), spec.Grace+releasePatience)
		defer cancel()
		if stop := d.Stop(end); stop != nil {
			err = errors.Join(err, stop)
			return
		}
		err = errors.Join(err, la.record(end, backends.Arrow{State: backends.Gone}))
	}()
	for i, r := range d.replicas {
		if err := d.start(ctx, r); err != nil {
			return nil, fmt.Errorf("%s: %w", r.label(), err)
		}
		if i == 0 {
			d.terms.Since = time.Now().UTC()
			ref := d.terms.Ref
			ref.Details = maps.Clone(ref.Details)
			if err := la.record(ctx, backends.Arrow{State: backends.Created, Ref: &ref}); err != nil {
				return nil, err
			}
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if r.address.Replica == r.role.Replicas-1 {
			if err := r.role.AwaitStarted(ctx, d); err != nil {
				return nil, err
			}
		}
	}
	return d, d.ready(ctx)
}

// listInside finds the pods that sweep has started in the container.
func (b *Backend) listInside(ctx context.Context, owner string) ([]backends.Listed, error) {
	c, err := b.chooseInside(ctx)
	if err != nil {
		return nil, err
	}
	s, err := b.look(ctx, c.ID, false)
	if err != nil {
		return nil, err
	}
	var pods []backends.Listed
	for _, pid := range slices.Sorted(maps.Keys(s.processes)) {
		env := s.processes[pid].environ
		name, ok := backends.ParseName(env[nameVar])
		whose := env[backends.MarkOwner]
		if !ok || name.Owner != backends.OwnerTag(whose) || owner != "" && owner != whose ||
			slices.ContainsFunc(pods, func(l backends.Listed) bool { return l.Name == name.String() }) {
			continue
		}
		pods = append(pods, backends.Listed{
			Ref: backends.Ref{
				Kind: Kind, RunID: env[backends.MarkRun], Pod: env[backends.MarkPod], Name: name.String(),
				ID:      c.ID[:min(12, len(c.ID))] + "/" + name.String(),
				Details: map[string]string{atHost: b.api.DaemonHost(), detailInside: c.ID},
			},
			Owner: whose, Status: "running", Expires: name.Expires,
		})
	}
	return pods, nil
}

// terminateInside ends what a pod has left in a container. A container that
// does not run has ended it.
func (b *Backend) terminateInside(ctx context.Context, ref backends.Ref) error {
	if _, ok := backends.ParseName(ref.Name); !ok {
		return fmt.Errorf("pod %s: %q is no name of a pod: %w", ref.Pod, ref.Name, backends.ErrNotFound)
	}
	grace, _ := time.ParseDuration(ref.Details[detailGrace]) // 0 where it is not known
	var ports []int
	for text := range strings.SplitSeq(ref.Details[detailPorts], ",") {
		if n, err := strconv.Atoi(text); err == nil {
			ports = append(ports, n)
		}
	}
	// A start that was cut short may still be on its way through the daemon.
	for end := time.Now().Add(lookPatience / 4); ; {
		if err := b.endInside(ctx, ref.Details[detailInside], ref.Name, grace, ports); err != nil {
			return fmt.Errorf("pod %s: %w", ref.Pod, err)
		}
		if ref.ID != "" || time.Now().After(end) {
			b.tidyInside(ctx, ref.Details[detailInside], ref.Name)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("pod %s: %w", ref.Pod, context.Cause(ctx))
		case <-time.After(5 * lookEvery):
		}
	}
}

// endInside ends exactly the processes of a pod in a container, and returns
// when two successive looks find none of them and nobody on the ports that
// they had. The first of them in age is the bootstrap, which ends the engine
// politely.
func (b *Backend) endInside(ctx context.Context, id, name string, grace time.Duration, ports []int) error {
	kill := time.Now().Add(grace + 2*time.Second)
	asked, absent := false, 0
	for {
		c, err := b.inspect(ctx, id)
		if gone(err) || err == nil && (c.State == nil || !c.State.Running) {
			return nil
		}
		s, err := b.look(ctx, id, false)
		if err != nil {
			if c, again := b.inspect(ctx, id); gone(again) || again == nil && (c.State == nil || !c.State.Running) {
				return nil
			}
			return err
		}
		mine := s.of(name)
		// Who only reads the log for us ends by itself, but not at once.
		readers := !slices.ContainsFunc(mine, func(p *insideProcess) bool { return !p.follows })
		for _, p := range s.ports(mine) {
			if !slices.Contains(ports, p) {
				ports = append(ports, p)
			}
		}
		switch {
		case len(mine) == 0 && s.taken(ports) == 0:
			if absent++; absent == 2 {
				return nil
			}
			continue
		case len(mine) == 0 && time.Now().After(kill.Add(5*time.Second)):
			all, err := b.look(ctx, id, true)
			if err != nil {
				return err
			}
			return fmt.Errorf("port %d is still taken, by %s", s.taken(ports), all.holder(s.taken(ports)))
		case len(mine) > 0 && !readers && !asked:
			asked = true
			err = b.signal(ctx, id, "TERM", leaders(mine))
		case readers || time.Now().After(kill):
			err = b.signal(ctx, id, "KILL", mine)
		}
		if err != nil {
			return err
		}
		absent = 0
		select {
		case <-ctx.Done():
			return fmt.Errorf("its processes are not seen to be gone: %w", context.Cause(ctx))
		case <-time.After(2 * lookEvery):
		}
	}
}

// tidyScript removes what a pod has written into a container: its logs, and the
// folders of its bootstraps.
const tidyScript = `
[ -n "$1" ] || exit 1
for d in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm; do
	rm -rf "$d/sweep-$1".* "$d/.sweep-$1".*
done
`

// tidyInside removes the files of a pod that has ended; any that stay harm nobody.
func (b *Backend) tidyInside(ctx context.Context, id, name string) {
	_, _ = b.exec(ctx, id, client.ExecCreateOptions{User: b.config.User, Cmd: []string{"/bin/sh", "-c", tidyScript, "sweep-tidy", name}})
}

// leaders are those that no other of them has started.
func leaders(processes []*insideProcess) []*insideProcess {
	return slices.DeleteFunc(slices.Clone(processes), func(p *insideProcess) bool {
		return slices.ContainsFunc(processes, func(q *insideProcess) bool { return q.pid == p.parent })
	})
}

// A lineWatch closes found when a whole line that matches has been written.
type lineWatch struct {
	pattern *regexp.Regexp
	once    sync.Once
	found   chan struct{}
	rest    []byte // of a line that is not complete
}

func (w *lineWatch) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, after, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			break
		}
		if w.pattern.Match(line) {
			w.once.Do(func() { close(w.found) })
		}
		w.rest = after
	}
	if len(w.rest) > 64<<10 { // not a line that anybody waits for
		w.rest = nil
	}
	return len(p), nil
}
