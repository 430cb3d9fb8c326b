package local

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/guard"
	"sweep.dev/sweep/internal/procfs"
)

// settle is how long the end of what another process of ours has left can take
// beyond its grace.
const settle = 5 * time.Second

// Find implements [provision.Provider] by the marks that processes carry.
func (p processes) Find(ctx context.Context, pod string) ([]provision.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	var found []provision.Instance
	for _, process := range procfs.With(map[string]string{MarkBackend: p.m.Kind}) {
		environ := procfs.ReadEnviron(process.PID)
		marks := map[string]string{}
		for _, mark := range []string{backends.MarkOwner, backends.MarkRun, backends.MarkPod, backends.MarkDigest} {
			marks[mark], _ = environ.Lookup(mark)
		}
		unit, _ := environ.Lookup(markUnit)
		name, _, _ := strings.Cut(unit, ".")
		switch {
		case marks[backends.MarkRun] == "" || marks[backends.MarkPod] == "" || unit == "":
			continue // ended in between, or not ours
		case pod != "" && name != pod || slices.ContainsFunc(found, func(i provision.Instance) bool { return i.Unit == unit }):
			continue
		}
		found = append(found, provision.Instance{
			ID: marks[backends.MarkRun] + "/" + marks[backends.MarkPod], Unit: unit, Marks: marks, Status: "running", Running: true,
		})
	}
	return found, nil
}

// Delete implements [provision.Provider]: by its guard, where we have started it,
// else by its marks.
func (p processes) Delete(ctx context.Context, i provision.Instance, grace time.Duration, ended func(context.Context)) error {
	err := p.end(ctx, i, grace)
	if err == nil && ended != nil {
		ended(ctx)
	}
	return err
}

func (p processes) end(ctx context.Context, i provision.Instance, grace time.Duration) error {
	if process, ok := i.Data.(*guard.Process); ok {
		return process.Stop(ctx)
	}
	if i.Unit == "" {
		return nil // of which there is no process any more
	}
	return p.m.end(ctx, leftover{MarkBackend: p.m.Kind, markUnit: i.Unit}, max(grace, 2*time.Second)+time.Second)
}

// end returns when nothing is left.
func (m *Machine) end(ctx context.Context, l leftover, grace time.Duration) error {
	final := time.Now().Add(grace)
	giveUp := final.Add(5 * time.Second)
	asked := map[int]bool{}
	for {
		guards, others := l.find()
		switch {
		case len(guards)+len(others) == 0:
			return nil
		case ctx.Err() != nil && !final.IsZero():
			final, giveUp = time.Time{}, time.Now().Add(2*time.Second)
		case time.Now().After(giveUp):
			return errors.Join(errors.New("its processes are still there after SIGKILL"), context.Cause(ctx))
		}
		for _, p := range guards {
			if !asked[p.PID] {
				asked[p.PID] = true
				if err := m.signal(p, effect.KillGuard, guard.EndSignal); err != nil {
					return err
				}
			}
		}
		// A guard ends when it has no process left to guard, so it is not killed
		// before the others are gone. Processes without a guard get no grace:
		// nothing waits for their end.
		var victims []procfs.Process
		if len(guards) == 0 || time.Now().After(final) {
			if victims = others; len(others) == 0 {
				victims = guards
			}
		}
		for _, p := range victims {
			if err := m.signal(p, effect.KillServer, syscall.SIGKILL); err != nil {
				return err
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// signal signals p if its pid still means p.
func (m *Machine) signal(p procfs.Process, point effect.Point, sig syscall.Signal) error {
	if now, ok := procfs.Stat(p.PID); !ok || now.Start != p.Start {
		return nil
	}
	err := m.Effects.Kill(point, p.PID, sig)
	if _, fault := errors.AsType[*effect.Fault](err); fault {
		return err
	}
	return nil // gone, or seen again in the next round
}

// A leftover is the processes that carry certain marks, and those that they have
// started.
type leftover map[string]string

// find tells guards from those that they guard.
func (l leftover) find() (guards, others []procfs.Process) {
	all := procfs.With(l)
	seen := map[int]bool{}
	for len(all) > 0 {
		p := all[0]
		all = all[1:]
		if seen[p.PID] || p.PID == os.Getpid() { // never this process
			continue
		}
		seen[p.PID] = true
		if _, ok := procfs.ReadEnviron(p.PID).Lookup(guard.GuardVar); ok {
			guards = append(guards, p)
			for _, pid := range procfs.Descendants(p.PID) { // also those without marks
				if q, ok := procfs.Stat(pid); ok && q.Alive() {
					all = append(all, q)
				}
			}
			continue
		}
		others = append(others, p)
	}
	return guards, others
}
