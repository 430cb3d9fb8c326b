package executor

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/plan"
)

// spec is what the backend needs to know of this launch.
func (d *deployment) spec(n int, dir string) (backends.Spec, error) {
	spec, err := Specify(d.Plan, d.Deployment, d.Sweep)
	if err != nil {
		return spec, err
	}
	spec.Owner, spec.RunID = d.State.Manifest.Owner, d.State.Manifest.RunID
	spec.Pod = fmt.Sprintf("%s-l%02d", d.ID, n)
	spec.Expires = d.expires(time.Now())
	for i := range spec.Roles {
		name := spec.Roles[i].Name
		spec.Roles[i].LogPath = func(replica int) string {
			return filepath.Join(dir, name+"-"+strconv.Itoa(replica)+".log")
		}
	}
	return spec, nil
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
	env := map[string]string{}
	for k, v := range s.Env {
		env[k] = v.Reveal()
	}
	spec := backends.Spec{
		Engine: s.Profile, Model: s.Model, Args: make(map[string]any, len(s.Args)),
		GPU: s.GPU, GPUs: s.GPUCount, Seed: p.Seed, Grace: p.Timeouts.Stop,
		// The same server, in whatever run.
		Digest: p.Backend.Kind + "-" + d.ID,
	}
	for _, a := range s.Args {
		spec.Args[a.Name] = a.Value
	}
	roles := profile.Roles
	if len(roles) == 0 {
		roles = []engine.Role{{Name: "server"}}
	}
	for _, role := range roles {
		r := backends.Role{
			Name: role.Name, Replicas: 1, Env: merge(role.Env, env), CPUs: s.CPUs,
			Image: cmp.Or(s.Image, role.Image), Entrypoint: entrypoint(s, role), KeyEnv: role.KeyEnv,
		}
		if len(profile.Roles) > 0 { // else it is an engine that runs already
			r.Argv = func(a backends.Address) ([]string, error) { return Argv(profile, role.Name, s, p.Seed, sweep, a) }
		}
		spec.Roles = append(spec.Roles, r)
	}
	return spec, nil
}

// expires is when a pod that is launched now ends itself at the latest; zero
// for one that ends with us.
func (d *deployment) expires(now time.Time) time.Time {
	if d.Lifetime <= 0 {
		return time.Time{}
	}
	return now.Add(d.Lifetime + d.Keep).Truncate(time.Second).UTC()
}

// entrypoint is the ENTRYPOINT of a role's image: the plan's, where it names an
// image of its own, else the profile's.
func entrypoint(s plan.Server, role engine.Role) []string {
	if s.Entrypoint != nil {
		return s.Entrypoint
	}
	return role.Entrypoint
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
	for _, role := range d.profile.Roles {
		argv, err := d.argv(role.Name, backends.Address{Host: "HOST", Port: role.Port})
		if err == nil { // else the launch will say it
			l.Argv[role.Name] = argv
		}
	}
	return l
}

func (d *deployment) argv(role string, a backends.Address) ([]string, error) {
	return Argv(d.profile, role, d.Server, d.Plan.Seed, d.Sweep, a)
}

// Argv is the command line of one replica of a role. sweep is the path of this
// program, for engines that are part of it.
func Argv(p *engine.Profile, role string, s plan.Server, seed uint64, sweep string, a backends.Address) ([]string, error) {
	args := make([]engine.Arg, len(s.Args))
	for i, arg := range s.Args {
		args[i] = engine.Arg{Name: arg.Name, Value: arg.Value}
	}
	vars := engine.Vars{Model: s.Model, Served: s.Served, Host: a.Host, Port: a.Port, GPU: s.GPU, GPUs: s.GPUCount, Seed: seed, Sweep: sweep}
	if s.Served == s.Model {
		vars.Served = ""
	}
	argv, err := p.Argv(role, vars, args, s.Command)
	if err != nil {
		return nil, fmt.Errorf("command line of %s: %w", s.Engine, err)
	}
	return argv, nil
}
