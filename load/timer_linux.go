package load

import (
	"syscall"
	"time"
)

// kernelSleep sleeps in the kernel, which is ten times as precise as the
// runtime's timers. The runtime's own signals may end the sleep early.
func kernelSleep(d time.Duration) {
	ts := syscall.NsecToTimespec(d.Nanoseconds())
	for syscall.Nanosleep(&ts, &ts) == syscall.EINTR {
	}
}
