//go:build !unix

package load

import "time"

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
