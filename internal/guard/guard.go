// Package guard runs a command so that it and everything it started end with
// this process, however this process ends.
//
// Between us and the command stands a guard: our own executable, started again
// by [Start] and turned into a guard by [Main].
//
//	sweep ── orders (a pipe; its end is our death) ──▶ guard ── TERM, KILL ──▶ command
//	      ◀── reports (started, exited) ─────────────                            ├─ worker
//	                                                                             └─ setsid daemon
//
// The guard leads a session of its own, so a terminal's Ctrl-C is ours to act
// upon and not its; it swallows the signals by which a process is asked to end.
// It is a subreaper: every descendant of the command, in any process group or
// session, becomes the guard's child when its parents are gone. The guard ends
// when it has no child left, and never before.
//
// The kernel ends what is left when even that fails: if the guard itself is
// killed, the command gets SIGKILL with it (PR_SET_PDEATHSIG), and this process
// finds the command's descendants by a mark in their environment. Only if both
// are killed at once, a descendant other than the command itself can live on;
// the mark is how a later run finds it.
//
// Elsewhere than on Linux there are no subreapers: the guard ends the command's
// process group, and what has left that group lives on.
package guard

import (
	"context"
	"crypto/rand"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/procfs"
)

// abandonGrace bounds the time between the polite and the final signal if nothing
// waits for the command any more: this process died, or the command
// itself did and left descendants behind.
const abandonGrace = time.Second

// EndSignal makes a guard end its command politely, as Stop does. It is for a
// process that is not the guard's parent.
const EndSignal = syscall.SIGUSR1

// The environment by which processes of this package are found. A guard has
// the first with its id, all that it guards have the second.
const (
	GuardVar   = "SWEEP_GUARD"
	GuardedVar = "SWEEP_GUARDED_BY"
)

// A Spec is one command to run.
type Spec struct {
	Argv []string // found by PATH, or relative to Dir
	// Env is the environment of the command, and beside Marks all of it: of ours
	// it gets nothing. It reaches the guard through a pipe, so that only the
	// command itself shows it.
	Env map[string]string
	// Marks are in the environment of the guard too: names by which another
	// process finds both. Nothing secret.
	Marks map[string]string
	Dir   string // "" is ours
	// LogPath gets stdout and stderr in order, appended; "" drops them.
	LogPath string
	CPUs    []int         // the CPUs that the command may run on; empty is all (Linux only)
	Grace   time.Duration // between the polite and the final signal of Stop
}

// An Exit is how a command ended.
type Exit struct {
	Code   int // exit status; -1 if a signal ended it
	Signal syscall.Signal
	// OOM says that the kernel's out-of-memory killer ended the command, or one
	// of its descendants and the command failed of it; see oomWatch.
	OOM bool
	// Unguarded says that the guard was killed, and the command with it.
	Unguarded bool
}

// A Process is a command under guard. Methods may be called concurrently.
type Process struct {
	fx    *effect.Effects
	id    string // value of GuardVar and GuardedVar
	guard *exec.Cmd
	pid   int

	mu      sync.Mutex // guards control and orders
	control io.Closer
	orders  *gob.Encoder

	exit Exit          // set before done is closed
	done chan struct{} // the command has ended
	gone chan struct{} // the guard has ended, so nothing is left
}

// Start starts a command under guard and returns when it has been executed:
// a command that cannot be (no such file, no permission, no such CPU) is an
// error, which wraps [exec.ErrNotFound] or the errno. The context bounds the
// start, not the command's life. On error nothing is left running.
func Start(ctx context.Context, fx *effect.Effects, spec Spec) (*Process, error) {
	if len(spec.Argv) == 0 {
		return nil, errors.New("start: no command")
	}
	p, err := start(ctx, fx, spec)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], err)
	}
	return p, nil
}

func start(ctx context.Context, fx *effect.Effects, spec Spec) (_ *Process, err error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if spec.Dir, err = filepath.Abs(spec.Dir); err != nil {
		return nil, err
	}
	p := &Process{fx: fx, id: rand.Text(), done: make(chan struct{}), gone: make(chan struct{})}
	reports, err := p.startGuard(spec)
	if err != nil {
		return nil, err
	}
	messages := gob.NewDecoder(reports)
	err = fx.Do(effect.SpawnServer, func() error { return p.command(ctx, spec, reports, messages) })
	// From here on the end of the guard is waited for, whatever happened: this
	// goroutine ends when the guard does, which Stop waits for.
	go p.watch(reports, messages)
	if err != nil {
		p.close() // the guard hears that it is alone and ends the command, if there is one
		<-p.gone
		return nil, err
	}
	return p, nil
}

// startGuard starts our executable as a guard that waits for orders.
func (p *Process) startGuard(spec Spec) (reports *os.File, err error) {
	orders, control, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer orders.Close()
	reports, reporting, err := os.Pipe()
	if err != nil {
		control.Close()
		return nil, err
	}
	defer reporting.Close()
	p.control, p.orders = control, gob.NewEncoder(control)
	defer func() {
		if err != nil {
			control.Close()
			reports.Close()
		}
	}()

	self, err := executable()
	if err != nil {
		return nil, err
	}
	p.guard = &exec.Cmd{
		Path:        self,
		Args:        []string{guardName},
		Env:         append(os.Environ(), GuardVar+"="+p.id),
		ExtraFiles:  []*os.File{ordersFD - 3: orders, reportsFD - 3: reporting},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	for name, value := range spec.Marks {
		p.guard.Env = append(p.guard.Env, name+"="+value)
	}
	if spec.LogPath != "" {
		log, err := p.fx.OpenAppend(effect.LogCreate, spec.LogPath)
		if err != nil {
			return nil, err
		}
		defer log.Close()
		// The command inherits it from the guard, whose own last words, if it
		// should ever crash, belong there too.
		p.guard.Stdout, p.guard.Stderr = log.OS(), log.OS()
	}
	if err := p.fx.Start(effect.SpawnGuard, p.guard); err != nil {
		if p.guard.Process != nil {
			control.Close() // it was started all the same: without orders it ends
			_ = p.guard.Wait()
		}
		return nil, err
	}
	return reports, nil
}

// command tells the guard what to start and waits to hear that it is started.
func (p *Process) command(ctx context.Context, spec Spec, reports *os.File, messages *gob.Decoder) error {
	defer context.AfterFunc(ctx, func() {
		_ = reports.SetReadDeadline(time.Now()) // pipes of os.Pipe can
	})()
	if err := p.send(order{Start: &spec, ID: p.id}); err != nil {
		return fmt.Errorf("its guard ended: %w", err)
	}
	var r report
	switch err := messages.Decode(&r); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("its guard ended: %w", err)
	case r.Failed != nil:
		return r.Failed
	}
	p.pid = r.Started
	return nil
}

// watch follows the guard's reports to their end, and reaps it.
func (p *Process) watch(reports *os.File, messages *gob.Decoder) {
	defer reports.Close()
	_ = reports.SetReadDeadline(time.Time{})
	exit := Exit{Code: -1, Signal: syscall.SIGKILL, Unguarded: true}
	for ended := false; ; {
		var r report
		if err := messages.Decode(&r); err != nil {
			break // the guard has ended
		}
		if r.Exited != nil && !ended {
			ended = true
			exit = *r.Exited
			p.exit = exit
			close(p.done)
		}
	}
	_ = p.guard.Wait() // its status says nothing that the reports did not
	p.close()
	if exit.Unguarded {
		p.killMarked()
		p.exit = exit
		close(p.done)
	}
	close(p.gone)
}

// killMarked ends what a guard that was killed has left. The command itself
// died with the guard.
func (p *Process) killMarked() {
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) {
		left := procfs.With(map[string]string{GuardedVar: p.id})
		if len(left) == 0 {
			return
		}
		for _, q := range left {
			_ = p.fx.Kill(effect.KillServer, q.PID, syscall.SIGKILL) // looked for again below
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (p *Process) send(o order) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.orders.Encode(o)
}

func (p *Process) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.control.Close() // a second time is an error without meaning
}

// PID returns the process id of the command.
func (p *Process) PID() int { return p.pid }

// GuardPID returns the process id of the guard.
func (p *Process) GuardPID() int { return p.guard.Process.Pid }

// PIDs lists the living processes of the command's tree, the command first
// while it lives. It reads the whole process table: a millisecond or two.
func (p *Process) PIDs() []int {
	select {
	case <-p.gone:
		return nil // the guard's pid may be somebody else's by now
	default:
		return tree(p.guard.Process.Pid, p.pid)
	}
}

// Done is closed when the command has ended, by itself or not. Descendants of
// it may live for a moment longer; Stop waits for them.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the command ended. Valid after Done.
func (p *Process) Exit() Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return Exit{}
	}
}

// killWait is how long Stop waits, when its context is over, for processes
// that have been sent SIGKILL.
const killWait = 2 * time.Second

// Stop ends the command and all its descendants: SIGTERM to each, and SIGCONT
// to those that are stopped, after
// Spec.Grace or at the end of ctx SIGKILL. It returns nil when all are seen to
// be gone, and an error that wraps the context's cause where they are not two
// seconds after SIGKILL (a process in uninterruptible sleep). Idempotent.
func (p *Process) Stop(ctx context.Context) error {
	select {
	case <-p.gone:
		return nil
	default:
	}
	// An order that cannot be sent went to a guard that is ending.
	err := p.fx.Do(effect.KillServer, func() error { _ = p.send(order{Stop: true}); return nil })
	if err != nil {
		return fmt.Errorf("stop process %d: %w", p.pid, err)
	}
	select {
	case <-p.gone:
		return nil
	case <-ctx.Done():
	}
	_ = p.send(order{Kill: true})
	timer := time.NewTimer(killWait)
	defer timer.Stop()
	select {
	case <-p.gone:
		return nil
	case <-timer.C:
		return fmt.Errorf("process %d is still there after SIGKILL: %w", p.pid, context.Cause(ctx))
	}
}
