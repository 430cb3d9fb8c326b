package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/bootstrap"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/ending"
	"sweep.dev/sweep/internal/secret"
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

// launchInside starts an engine in a container that runs already, in a session
// of its own under the bootstrap, with its log in a file there.
func (b *Backend) launchInside(ctx context.Context, spec backends.Spec, l backends.Ledger) (_ backends.Deployment, err error) {
	found, err := b.chooseInside(ctx)
	if err != nil {
		return nil, err
	}
	c, err := b.inspect(ctx, found.ID)
	if err != nil {
		return nil, fmt.Errorf("container %s: %w", found.ID, err)
	}
	role := spec.Roles[0]
	port := role.Port
	if port == 0 {
		port = defaultPort
	}
	network := reachOf(c)
	address := network.port(port)
	if address == "" {
		return nil, fmt.Errorf("%w: port %d of container %s cannot be reached: it is not published, and the container's own address is not one of a network of this machine; "+
			"publish it (docker run -p 127.0.0.1::%d), or choose a port that is", backends.ErrSpec, port, strings.TrimPrefix(c.Name, "/"), port)
	}
	before, err := b.look(ctx, c.ID, true)
	if err != nil {
		return nil, err
	}
	if len(before.listening[port]) > 0 {
		return nil, fmt.Errorf("%w: port %d of container %s is taken, by %s", backends.ErrSpec, port, strings.TrimPrefix(c.Name, "/"), before.holder(port))
	}
	img, err := b.inspectImage(ctx, c.Image)
	if err != nil {
		return nil, err
	}
	if named, err := b.inspectImage(ctx, found.Image); err == nil && named.id == img.id {
		img = named // by the name that it was started by
	}
	expires := spec.Expires
	if expires.IsZero() {
		expires = time.Now().Add(defaultLife)
	}
	spec.Expires = expires
	name := backends.NewName(spec.Owner, spec.RunID, expires)
	inside := backends.Address{Host: "0.0.0.0", Port: port, Dir: bootstrap.FilesDir(name.String())}
	argv, err := role.Argv(inside)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	extra, err := role.ExtraAt(inside)
	if err != nil {
		return nil, err
	}
	d := &insideDeployment{
		b: b, spec: spec, name: name.String(), container: c.ID, ports: []int{port},
		oom:  c.State != nil && c.State.OOMKilled,
		file: "/tmp/sweep-" + name.String() + ".log", Ending: ending.New(),
		host: &containerHost{b: b, id: c.ID, network: network, address: address, user: b.config.User},
	}
	if role.LogPath != nil {
		d.host.log = role.LogPath(0)
	}
	d.terms = backends.Terms{ImageDigest: img.digest, Ref: backends.Ref{
		Kind: Kind, RunID: spec.RunID, Pod: spec.Pod, Name: name.String(),
		ID: c.ID[:min(12, len(c.ID))] + "/" + name.String(),
		Details: map[string]string{
			atHost: b.api.DaemonHost(), detailInside: c.ID, detailGrace: spec.Grace.String(), detailPorts: strconv.Itoa(port),
		},
	}}
	options := bootstrap.Options{
		Name: name.String(), Argv: argv, Lifetime: time.Until(expires), Expires: expires,
		Grace: spec.Grace, LogPath: d.file, Files: extra.Files,
	}
	if b.config.DeadMan && b.config.Heartbeat > 0 {
		options.Heartbeat, options.AgentPort = b.config.Heartbeat, freePort(before, network)
		options.Token = secret.New("(the pod's own token)", rand.Text())
		if options.AgentPort != 0 {
			d.agent = bootstrap.NewAgent(nil, "http://"+network.port(options.AgentPort), options.Token)
		} else {
			options.Heartbeat = 0
		}
	}
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}

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
	if err := d.start(ctx, role, extra.Env, options); err != nil {
		return nil, err
	}
	ref := d.terms.Ref
	ref.Details = maps.Clone(ref.Details)
	if err := la.record(ctx, backends.Arrow{State: backends.Created, Ref: &ref}); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return d, d.ready(ctx)
}

// freePort is a port for the agent that nobody listens on and that can be
// reached; 0 where there is none. It is drawn, because the agent of a pod that
// was started a moment ago may not listen yet.
func freePort(s survey, r reach) int {
	for range 100 {
		port := 10_000 + mathrand.IntN(20_000)
		if len(s.listening[port]) == 0 && r.ip.IsValid() {
			return port
		}
	}
	return 0
}

// listInside finds the engines that sweep has started in the container.
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
