package ssh

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/internal/bootstrap"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/ending"
	"sweep.dev/sweep/internal/secret"
)

// The details of a ref: what [Backend.at] says, and these.
const (
	detailDir   = "dir"   // the pod's folder
	detailPIDs  = "pids"  // pid@start of each process
	detailBoot  = "boot"  // of the host
	detailGrace = "grace" // as a duration
)

const (
	startTimeout = time.Minute
	// settle is how long the end of a pod may take beyond its grace.
	settle = 20 * time.Second
	// portTries bounds launches for which somebody took a port in between.
	portTries = 4
)

// A survey is what a launch has to know of the host.
type survey struct {
	workdir string // absolute
	python  bool
	taken   map[int]bool
	below   int // ports from here on are the kernel's to give
}

func (l *link) survey(ctx context.Context) (survey, error) {
	out, err := l.read(ctx, "sw_survey "+folder(l.b.c.Workdir))
	if err != nil {
		return survey{}, err
	}
	s := survey{taken: map[int]bool{}, below: 32768}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch key {
		case "home":
			s.workdir = value
		case "has":
			s.python = s.python || value == "python3"
		case "used":
			if port, err := strconv.ParseUint(value, 16, 16); err == nil {
				s.taken[int(port)] = true
			}
		case "given":
			if port, err := strconv.Atoi(value); err == nil {
				s.taken[port] = true
			}
		case "range":
			if port, err := strconv.Atoi(value); err == nil && port > 1024 {
				s.below = port
			}
		}
	}
	if s.workdir == "" {
		return survey{}, fmt.Errorf("%s: survey says %.200q", l.b.address(), out)
	}
	return s, nil
}

// port chooses one that is free, below the range from which the kernel gives
// ports to outgoing connections.
func (s survey) port() (int, error) {
	first := 10000
	if s.below <= first+1000 {
		first = 1025
	}
	for range 1000 {
		if port := first + mathrand.IntN(s.below-first); !s.taken[port] {
			s.taken[port] = true
			return port, nil
		}
	}
	return 0, errors.New("no free port on the host")
}

// A job is one process of a pod, as it is to be started.
type job struct {
	role    backends.Role
	replica int
	port    int
	agent   int // its port; 0 where there is none
}

// Check implements [backends.Checker].
func (b *Backend) Check(spec backends.Spec) error {
	if len(spec.Roles) == 0 {
		return fmt.Errorf("%w: no role", backends.ErrSpec)
	}
	for name, value := range backends.Marks(spec) {
		if strings.ContainsAny(value, "\n\x00") {
			return fmt.Errorf("%w: %s has a line break", backends.ErrSpec, name)
		}
	}
	for _, role := range spec.Roles {
		switch {
		case role.Argv == nil || role.Replicas < 1:
			return fmt.Errorf("%w: role %s has no command or no replica", backends.ErrSpec, role.Name)
		case role.Port != 0 && role.Replicas > 1:
			return fmt.Errorf("%w: the %d replicas of %s cannot all have port %d of one host", backends.ErrSpec, role.Replicas, role.Name, role.Port)
		case len(role.CPUs) > 0:
			return fmt.Errorf("%w: role %s: an SSH host does not pin to CPUs", backends.ErrSpec, role.Name)
		}
		if _, err := exports(role.Env); err != nil {
			return fmt.Errorf("role %s: %w", role.Name, err)
		}
	}
	if err := backends.CheckPlain(spec); err != nil {
		return err
	}
	for _, role := range spec.Roles {
		extra, err := role.ExtraAt(b.listen(job{role: role, port: role.Port}, "NAME"))
		if err != nil {
			return err
		}
		if _, err := exports(extra.Env); err != nil {
			return fmt.Errorf("role %s: %w", role.Name, err)
		}
		if err := bootstrap.CheckFiles(extra.Files); err != nil {
			return fmt.Errorf("%w: %w", backends.ErrSpec, err)
		}
	}
	return nil
}

// listen is where a process under a name for its bootstrap will be.
func (b *Backend) listen(j job, name string) backends.Address {
	a := backends.Address{Host: loopback, Port: j.port, Replica: j.replica, Dir: bootstrap.FilesDir(name)}
	if b.direct() {
		a.Host = "0.0.0.0"
	}
	return a
}

// Launch implements [backends.Backend].
func (b *Backend) Launch(ctx context.Context, spec backends.Spec, ledger backends.Ledger) (_ backends.Deployment, err error) {
	if err := b.Check(spec); err != nil {
		return nil, err
	}
	switch {
	case spec.RunID == "" || spec.Pod == "":
		return nil, fmt.Errorf("%w: a pod needs a run and a name", backends.ErrSpec)
	case time.Until(spec.Expires) < time.Second:
		return nil, fmt.Errorf("%w: a pod on a host needs a time to end at, which is not %v", backends.ErrSpec, spec.Expires)
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
	for try := 1; ; try++ {
		d, err := b.launch(ctx, l, spec, ledger)
		if f := asFailure(err); f != nil && f.status == exitPort && try < portTries &&
			!slices.ContainsFunc(spec.Roles, func(r backends.Role) bool { return r.Port != 0 }) {
			continue // somebody was quicker; nothing was made
		}
		if err != nil {
			return nil, err
		}
		return d, nil
	}
}

// launch starts a pod under a new name.
func (b *Backend) launch(ctx context.Context, l *link, spec backends.Spec, ledger backends.Ledger) (_ *deployment, err error) {
	s, err := l.survey(ctx)
	if err != nil {
		return nil, err
	}
	name := backends.NewName(spec.Owner, spec.RunID, spec.Expires).String()
	d := &deployment{
		b: b, link: l, spec: spec, workdir: s.workdir, since: time.Now(),
		ref:    b.ref(spec, name, s.workdir),
		Ending: ending.New(),
	}
	d.token = newSecret()
	if b.direct() {
		d.key = newSecret()
	}
	call, err := d.script(s)
	if err != nil {
		return nil, err
	}

	arrow := backends.Arrow{Pod: spec.Pod, State: backends.Intended, Kind: Kind, Name: name, At: b.at(), Expires: &spec.Expires}
	if err := ledger.Record(ctx, arrow); err != nil {
		return nil, fmt.Errorf("record of pod %s: %w", spec.Pod, err)
	}
	// From here on the ledger owes it. gone is what certainly was never made.
	gone := func(err error) error {
		if record := ledger.Record(context.WithoutCancel(ctx), backends.Arrow{Pod: spec.Pod, State: backends.Gone}); record != nil {
			return errors.Join(err, fmt.Errorf("pod %s: %w", spec.Pod, record))
		}
		return err
	}
	release := func(err error, unclear bool) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), spec.Grace+settle)
		defer cancel()
		if end := l.end(ctx, s.workdir, name, spec.Grace, unclear, nil); end != nil {
			return errors.Join(err, fmt.Errorf("pod %s: %w", name, end))
		}
		return gone(err)
	}
	if ctx.Err() != nil {
		return nil, gone(context.Cause(ctx))
	}
	if err := ledger.Record(ctx, backends.Arrow{Pod: spec.Pod, State: backends.Sent}); err != nil {
		return nil, gone(fmt.Errorf("record of pod %s: %w", spec.Pod, err))
	}
	// A start is never cut off by ctx: what it has done would be unknown.
	started, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), startTimeout,
		fmt.Errorf("the host did not start it within %v", startTimeout))
	defer cancel()
	seen, err := d.start(started, call)
	switch f := asFailure(err); {
	case f != nil && f.status == exitPort:
		return nil, gone(err)
	case err != nil:
		return nil, release(fmt.Errorf("start on %s: %w", b.address(), err), f == nil)
	case ctx.Err() != nil:
		return nil, release(context.Cause(ctx), false)
	}
	d.saw(seen)
	if err := ledger.Record(ctx, backends.Arrow{Pod: spec.Pod, State: backends.Created, Ref: &d.ref}); err != nil {
		return nil, release(fmt.Errorf("record of pod %s: %w", spec.Pod, err), false)
	}
	if err := d.begin(ctx); err != nil {
		return nil, release(err, false)
	}
	return d, nil
}

// start sends the one call that starts everything, and looks for its work where
// the answer was lost.
func (d *deployment) start(ctx context.Context, call string) (sighting, error) {
	var out []byte
	err := d.b.fx.Call(ctx, effect.SSHStart, func(ctx context.Context) (err error) {
		var lost bool
		out, lost, err = d.link.once(ctx, call)
		if !lost {
			return err
		}
		// It is there as a whole, on its way, or was never begun: a shell does
		// nothing before the last line of its script.
		for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
			seen, look := d.link.look(ctx, d.workdir, d.ref.Name)
			if look != nil {
				return errors.Join(err, look)
			}
			pod := seen.pod(d.ref.Name)
			switch {
			case pod == nil:
				return err
			case pod.started:
				out = nil
				return nil
			}
			select {
			case <-ctx.Done():
				return errors.Join(err, context.Cause(ctx))
			case <-time.After(pause):
			}
		}
	})
	if err != nil {
		return sighting{}, err
	}
	if out == nil {
		return d.link.look(ctx, d.workdir, d.ref.Name)
	}
	return parseSighting(out), nil
}

// script is the call that starts the pod. Every secret of it is in there, and
// goes to the host's environment alone.
func (d *deployment) script(s survey) (string, error) {
	var ports []string
	var body strings.Builder
	for _, role := range d.spec.Roles {
		for n := range role.Replicas {
			j := job{role: role, replica: n, port: role.Port}
			var err error
			if j.port == 0 {
				if j.port, err = s.port(); err != nil {
					return "", err
				}
			}
			ports = append(ports, strconv.Itoa(j.port))
			if s.python {
				if j.agent, err = s.port(); err != nil {
					return "", err
				}
				ports = append(ports, strconv.Itoa(j.agent))
			}
			text, err := d.process(len(d.replicas), j)
			if err != nil {
				return "", fmt.Errorf("%s: %w", role.Name, err)
			}
			fmt.Fprintf(&body, "%d)\n%s;;\n", len(d.replicas), text)
			d.add(j)
		}
	}
	marks := backends.Marks(d.spec)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(marks)) {
		lines = append(lines, name+"="+marks[name])
	}
	return fmt.Sprintf("sw_process() {\ncase $1 in\n%sesac\n}\nsw_start %s %s %s %d %s", body.String(),
		quote(d.workdir), quote(d.ref.Name), quote(strings.Join(lines, "\n")), len(d.replicas), words(ports...)), nil
}

// process are the lines that start process n.
func (d *deployment) process(n int, j job) (string, error) {
	name := d.ref.Name + "-" + strconv.Itoa(n)
	address := d.b.listen(j, name)
	argv, err := j.role.Argv(address)
	if err != nil {
		return "", fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	extra, err := j.role.ExtraAt(address)
	if err != nil {
		return "", err
	}
	for _, a := range argv {
		if err := text("an argument", a); err != nil {
			return "", err
		}
	}
	o := bootstrap.Options{
		Name: name, Argv: argv, Files: extra.Files,
		Lifetime: time.Until(d.spec.Expires), Expires: d.spec.Expires, Grace: d.spec.Grace,
	}
	if j.agent != 0 {
		// Its output goes to the pod's own log; a second file would only grow.
		o.AgentPort, o.AgentHost, o.Token, o.LogPath = j.agent, loopback, d.token, "/dev/null"
		o.Heartbeat = d.b.c.Heartbeat
	}
	if err := o.Validate(); err != nil {
		return "", fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	command, own := bootstrap.Command(o)

	env := maps.Clone(d.b.env)
	maps.Copy(env, extra.Env)
	maps.Copy(env, j.role.Env)
	if j.role.KeyEnv != "" && !d.key.IsZero() {
		env[j.role.KeyEnv] = d.key.Reveal()
	}
	theirs, err := exports(env)
	if err != nil {
		return "", err
	}
	maps.Copy(own, backends.Marks(d.spec))
	own[backends.MarkServer] = backends.ServerMark(d.spec, j.role, address)
	ours, err := exports(own)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	dir := `"$HOME"`
	if j.role.Dir != "" {
		dir = folder(j.role.Dir)
	}
	fmt.Fprintf(&b, "cd -- %s || sw_fail %d 'its folder is not there'\n", dir, exitSpec)
	b.WriteString(theirs)
	if d.b.c.Setup != "" {
		fmt.Fprintf(&b, "eval %s >&2 || sw_fail %d 'setup failed'\n", quote(d.b.c.Setup), exitSpec)
	}
	fmt.Fprintf(&b, "command -v -- %s >/dev/null 2>&1 || sw_fail %d %s\n", quote(argv[0]), exitSpec, quote("there is no command "+argv[0]))
	b.WriteString(ours)
	fmt.Fprintf(&b, "sw_exec %d %s\n", n, words(command...))
	return b.String(), nil
}

func (b *Backend) direct() bool { return b.c.Network == string(host.Direct) }

func (b *Backend) ref(spec backends.Spec, name, workdir string) backends.Ref {
	details := b.at()
	details[detailDir] = workdir + "/" + name
	details[detailGrace] = spec.Grace.String()
	return backends.Ref{
		Kind: Kind, RunID: spec.RunID, Pod: spec.Pod, ID: name + "@" + b.address(), Name: name, Details: details,
	}
}

// newSecret is what only the pod and we know.
func newSecret() secret.String { return secret.New("${SWEEP_POD_KEY}", rand.Text()) }

const loopback = "127.0.0.1"

// url is where a port of the host is reached from here.
func (b *Backend) url(port int) string { return b.urlOf(port, b.direct()) }

// urlOf is [Backend.url] for a pod that a configuration with or without a tunnel
// has started.
func (b *Backend) urlOf(port int, direct bool) string {
	name := loopback
	if direct {
		name = b.c.Host
	}
	return "http://" + net.JoinHostPort(name, strconv.Itoa(port))
}
