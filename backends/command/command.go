// Package command has a program of any language make the units: the operations of
// a provider, each one run of the program, as JSON on its stdin and stdout.
// docs/providers.md is the protocol.
package command

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/secret"
)

// Kind is the backend's name in a plan.
const Kind = "command"

// A Config is the backend's part of a plan.
type Config struct {
	Program    string                   `yaml:"program,omitempty" doc:"The program: a path, or a name in the PATH. It has sweep's own environment." default:"required" example:"./my-cloud"`
	Settings   map[string]string        `yaml:"settings,omitempty" doc:"Settings for the program, passed to create and not read by sweep. No credentials." default:"none" example:"{partition: a100}"`
	Timeout    time.Duration            `yaml:"timeout,omitempty" doc:"Time limit of one call of the program. It does not limit attach, which lasts as long as the server." default:"5m to create, 2m and the grace to delete, 1m to find" unit:"s" example:"10m"`
	Free       bool                     `yaml:"free,omitempty" doc:"The servers cost nothing, so a run does not ask before it begins." default:"false" example:"true"`
	Env        map[string]secret.String `yaml:"env,omitempty" doc:"Environment of the engines. Credentials by reference only: ${HF_TOKEN}." example:"{HF_TOKEN: '${HF_TOKEN}'}"`
	Listen     string                   `yaml:"listen,omitempty" doc:"Address that the servers listen on." default:"0.0.0.0" example:"127.0.0.1"`
	Host       string                   `yaml:"host,omitempty" doc:"Address at which servers reach each other, if it is known before they are made." default:"what the program says of each" example:"10.0.0.2"`
	SharedDisk string                   `yaml:"shared_disk,omitempty" doc:"Folder that all servers share." default:"none, so that no server can read another one's files" example:"/mnt/shared"`
	Bootstrap  bool                     `yaml:"bootstrap,omitempty" doc:"Start servers by sweep's script, which ends them at their expiry time even if sweep is gone. Needs /bin/sh there. Without it only the program ends them." default:"true" example:"false"`
	Heartbeat  time.Duration            `yaml:"heartbeat,omitempty" doc:"Time after which a server ends itself if its run has sent no heartbeat. Needs bootstrap, python3 there, and a reachable port agent." default:"forever" unit:"s" example:"10m"`
}

// A Backend has units made by a program.
type Backend struct {
	*provision.Layer
	fx *effect.Effects
	c  Config
}

var (
	_ backends.Prober = (*Backend)(nil)
	_ backends.Gratis = (*Backend)(nil)
)

// Factory makes command backends.
func Factory(fx *effect.Effects) backends.Factory {
	return backends.Factory{
		Kind: Kind, Doc: "engines where a program of yours puts them", FreeGPU: true, Outlives: true, Bills: true,
		Launch: 30 * time.Minute, Settle: settle, Config: Config{},
		New: func(decode func(any) error) (backends.Backend, error) {
			c := Config{Listen: "0.0.0.0", Bootstrap: true}
			if err := decode(&c); err != nil {
				return nil, err
			}
			return New(fx, c)
		},
	}
}

const (
	settle       = 2 * time.Minute
	minHeartbeat = 5 * time.Second // leaves room for a beat that gets lost
)

// New makes a backend of a configuration. It does not run the program.
func New(fx *effect.Effects, c Config) (*Backend, error) {
	var errs []error
	path, err := exec.LookPath(c.Program)
	if c.Program == "" {
		err = errors.New("which?")
	}
	if err == nil {
		c.Program, err = filepath.Abs(path) // for who reads the ledger, from another folder
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("program: %w", err))
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout: %v is negative", c.Timeout))
	}
	if c.Heartbeat != 0 && (c.Heartbeat < minHeartbeat || !c.Bootstrap) {
		errs = append(errs, fmt.Errorf("heartbeat: it needs bootstrap, and %v or more", minHeartbeat))
	}
	if c.SharedDisk != "" && !filepath.IsAbs(c.SharedDisk) {
		errs = append(errs, fmt.Errorf("shared_disk: %q is not absolute", c.SharedDisk))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	env := map[string]string{}
	for name, value := range c.Env {
		env[name] = value.Reveal()
	}
	b := &Backend{fx: fx, c: c}
	b.Layer = provision.New(provision.Settings{
		Kind: Kind, Effects: fx, Env: env, Keyed: true, SharedDisk: c.SharedDisk != "",
		At:        func() map[string]string { return map[string]string{"program": c.Program} },
		Elsewhere: ": name that program in the plan",
		Bootstrap: c.Bootstrap, Heartbeat: c.Heartbeat, AgentHost: c.Listen,
		Late: 30 * time.Second, Settle: settle,
	}, units{b})
	return b, nil
}

// Free implements [backends.Gratis].
func (b *Backend) Free() bool { return b.c.Free }

// Probe implements [backends.Prober]: whether the program answers.
func (b *Backend) Probe(ctx context.Context) error {
	_, err := units{b}.Find(ctx, "")
	return err
}
