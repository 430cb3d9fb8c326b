// Package render makes a backend's description of a deployment out of the engine's
// profile and the plan: each role's command line, environment and files.
package render

import (
	"fmt"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/plan"
)

// With holds the inputs of a rendering beside the plan.
type With struct {
	Sweep  string // path of this program, for engines that are part of it
	Images bool   // the backend runs images, see [backends.Factory]
}

// Spec returns the spec of a deployment that a backend launches, without the fields
// of a run: the owner, the run, the pod, its end and its logs.
func Spec(p *plan.Plan, d plan.Deployment, w With) (backends.Spec, error) {
	s := d.Server
	profile, ok := p.Profile(s.Profile)
	if !ok {
		return backends.Spec{}, fmt.Errorf("engine profile %q does not exist", s.Profile)
	}
	spec := backends.Spec{
		Engine: kindOf(profile), Entry: profile.EntryRole(), Model: s.Model, Args: make(map[string]any, len(s.Args)),
		Manifest: s.Manifest, GPU: s.GPU, GPUs: s.GPUCount, Seed: p.Seed, Grace: p.Timeouts.Stop,
		// The same server, in whatever run.
		Digest: p.Backend.Kind + "-" + d.ID,
	}
	for _, a := range s.Args {
		spec.Args[a.Name] = a.Value
	}
	spec.Clients = clientsOf(d)
	if len(profile.Roles) == 0 { // an engine that runs already
		spec.Roles = []backends.Role{{Name: "server", Replicas: 1, GPUs: s.GPUCount, Args: spec.Args, Env: reveal(s.Env), CPUs: s.CPUs, Image: s.Image, Entrypoint: s.Entrypoint}}
		return spec, nil
	}
	for _, role := range profile.Roles {
		r, err := newRenderer(profile, role.Name, s, p.Seed, w.Sweep).role()
		if err != nil {
			return backends.Spec{}, err
		}
		own := s.Roles[role.Name]
		if w.Images && s.Command == nil && own.Command == nil && s.Entrypoint == nil && own.Entrypoint == nil {
			r.Argv = inImage(r)
		}
		spec.Roles = append(spec.Roles, r)
	}
	return spec, nil
}

// clientsOf returns the clients that the loads of a deployment want where its servers run.
func clientsOf(d plan.Deployment) (want backends.ClientsWant) {
	for _, cell := range d.Cells {
		c := cell.Load.Clients
		if c.Kind != plan.ClientsKubernetes {
			want.Processes = want.Processes || c.N > 1 || c.Auto()
			continue
		}
		if n := max(1, c.N); n > want.N { // of several loads that with the most of them says how they run
			want = backends.ClientsWant{Processes: want.Processes, N: n, Namespace: c.Namespace, Image: c.Image, Base: c.Base, CPUs: c.CPUs}
		}
	}
	return want
}

// inImage returns the profile's own command line of a role as its image wants it.
func inImage(r backends.Role) func(backends.Address) ([]string, error) {
	return func(a backends.Address) ([]string, error) {
		argv, err := r.Argv(a)
		return engine.InImage(argv, r.Entrypoint), err
	}
}

// kindOf returns what a backend knows an engine as: a profile of one's own is what it
// is like.
func kindOf(p *engine.Profile) string {
	if _, ok := engine.Lookup(p.Name); !ok && p.Like != "" {
		return p.Like
	}
	return p.Name
}
