package backends

import "syscall"

// lastSignal is the highest number that a signal has on Linux.
const lastSignal = 64

// ShellExit returns the end of a server by its status as a shell has it: 128+n is the
// signal n. A server that itself exits with such a status is told apart by nothing.
func ShellExit(role string, replica, status int, oomKilled bool) *Exit {
	e := &Exit{Role: role, Replica: replica, Code: status, OOMKilled: oomKilled}
	if n := status - 128; n > 0 && n <= lastSignal {
		e.Code, e.Signal = -1, syscall.Signal(n).String()
	}
	return e
}
