// Package all lists the backends there are.
package all

import (
	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/command"
	"sweep.dev/sweep/backends/docker"
	"sweep.dev/sweep/backends/endpoint"
	"sweep.dev/sweep/backends/kubernetes"
	"sweep.dev/sweep/backends/process"
	"sweep.dev/sweep/backends/runpod"
	"sweep.dev/sweep/backends/sim"
	"sweep.dev/sweep/backends/ssh"
	"sweep.dev/sweep/internal/effect"
)

// Factories returns every backend, by its kind's name. What they start and end
// goes through fx; nil is without faults.
func Factories(fx *effect.Effects) []backends.Factory {
	return []backends.Factory{
		command.Factory(fx),
		docker.Factory(fx),
		endpoint.Factory(),
		kubernetes.Factory(fx),
		process.Factory(fx),
		runpod.Factory(fx),
		sim.Factory(fx),
		ssh.Factory(fx),
	}
}
