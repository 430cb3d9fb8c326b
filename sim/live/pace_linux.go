package live

import (
	"time"

	"golang.org/x/sys/unix"
)

// sharpen takes the slack of 50 us from this thread's timers.
func sharpen() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }

// nap sleeps in the kernel: the runtime's own timers have the netpoller's
// resolution of a millisecond.
func nap(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &ts, nil)
}
