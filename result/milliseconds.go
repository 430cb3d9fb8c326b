package result

import "time"

// Milliseconds returns a duration in the unit of the columns whose names end in _ms.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
