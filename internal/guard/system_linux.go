package guard

import (
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/procfs"
)

// executable returns what a guard is started from: this very file, even if it
// has been replaced or removed since we were started from it.
func executable() (string, error) { return "/proc/self/exe", nil }

// adopt makes this process the parent of every descendant that loses its own.
func adopt() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// keepFilesFromChildren closes to the command all that we hold open: our pipes,
// and what a careless parent of ours left open.
func keepFilesFromChildren() {
	unix.CloseOnExec(ordersFD)
	unix.CloseOnExec(reportsFD)
	// Kernels before 5.11 cannot, then strangers' files stay open as they
	// would be without us.
	_ = unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC)
}

func commandAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// pin lets this thread, and what it forks, run on the given CPUs only, until
// release is called.
func pin(cpus []int) (release func(), err error) {
	var before, want, got unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	for _, cpu := range cpus {
		if want.Set(cpu); cpu < 0 || !want.IsSet(cpu) {
			return nil, fmt.Errorf("no CPU has the number %d: %w", cpu, syscall.EINVAL)
		}
	}
	if err := unix.SchedSetaffinity(0, &want); err != nil {
		return nil, fmt.Errorf("CPUs %v are not available: %w", cpus, err)
	}
	release = func() { _ = unix.SchedSetaffinity(0, &before) } // a guard that stays pinned sleeps as well
	// The kernel drops CPUs in silence that are not there or not for us.
	if err := unix.SchedGetaffinity(0, &got); err != nil || got != want {
		release()
		return nil, fmt.Errorf("CPUs %v are not all available: %w", cpus, syscall.EINVAL)
	}
	return release, nil
}

// signalTree sends sig to every descendant of this process.
func signalTree(_ int, sig syscall.Signal) {
	var fx *effect.Effects // faults are for the parent
	for _, pid := range procfs.Descendants(syscall.Getpid()) {
		// Only we reap our children, but a grandchild's pid may be reused
		// between the listing and the signal once its parent has reaped it. The
		// kernel hands out pids in a circle, so that takes a whole turn of it.
		_ = fx.Kill(effect.KillServer, pid, sig) // ended already is as good
	}
}

// tree lists the descendants of a guard, the command first. It is asked once a second
// while a load is measured, so it must be cheap.
func tree(guard, command int) []int {
	pids := procfs.Below(guard)
	if i := slices.Index(pids, command); i > 0 {
		pids = slices.Insert(slices.Delete(pids, i, i+1), 0, command)
	}
	return pids
}
