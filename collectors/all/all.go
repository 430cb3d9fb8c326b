// Package all lists the collectors.
package all

import (
	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/collectors/gpu"
	"sweep.dev/sweep/collectors/proc"
	"sweep.dev/sweep/collectors/prom"
)

// Collectors returns the factory of every collector, in the order of their
// documentation.
func Collectors() []collectors.Factory {
	return []collectors.Factory{
		prom.Factory(),
		gpu.Factory(),
		proc.Factory(),
	}
}
