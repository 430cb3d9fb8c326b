package executor

import (
	"fmt"
	"path/filepath"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/plan"
)

// spec is what the backend needs to know of this launch.
func (d *deployment) spec(n int, dir string) (backends.Spec, error) {
	spec, err := Specify(d.Plan, d.Deployment, d.Sweep)
	if err != nil {
		return spec, err
	}
	spec.Owner, spec.RunID = d.State.Manifest.Owner, d.State.Manifest.RunID
	spec.Pod = layout.Pod(d.ID, n)
	spec.Expires = d.expires(time.Now())
	if known, ok := d.Backend.(backends.Standing); ok {
		spec.Roles = standing(known, spec)
	}
	for i := range spec.Roles {
		name := spec.Roles[i].Name
		spec.Roles[i].LogPath = func(replica int) string {
			return filepath.Join(dir, layout.ServerLog(name, replica))
		}
		// The readiness of all is about the entry, of the others nobody else asks.
		if d.Given {
			continue
		}
		if i < len(spec.Roles)-1 || name != d.profile.EntryRole() {
			spec.Roles[i].Started = d.started(d.profile.Role(name), spec.Roles[i].LogPath)
		}
	}
	return spec, nil
}

// standing are the roles of a spec that stand already, with the replicas that
// are known of them.
func standing(known backends.Standing, spec backends.Spec) []backends.Role {
	var roles []backends.Role
	for _, r := range spec.Roles {
		if r.Replicas = len(known.Hosts(r.Name, r.Name == spec.Entry)); r.Replicas > 0 {
			roles = append(roles, r)
		}
	}
	return roles
}

// Specify is what a backend needs to know of a deployment before it is launched
// by a run: all but the owner, the run, the pod, its end and its logs. sweep is
// the path of this program, for engines that are part of it.
func Specify(p *plan.Plan, d plan.Deployment, sweep string) (backends.Spec, error) {
	s := d.Server
	profile, ok := p.Profile(s.Profile)
	if !ok {
		return backends.Spec{}, fmt.Errorf("engine profile %q does not exist", s.Profile)
	}
	spec := backends.Spec{
		Engine: kindOf(profile), Entry: profile.EntryRole(), Model: s.Model, Args: make(map[string]any, len(s.Args)),
		GPU: s.GPU, GPUs: s.GPUCount, Seed: p.Seed, Grace: p.Timeouts.Stop,
		// The same server, in whatever run.
		Digest: p.Backend.Kind + "-" + d.ID,
	}
	for _, a := range s.Args {
		spec.Args[a.Name] = a.Value
	}
	if len(profile.Roles) == 0 { // an engine that runs already
		spec.Roles = []backends.Role{{Name: "server", Replicas: 1, GPUs: s.GPUCount, Args: spec.Args, Env: reveal(s.Env), CPUs: s.CPUs, Image: s.Image, Entrypoint: s.Entrypoint}}
		return spec, nil
	}
	for _, role := range profile.Roles {
		r, err := newRenderer(profile, role.Name, s, p.Seed, sweep).role()
		if err != nil {
			return backends.Spec{}, err
		}
		own := s.Roles[role.Name]
		if inImages(p.Backend.Kind) && s.Command == nil && own.Command == nil && s.Entrypoint == nil && own.Entrypoint == nil {
			r.Argv = inImage(r)
		}
		spec.Roles = append(spec.Roles, r)
	}
	return spec, nil
}

// inImages says whether a backend runs images.
func inImages(kind string) bool { return kind == "docker" || kind == "runpod" }

// inImage is the profile's own command line of a role as its image wants it.
func inImage(r backends.Role) func(backends.Address) ([]string, error) {
	return func(a backends.Address) ([]string, error) {
		argv, err := r.Argv(a)
		return engine.InImage(argv, r.Entrypoint), err
	}
}

// kindOf is what a backend knows an engine as: a profile of one's own is what it
// is like.
func kindOf(p *engine.Profile) string {
	if _, ok := engine.Lookup(p.Name); !ok && p.Like != "" {
		return p.Like
	}
	return p.Name
}

// expires is when a pod that is launched now ends itself at the latest; zero
// for one that ends with us.
func (d *deployment) expires(now time.Time) time.Time {
	if d.Lifetime <= 0 {
		return time.Time{}
	}
	return now.Add(d.Lifetime + d.Keep).Truncate(time.Second).UTC()
}

// A launchRecord is launch.json: what the server was started with. The port is
// chosen later; credentials stay references.
type launchRecord struct {
	Deployment string              `json:"deployment"`
	Pod        string              `json:"pod"`
	Backend    string              `json:"backend"`
	Server     plan.Server         `json:"server"`
	Argv       map[string][]string `json:"argv,omitempty"` // by role
}

func (d *deployment) launchRecord(spec backends.Spec) launchRecord {
	l := launchRecord{Deployment: d.ID, Pod: spec.Pod, Backend: d.Plan.Backend.Kind, Server: d.Server, Argv: map[string][]string{}}
	addresses := exampleAddresses(d.profile, spec, "HOST")
	for _, role := range spec.Roles {
		if role.Argv == nil {
			continue
		}
		argv, err := role.Argv(exampleOf(addresses, role.Name))
		if err == nil { // else the launch will say it
			l.Argv[role.Name] = argv
		}
	}
	return l
}
