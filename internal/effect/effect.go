// Package effect is the only place that does what matters after a crash:
// create, write, fsync, rename and remove files of a run, start and kill
// processes, call providers. Each operation carries a named fault point from
// one explicit list ([Points]), so that a test can stop the program at every
// one of them, before and after it, and can fail the Nth operation of any kind.
//
// # Faults
//
// [New] takes the text of a fault specification, rules separated by commas:
//
//	POINT[:before|after]:ACTION[@N[+]]
//	op[:before|after]:ACTION[@N[+]]
//
// The first form names a point of the list; the second counts every operation
// of this process whatever its point. The phase is before if none is
// stated. N counts the arrivals at that side of the point from 1, and is 1 if
// none is stated; N+ means the Nth and every later one, as a disk that is full
// stays full. Actions:
//
//	kill        SIGKILL to this process
//	stop        SIGSTOP to this process; somebody else must continue it
//	panic       a panic in the calling goroutine
//	err=ENOSPC  the operation fails with that error (also EIO, EDQUOT, EACCES, EROFS)
//	delay=100ms the operation is late
//
// An error before an operation means that it was not done, with one exception:
// a write that fails with ENOSPC or EDQUOT has written the first half of its
// bytes, as on a disk that fills up. An error after an operation means that it was done
// and reported as failed all the same.
package effect

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
)

// Effects does the operations. A nil *Effects does them without faults. Its
// methods may be called concurrently.
type Effects struct {
	faults []*fault
	ops    atomic.Uint64
	log    *Log
	shared bool
}

// An Option changes what [New] makes.
type Option func(*Effects)

// Record keeps every file operation in log, so that a test can replay a loss
// of power at any of them. All data that is written stays in memory.
func Record(log *Log) Option { return func(e *Effects) { e.log = log } }

// Shared lets everybody on the machine read what is made: files have the mode
// 0644 and folders 0755, in place of 0600 and 0700.
func Shared() Option { return func(e *Effects) { e.shared = true } }

// New makes Effects with the faults of spec; "" is none.
func New(spec string, opts ...Option) (*Effects, error) {
	faults, err := parseFaults(spec)
	if err != nil {
		return nil, err
	}
	e := &Effects{faults: faults}
	for _, o := range opts {
		o(e)
	}
	return e, nil
}

// Ops returns the number of operations done or tried so far.
func (e *Effects) Ops() uint64 {
	if e == nil {
		return 0
	}
	return e.ops.Load()
}

// Do does f as the operation p. The error is f's, or a [*Fault].
func (e *Effects) Do(p Point, f func() error) error {
	return e.do(p, f, nil)
}

// do is Do with a hook that runs in place of f where a fault forbids f; it may
// do f in part.
func (e *Effects) do(p Point, f func() error, instead func(*Fault)) error {
	if e == nil {
		return f()
	}
	op := e.ops.Add(1)
	if fault := e.hit(context.Background(), p, Before, op); fault != nil {
		if instead != nil {
			instead(fault)
		}
		return fault
	}
	if err := f(); err != nil {
		return err
	}
	if fault := e.hit(context.Background(), p, After, op); fault != nil {
		return fault
	}
	return nil
}

// Call makes a call to a provider as the operation p. A delay ends with ctx.
func (e *Effects) Call(ctx context.Context, p Point, f func(context.Context) error) error {
	if e == nil {
		return f(ctx)
	}
	op := e.ops.Add(1)
	if fault := e.hit(ctx, p, Before, op); fault != nil {
		return fault
	}
	if err := f(ctx); err != nil {
		return err
	}
	if fault := e.hit(ctx, p, After, op); fault != nil {
		return fault
	}
	return nil
}

// Start starts cmd. Where a fault makes it fail after the start, cmd.Process
// is set and the caller has to end it, as with any start that was reported as
// failed and happened.
func (e *Effects) Start(p Point, cmd *exec.Cmd) error {
	return e.Do(p, cmd.Start)
}

// Kill sends sig to the process pid, or to the process group -pid where pid is
// negative. A process that is gone is [os.ErrProcessDone].
func (e *Effects) Kill(p Point, pid int, sig syscall.Signal) error {
	// 0 is our own group, 1 and -1 are init and everything there is: never
	// what a caller means, always what a zeroed variable says.
	if pid >= -1 && pid <= 1 {
		return fmt.Errorf("kill %d: refused: not one process or group", pid)
	}
	return e.Do(p, func() error {
		switch err := syscall.Kill(pid, sig); err {
		case nil:
			return nil
		case syscall.ESRCH:
			return os.ErrProcessDone
		default:
			return fmt.Errorf("kill %d: %w", pid, err)
		}
	})
}
