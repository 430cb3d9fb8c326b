package plan

import (
	"maps"
	"slices"
	"time"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/plan/internal/strict"
	"sweep.dev/sweep/result"
)

// Rest is what a plan knows beside what its file says.
type Rest struct {
	Source      []byte   // the file
	Set         []string // what took the place of its keys
	Cells       []Cell
	Deployments []Deployment
	Columns     []result.Column
	Config      Config
	EngineTexts []EngineFile
	Manifests   []manifest.File
	Engines     func(name string) (*engine.Profile, bool)
	Env         *strict.Env
	SendEnv     []string // NAME=HOST: where variables may go, beyond the rules
}

// A Use is one reference to an environment variable.
type Use = strict.Use

// An EngineFile is an engine profile that a plan or a command line brought along.
type EngineFile struct {
	Name string // as it was written
	Text []byte
}

// Complete gives a plan that was read the rest of what it knows.
func (p *Plan) Complete(r Rest) {
	p.rest = r
	p.conditions = make(map[string]string)
	for _, l := range p.EachLoad() {
		p.conditions[l.Name] = p.conditionsOf(l.Load)
	}
	if len(r.Env.Plain) > 0 {
		p.variables = digest(r.Env.Plain, 12)
	}
}

// Profile returns an engine profile by its name, as Server.Profile has it.
func (p *Plan) Profile(name string) (*engine.Profile, bool) {
	if p.rest.Engines == nil {
		return engine.Lookup(name)
	}
	return p.rest.Engines(name)
}

// Columns returns the columns of this plan's cells table, axes and SLOs included.
func (p *Plan) Columns() []result.Column { return slices.Clone(p.rest.Columns) }

// Deployments expands the matrix: deployments in the order of their first
// cell, cells in the plan's order, or both shuffled by the seed.
func (p *Plan) Deployments() []Deployment {
	out := slices.Clone(p.rest.Deployments)
	for i := range out {
		out[i].Cells = slices.Clone(out[i].Cells)
	}
	return out
}

// Cells returns every cell in the plan's order.
func (p *Plan) Cells() []Cell { return slices.Clone(p.rest.Cells) }

// Source returns the file that the plan was read from.
func (p *Plan) Source() []byte { return slices.Clone(p.rest.Source) }

// Secrets returns every environment variable that a text which is never shown refers
// to, of the plan itself and of the plug-ins that have been decoded.
func (p *Plan) Secrets() []secret.String {
	if p.rest.Env == nil {
		return nil
	}
	var list []secret.String
	for _, name := range slices.Sorted(maps.Keys(p.rest.Env.Given)) {
		list = append(list, secret.New("${"+name+"}", p.rest.Env.Given[name]))
	}
	return list
}

// Uses lists the references to environment variables of the plan itself and of the
// plug-ins that have been decoded, in that order.
func (p *Plan) Uses() []Use {
	if p.rest.Env == nil {
		return nil
	}
	return slices.Clone(p.rest.Env.Uses)
}

// SendEnv lists what its user permits beyond the rules, as NAME=HOST.
func (p *Plan) SendEnv() []string { return slices.Clone(p.rest.SendEnv) }

// EngineTexts returns the engine profiles that came with the plan, for a resume. Nil
// if there are none.
func (p *Plan) EngineTexts() []EngineFile { return p.rest.EngineTexts }

// Manifests returns the files of manifests that the backend names, for a resume. Nil if
// there are none.
func (p *Plan) Manifests() []manifest.File { return p.rest.Manifests }

const defaultReady = 10 * time.Minute

// ReadyTimeout returns how long a server of a profile may take until it answers: the
// plan's timeouts.ready, else its engine profile's, else ten minutes.
func (p *Plan) ReadyTimeout(profile *engine.Profile) time.Duration {
	switch {
	case p.Timeouts.Ready > 0:
		return p.Timeouts.Ready
	case profile != nil && profile.Ready.Timeout > 0:
		return profile.Ready.Timeout
	}
	return defaultReady
}
