// Package process runs engines' command lines on this machine.
package process

import (
	"errors"
	"fmt"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/local"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/secret"
)

// Kind is the backend's name in a plan.
const Kind = "process"

// A Config is the backend's part of a plan. What an engine says for itself
// wins over it.
type Config struct {
	Dir  string                   `yaml:"dir,omitempty" doc:"Working directory of the servers." default:"where sweep was started" example:"/srv/bench"`
	Env  map[string]secret.String `yaml:"env,omitempty" doc:"Environment of the servers, added to the variables that sweep passes to all (docs/run.md). Credentials by reference only: ${HF_TOKEN}." example:"{HF_TOKEN: '${HF_TOKEN}'}"`
	CPUs []int                    `yaml:"cpus,omitempty" doc:"CPUs that the servers may run on (Linux)." default:"all" min:"0" example:"[0, 1, 2, 3]"`
}

// A Backend starts every replica of every role as a process of this machine,
// under a guard that ends it with us. See package local for ports and for how
// leftovers are found.
type Backend struct{ *local.Machine }

var _ backends.Backend = Backend{}

// Factory makes process backends.
func Factory(fx *effect.Effects) backends.Factory {
	return backends.Factory{
		Kind:    Kind,
		Doc:     "engines as processes of this machine",
		FreeGPU: true,
		Config:  Config{},
		New: func(decode func(any) error) (backends.Backend, error) {
			var c Config
			if err := decode(&c); err != nil {
				return nil, err
			}
			return New(fx, c)
		},
		Default: func(func(string) (string, bool)) (backends.Backend, error) { return New(fx, Config{}) },
	}
}

// New makes a backend of a configuration.
func New(fx *effect.Effects, c Config) (Backend, error) {
	var errs []error
	for _, cpu := range c.CPUs {
		if cpu < 0 {
			errs = append(errs, fmt.Errorf("backend process: cpus: no CPU has the number %d", cpu))
		}
	}
	env := make(map[string]string, len(c.Env))
	for name, value := range c.Env {
		if name == "" {
			errs = append(errs, errors.New("backend process: env: a variable without a name"))
		}
		env[name] = value.Reveal()
	}
	if err := errors.Join(errs...); err != nil {
		return Backend{}, err
	}
	return Backend{&local.Machine{Kind: Kind, Effects: fx, Dir: c.Dir, Env: env, CPUs: c.CPUs}}, nil
}
