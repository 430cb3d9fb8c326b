//go:build !linux

package effect

import "syscall"

// stopHere stops this process soon: only Linux can direct a signal at the
// calling thread.
func stopHere() { _ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) }
