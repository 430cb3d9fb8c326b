package guard

import (
	"encoding/gob"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"sweep.dev/sweep/internal/effect"
)

// Main turns this process into a guard and never returns, if it was started as
// one; else it returns at once. A program that calls [Start] calls it first in
// main, and in TestMain of its tests.
func Main() {
	if len(os.Args) != 1 || os.Args[0] != guardName || os.Getenv(GuardVar) == "" {
		return
	}
	// The command is to die with this thread (PR_SET_PDEATHSIG means the
	// thread that forked it, not its process), so this thread must last.
	runtime.LockOSThread()
	keepFilesFromChildren()
	os.Exit(run(os.NewFile(ordersFD, "orders"), os.NewFile(reportsFD, "reports")))
}

// run is a guard from its begin to its end. No process reads its exit status.
func run(orders io.Reader, reports io.Writer) int {
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, EndSignal)
	// Received by handlers, not ignored: what is ignored stays ignored in the
	// command, which then could not be asked to end.
	signal.Notify(make(chan os.Signal, 1),
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGALRM, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGPIPE)

	in, out := gob.NewDecoder(orders), gob.NewEncoder(reports)
	var first order
	if err := in.Decode(&first); err != nil || first.Start == nil {
		return 1 // the parent died before it had said what to start
	}
	oom := watchOOM("/")
	pid, err := launch(*first.Start, first.ID)
	if err != nil {
		_ = out.Encode(report{Failed: newFailure(err)}) // a parent that died does not read it
		return 1
	}
	_ = out.Encode(report{Started: pid})

	w := supervisor{
		pid:    pid,
		grace:  first.Start.Grace,
		orders: readOrders(in),
		ends:   ends,
		exited: make(chan syscall.WaitStatus, 1),
		empty:  make(chan struct{}),
		report: func(ws syscall.WaitStatus) { _ = out.Encode(report{Exited: exitOf(ws, oom)}) },
	}
	go w.reap()
	w.watch()
	return 0
}

// launch starts the command in a process group of its own.
func launch(spec Spec, id string) (pid int, err error) {
	if err := adopt(); err != nil {
		return 0, err
	}
	// The environment of our parent may hold credentials that are not the
	// command's.
	os.Clearenv()
	if err := os.Setenv(GuardedVar, id); err != nil {
		return 0, err
	}
	// In our own environment and folder first, so that the command is looked up
	// as it would be from there.
	for _, env := range []map[string]string{spec.Marks, spec.Env} {
		for name, value := range env {
			if err := os.Setenv(name, value); err != nil {
				return 0, err
			}
		}
	}
	if err := os.Chdir(spec.Dir); err != nil {
		return 0, err
	}
	if len(spec.CPUs) > 0 {
		release, err := pin(spec.CPUs)
		if err != nil {
			return 0, err
		}
		defer release()
	}
	cmd := exec.Command(spec.Argv[0], spec.Argv[1:]...) //nolint:noctx // what ends it is the whole rest of this package
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = commandAttr()
	var fx *effect.Effects // faults are for the parent
	if err := fx.Start(effect.SpawnServer, cmd); err != nil {
		return 0, err
	}
	return cmd.Process.Pid, nil
}

// readOrders receives until the parent's death, which closes the channel. Its
// goroutine ends with the process.
func readOrders(in *gob.Decoder) <-chan order {
	c := make(chan order)
	go func() {
		defer close(c)
		for {
			var o order
			if err := in.Decode(&o); err != nil {
				return
			}
			c <- o
		}
	}()
	return c
}

func exitOf(ws syscall.WaitStatus, oom *oomWatch) *Exit {
	e := &Exit{Code: ws.ExitStatus()} // -1 if a signal ended it
	if ws.Signaled() {
		e.Signal = ws.Signal()
	}
	e.OOM = oom.killed(*e)
	return e
}

// A supervisor watches the command and its descendants until none is left.
type supervisor struct {
	pid    int
	grace  time.Duration
	orders <-chan order
	ends   <-chan os.Signal
	exited chan syscall.WaitStatus // the command's
	empty  chan struct{}           // no descendant is left
	report func(syscall.WaitStatus)
}

// reap waits for children, own and adopted, until there are none. There can be
// none later either: only descendants are adopted.
func (w *supervisor) reap() {
	defer close(w.empty)
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return // ECHILD
		case pid == w.pid:
			w.exited <- ws
		}
	}
}

// watch returns when no descendant is left.
func (w *supervisor) watch() {
	var (
		deadline time.Time // of the polite end; zero before it began
		timer    <-chan time.Time
		pause    = 5 * time.Millisecond // between two rounds of kills
	)
	within := func(grace time.Duration) {
		if deadline.IsZero() {
			signalTree(w.pid, syscall.SIGTERM)
			// A process that is stopped takes no signal but SIGKILL, and would use
			// up its grace.
			signalTree(w.pid, syscall.SIGCONT)
		} else if time.Until(deadline) <= grace {
			return
		}
		deadline = time.Now().Add(grace)
		timer = time.After(grace)
	}
	for {
		select {
		case ws := <-w.exited:
			w.report(ws)
			within(min(w.grace, abandonGrace))
		case <-w.ends:
			within(w.grace)
		case o, alive := <-w.orders:
			switch {
			case !alive:
				w.orders = nil
				within(min(w.grace, abandonGrace))
			case o.Kill:
				within(0)
			case o.Stop:
				within(w.grace)
			}
		case <-timer:
			// Who was born since the last round is found in the next one.
			signalTree(w.pid, syscall.SIGKILL)
			timer = time.After(pause)
			pause = min(2*pause, time.Second)
		case <-w.empty:
			select {
			case ws := <-w.exited: // both were ready
				w.report(ws)
			default:
			}
			return
		}
	}
}
