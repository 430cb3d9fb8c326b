package serving

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/executor/serving/ready"
	"sweep.dev/sweep/executor/serving/render"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/plan"
)

// spec returns what the backend needs to know of this launch.
func (d *Servers) spec(n int, dir string) (backends.Spec, error) {
	spec, err := render.Spec(d.config.Plan, d.of, d.config.Options.With())
	if err != nil {
		return spec, err
	}
	spec.Owner, spec.RunID = d.config.State.Manifest.Owner, d.config.State.Manifest.RunID
	spec.Pod = layout.Pod(d.of.ID, n)
	spec.Expires = d.expires(time.Now())
	if known, ok := d.config.Backend.(backends.Standing); ok {
		spec.Roles = standing(known, spec)
	}
	for i := range spec.Roles {
		name := spec.Roles[i].Name
		spec.Roles[i].LogPath = func(replica int) string {
			return filepath.Join(dir, layout.ServerLog(name, replica))
		}
		// The server's own readiness covers the entry alone, so each other role has its own.
		if d.config.Options.Given {
			continue
		}
		if i < len(spec.Roles)-1 || name != d.profile.EntryRole() {
			spec.Roles[i].Started = d.started(d.profile.Role(name), spec.Roles[i].LogPath)
		}
	}
	return spec, nil
}

// standing returns the roles of a spec that stand already, with the replicas that
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

// expires returns when a pod that is launched now ends itself at the latest; zero
// for one that ends with us.
func (d *Servers) expires(now time.Time) time.Time {
	if d.config.Options.Lifetime <= 0 {
		return time.Time{}
	}
	return now.Add(d.config.Options.Lifetime + d.config.Options.Keep).Truncate(time.Second).UTC()
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

func (d *Servers) launchRecord(spec backends.Spec) launchRecord {
	l := launchRecord{Deployment: d.of.ID, Pod: spec.Pod, Backend: d.config.Plan.Backend.Kind, Server: d.of.Server, Argv: map[string][]string{}}
	example := render.Example(d.profile, spec, "HOST")
	for _, role := range spec.Roles {
		if role.Argv == nil {
			continue
		}
		argv, err := role.Argv(example(role.Name))
		if err == nil { // else the launch will say it
			l.Argv[role.Name] = argv
		}
	}
	return l
}

// check waits for the servers of this deployment.
func (d *Servers) check() *ready.Check {
	return &ready.Check{
		Profile: d.profile, Of: d.of, Given: d.config.Options.Given, Patience: d.config.Options.Patience,
		Mask: d.config.Mask, Asked: func(path string) { d.measurer.Asked(path) },
		Show: func(step, last string) {
			d.emit(event.Event{Type: event.Waiting, Step: step, Label: d.label, Text: last})
		},
	}
}

// started returns a function that a backend calls behind each role: it returns when a replica is
// ready as its role's profile wants it, and has the time that a whole server has for
// that. Nil if it is ready at once.
func (d *Servers) started(role *engine.Role, logPath func(int) string) func(context.Context, host.Host, int) error {
	if role == nil || role.Ready == (engine.RoleReady{}) {
		return nil
	}
	timeout := d.config.Plan.ReadyTimeout(d.profile)
	return func(ctx context.Context, h host.Host, replica int) error {
		ctx, cancel := WithLimit(ctx, "timeouts.ready", timeout)
		defer cancel()
		return d.check().Role(ctx, role.Ready, h, logPath(replica), fmt.Sprintf("until %s %d is ready", role.Name, replica))
	}
}

// waits reports whether a launch of these roles waits for one of them.
func waits(roles []backends.Role) bool {
	for _, r := range roles {
		if r.Started != nil {
			return true
		}
	}
	return false
}
