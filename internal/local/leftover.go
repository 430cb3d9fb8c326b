package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/guard"
	"sweep.dev/sweep/internal/procfs"
)

// List finds the pods of an owner, or of all, that have a living process, by the
// marks in their environment. Processes of other users of the machine cannot be
// seen.
func (m *Machine) List(ctx context.Context, owner string) ([]backends.Listed, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	marks := map[string]string{MarkBackend: m.Kind}
	if owner != "" {
		marks[MarkOwner] = owner
	}
	var pods []backends.Listed
	for _, p := range procfs.With(marks) {
		environ := procfs.ReadEnviron(p.PID)
		whose, _ := environ.Lookup(MarkOwner)
		run, _ := environ.Lookup(MarkRun)
		pod, _ := environ.Lookup(MarkPod)
		if run == "" || pod == "" {
			continue // ended in between, or not ours
		}
		ref := backends.Ref{
			Kind: m.Kind, RunID: run, Pod: pod, ID: run + "/" + pod,
			Details: map[string]string{detailBoot: procfs.BootID()},
		}
		if !slices.ContainsFunc(pods, func(l backends.Listed) bool { return l.ID == ref.ID }) {
			pods = append(pods, backends.Listed{Ref: ref, Owner: whose, Status: "running"})
		}
	}
	return pods, nil
}

// Terminate asks the guards of a pod to end it, and kills what is left when
// the pod's grace or ctx is over. It works for pods of this process and of any
// other of the same user.
func (m *Machine) Terminate(ctx context.Context, ref backends.Ref) error {
	if ref.Kind != m.Kind {
		return fmt.Errorf("pod %s is of backend %s, not %s: %w", ref.Pod, ref.Kind, m.Kind, backends.ErrNotFound)
	}
	run, pod, ok := strings.Cut(ref.ID, "/")
	if !ok || run == "" || pod == "" {
		return fmt.Errorf("ref %q does not name a pod: %w", ref.ID, backends.ErrNotFound)
	}
	boot := ref.Details[detailBoot]
	if boot != "" && boot != procfs.BootID() {
		return nil // ended with the boot
	}
	grace, _ := time.ParseDuration(ref.Details[detailGrace]) // 0 where it is not known
	err := m.end(ctx, leftover{
		marks: map[string]string{MarkBackend: m.Kind, MarkRun: run, MarkPod: pod},
		known: strings.Fields(ref.Details[detailProcesses]),
	}, max(grace, 2*time.Second)+time.Second)
	if err != nil {
		return fmt.Errorf("pod %s: %w", ref.ID, err)
	}
	return nil
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
		// A guard ends when it has nobody left to guard, so it is not killed
		// before the others are gone. Those that have no guard any more get no
		// grace: nobody waits for their end.
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

// A leftover is a pod that this process may know from a ledger only.
type leftover struct {
	marks map[string]string
	known []string // pid@start
}

// find lists the living guards of the pod, and all its other processes.
func (l leftover) find() (guards, others []procfs.Process) {
	all := procfs.With(l.marks)
	for _, k := range l.known {
		pid, start, ok := parseProcess(k)
		if !ok {
			continue
		}
		// The boot was compared before: this pid with this start is the process.
		if p, ok := procfs.Stat(pid); ok && p.Alive() && p.Start == start {
			all = append(all, p)
		}
	}
	seen := map[int]bool{}
	for len(all) > 0 {
		p := all[0]
		all = all[1:]
		if seen[p.PID] || p.PID == os.Getpid() { // never ourselves, whoever started us
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
