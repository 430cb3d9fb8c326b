package stopping

import "slices"

// Cancels reports whether what ended a load, a value of the column ended_by, is one for
// which requests in flight are given up.
func Cancels(by string) bool { return slices.Contains([]string{Failing, Saturated, Refused}, by) }
