package source

import (
	"time"

	"sweep.dev/sweep/result"
)

// Bounds of the pause of a closed loop's slot after a request that failed. It
// doubles with each failure in a row and ends with the first success. Without
// it a server that refuses at once would be asked as fast as a CPU can, and a
// trial by time would end with a million failed rows.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = time.Second
	// longestRetryAfter bounds the pause that a server asks for by Retry-After:
	// one that names an hour would end the trial.
	longestRetryAfter = 30 * time.Second
)

// pause returns how long the slot pauses after the request prev. A request that we gave
// up ourselves says nothing against the server.
func (s *slot) pause(prev *result.Request) time.Duration {
	if prev.Status != result.Failed {
		s.failures = 0
		return 0
	}
	pause := min(longestPause, firstPause<<min(s.failures, 7)) // 10 ms << 7 is over 1 s
	s.failures++
	return max(pause, min(prev.RetryAfter, longestRetryAfter))
}
