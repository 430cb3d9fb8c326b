package effect

import (
	"runtime"
	"syscall"
)

// stopHere stops this process before its caller runs another instruction.
//
// A SIGSTOP to the process goes to any of its threads, and the caller runs on
// until that thread takes it: under load it has committed the next trials by
// then. A signal to the calling thread is taken when the system call returns.
func stopHere() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = syscall.Tgkill(syscall.Getpid(), syscall.Gettid(), syscall.SIGSTOP)
}
