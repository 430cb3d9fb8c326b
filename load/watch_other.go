//go:build !linux

package load

import "time"

// asleep is not known here.
func asleep() (d time.Duration, ok bool) { return 0, false }
