package ssh

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
)

// The details of a ref: what finds the host again, and these.
const (
	detailDir  = "dir"  // the folder of its first unit
	detailPID  = "pid"  // pid@start of its first process
	detailBoot = "boot" // of the host
)

const (
	startTimeout = time.Minute
	// settle is how long the end of a pod may take beyond its grace. It takes eight
	// looks at the processes of the host, each of which may last seconds on a busy one.
	settle = time.Minute
	// late is how long a folder is looked for after a start whose answer was lost:
	// what has arrived as a whole is at work already.
	late = 2 * time.Second
)

// units is the [provision.Provider] of servers on the host, one for each replica,
// each with a folder below the workdir: see host.sh.
type units struct {
	b       *Backend
	workdir string
}

var (
	_ provision.Provider  = units{}
	_ provision.Forbidder = units{}
	_ provision.Inspector = units{}
	_ provision.Holder    = units{}
	_ provision.Refuser   = units{}
)

// Hold opens the connection that all calls about a deployment share.
func (p units) Hold(ctx context.Context, pod string) (release func(), err error) {
	_, release, err = p.b.hold(ctx, pod)
	return release, err
}

// Allocate looks at the host and chooses ports.
func (p units) Allocate(ctx context.Context, spec backends.Spec, pod backends.Name) (provision.Allocation, error) {
	l, release, err := p.b.hold(ctx, pod.String())
	if err != nil {
		return provision.Allocation{}, err
	}
	s, err := l.survey(ctx, p.workdir)
	if err == nil {
		a := provision.Allocation{At: p.b.where(), Close: release}
		if a.Units, err = s.units(p.b, spec, pod); err == nil {
			return a, nil
		}
	}
	release()
	return provision.Allocation{}, err
}

// Refuse implements [provision.Refuser].
func (p units) Refuse(u *provision.Unit) error {
	if len(u.Replicas[0].Role.CPUs) > 0 {
		return fmt.Errorf("%w: an SSH host does not pin to CPUs", backends.ErrSpec)
	}
	_, err := p.script(u)
	return err
}

// Create starts a unit. It is never cut off by ctx: what it has done would be
// unknown.
func (p units) Create(ctx context.Context, u *provision.Unit) (provision.Instance, error) {
	var none provision.Instance
	call, err := p.script(u)
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), startTimeout,
		fmt.Errorf("the host did not start it within %v", startTimeout))
	defer cancel()
	l, release, err := p.b.hold(ctx, u.Pod.String())
	if err != nil {
		return none, err
	}
	defer release()
	var out []byte
	err = p.b.fx.Call(ctx, effect.SSHStart, func(ctx context.Context) (err error) {
		out, err = l.once(ctx, call)
		return err
	})
	if err == nil {
		s := parseSighting(out)
		i := p.instance(u.Name, s.units[u.Name], s.home)
		i.Since = time.Now().UTC()
		return i, nil
	}
	f := asFailure(err)
	err = fmt.Errorf("start on %s: %w", p.b.address(), err)
	switch {
	case f == nil:
		return none, fmt.Errorf("%w: %w", provision.ErrUnsure, err)
	case f.status == exitPort && drawn(u.Replicas[0].Role):
		return none, fmt.Errorf("%w: %w", provision.ErrTaken, err)
	case f.status == exitPort, f.status == exitTaken:
		return none, err
	default: // its folder is there
		return p.instance(u.Name, nil, ""), err
	}
}

// script returns the call that starts a unit. Every secret of it is in there, and goes
// to the host's environment alone.
func (p units) script(u *provision.Unit) (string, error) {
	r := u.Replicas[0]
	for _, a := range r.Argv {
		if err := text("an argument", a); err != nil {
			return "", err
		}
	}
	// sweep's own variables come after the setup, which has no use for them.
	env, own := maps.Clone(r.Env), map[string]string{}
	for name, value := range env {
		if strings.HasPrefix(name, "SWEEP_") {
			own[name] = value
			delete(env, name)
		}
	}
	theirs, err := exports(env)
	if err != nil {
		return "", err
	}
	ours, err := exports(own)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	dir := `"$HOME"`
	if r.Role.Dir != "" {
		dir = folder(r.Role.Dir)
	}
	fmt.Fprintf(&b, "sw_process() {\ncd -- %s || sw_fail %d 'its folder is not there'\n", dir, exitSpec)
	b.WriteString(theirs)
	if p.b.c.Setup != "" {
		fmt.Fprintf(&b, "eval %s >&2 || sw_fail %d 'setup failed'\n", quote(p.b.c.Setup), exitSpec)
	}
	fmt.Fprintf(&b, "command -v -- %s >/dev/null 2>&1 || sw_fail %d %s\n", quote(r.Command[0]), exitSpec, quote("there is no command "+r.Command[0]))
	b.WriteString(ours)
	fmt.Fprintf(&b, "sw_exec %s\n}\n", words(r.Argv...))

	var marks []string
	for _, name := range slices.Sorted(maps.Keys(u.Marks)) {
		marks = append(marks, name+"="+u.Marks[name])
	}
	ports := []string{strconv.Itoa(r.Place.Port)}
	for _, port := range slices.Sorted(maps.Values(r.Place.Ports)) {
		ports = append(ports, strconv.Itoa(port))
	}
	if r.Place.Agent != 0 {
		ports = append(ports, strconv.Itoa(r.Place.Agent))
	}
	fmt.Fprintf(&b, "sw_start %s %s %s %s", folder(p.workdir), quote(u.Name), quote(strings.Join(marks, "\n")), words(ports...))
	return b.String(), nil
}

// instance returns a unit as the host has it. f is nil if nothing of it was seen.
func (p units) instance(name string, f *found, home string) provision.Instance {
	i := provision.Instance{ID: name + "@" + p.b.address(), Unit: name, Status: "ended", Details: p.b.where()}
	if f == nil {
		return i
	}
	if i.Marks = f.marks; f.live {
		i.Running, i.Status = true, "running"
	}
	if home != "" && f.folder {
		i.Details[detailDir] = home + "/" + name
	}
	if f.process != "" {
		i.Details[detailPID], i.Details[detailBoot] = f.process, f.boot
	}
	return i
}

// Find finds units by their folders and their processes. In a list of all are
// those alone that have a process: of any other there is nothing but a log.
func (p units) Find(ctx context.Context, pod string) ([]provision.Instance, error) {
	prefix := "sw-"
	if pod != "" {
		if _, ok := backends.ParseName(pod); !ok {
			return nil, fmt.Errorf("%q does not name a pod: %w", pod, backends.ErrNotFound)
		}
		prefix = pod
	}
	l, release, err := p.b.hold(ctx, pod)
	if err != nil {
		return nil, err
	}
	defer release()
	out, err := l.read(ctx, "sw_look "+folder(p.workdir)+" "+quote(prefix))
	if err != nil {
		return nil, err
	}
	s := parseSighting(out)
	var all []provision.Instance
	for name, f := range s.units {
		if of, _, _ := strings.Cut(name, "."); pod != "" && of != pod || !f.live && (pod == "" || f.gone && f.marks == nil) {
			continue
		}
		all = append(all, p.instance(name, f, s.home))
	}
	return all, nil
}

// Forbid implements [provision.Forbidder].
func (p units) Forbid(ctx context.Context, pod string) error {
	if _, ok := backends.ParseName(pod); !ok {
		return fmt.Errorf("%q does not name a pod: %w", pod, backends.ErrNotFound)
	}
	l, release, err := p.b.hold(ctx, pod)
	if err != nil {
		return err
	}
	defer release()
	_, err = l.repeat(ctx, effect.SSHStop, "sw_forbid "+folder(p.workdir)+" "+quote(pod))
	return err
}

// Inspect implements [provision.Inspector] with the environment of a unit's first
// process. Secrets are in no file: they are there alone.
func (p units) Inspect(ctx context.Context, i provision.Instance) ([]map[string]string, error) {
	l, release, err := p.b.hold(ctx, podOf(i.Unit))
	if err != nil {
		return nil, err
	}
	defer release()
	out, err := l.read(ctx, "sw_environ "+folder(p.workdir)+" "+quote(i.Unit))
	if f := asFailure(err); f != nil && f.status == exitNone {
		return nil, fmt.Errorf("%w: %w", backends.ErrNotFound, err)
	}
	if err != nil {
		return nil, err
	}
	env := map[string]string{}
	for v := range strings.SplitSeq(string(out), "\x00") {
		if name, value, ok := strings.Cut(v, "="); ok {
			env[name] = value
		}
	}
	return []map[string]string{env}, nil
}

func podOf(unit string) string {
	pod, _, _ := strings.Cut(unit, ".")
	return pod
}

// shortPause is between two looks at a unit that ends.
const shortPause = 50 * time.Millisecond

// Delete ends every process of a unit, sees that there is none in two looks, and
// removes its folder. SIGTERM first; SIGKILL when the grace or ctx is over.
func (p units) Delete(ctx context.Context, i provision.Instance, grace time.Duration, ended func(context.Context)) error {
	if !isUnit(i.Unit) {
		return fmt.Errorf("%q does not name a pod: %w", i.ID, backends.ErrNotFound)
	}
	grace = max(grace, 2*time.Second) // of one that did not say
	hurried := ctx                    // over when there is no time left to ask nicely
	l, release, err := p.b.hold(ctx, podOf(i.Unit))
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), grace+settle,
		fmt.Errorf("its processes are still there after SIGKILL, or the host does not answer (%v)", grace+settle))
	defer cancel()
	defer context.AfterFunc(hurried, func() {
		time.AfterFunc(10*time.Second, cancel)
	})()
	// The bootstrap needs a moment beyond the grace that it gives.
	final := time.Now().Add(grace + 3*time.Second)
	absent, asked, removed := 0, false, false
	var known []string // those that lose their parents are still the unit's
	for pause := shortPause; ; pause = min(2*pause, 10*shortPause) {
		out, err := l.read(ctx, "sw_members "+words(append([]string{i.Unit}, known...)...))
		if err != nil {
			return err
		}
		if known = members(out); len(known) == 0 {
			pause = shortPause
		}
		switch {
		case len(known) > 0:
			absent = 0
			over := hurried.Err() != nil || time.Now().After(final)
			if asked && !over {
				break
			}
			call := "sw_ask " + quote(i.Unit)
			if over {
				call = "sw_kill " + words(append([]string{i.Unit}, known...)...)
			}
			if _, err := l.repeat(ctx, effect.SSHStop, call); err != nil {
				return err
			}
			asked = true
		case absent < 1:
			absent++
		case !removed:
			if ended != nil {
				ended(ctx)
				ended = nil
			}
			if _, err := l.repeat(ctx, effect.SSHStop, "sw_remove "+folder(p.workdir)+" "+quote(i.Unit)); err != nil {
				if f := asFailure(err); f == nil || f.status != exitAlive {
					return err
				}
				absent = 0
				break
			}
			// A process that was started since the last look has found its
			// folder gone, or shows up.
			removed, absent = true, 0
		default:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
