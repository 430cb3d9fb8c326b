package load

import (
	"time"

	"golang.org/x/sys/unix"
)

// asleep returns how long the machine has been suspended since it booted: the
// monotonic clock stands still meanwhile, the one of the boot does not. ok is
// false if they cannot be read together.
func asleep() (d time.Duration, ok bool) {
	best := time.Duration(-1)
	for range 3 {
		var before, boot, after unix.Timespec
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &before) != nil ||
			unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil ||
			unix.ClockGettime(unix.CLOCK_MONOTONIC, &after) != nil {
			return 0, false
		}
		// The loss of the CPU in between makes the two differ too.
		if width := time.Duration(after.Nano() - before.Nano()); best < 0 || width < best {
			best, d = width, time.Duration(boot.Nano()-before.Nano())
		}
	}
	return d, best < time.Millisecond
}
