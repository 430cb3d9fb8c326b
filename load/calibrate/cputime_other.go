//go:build !unix

package calibrate

import "time"

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
