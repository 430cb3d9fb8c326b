package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/plan"
)

// A renderer makes what the replicas of one role are started with: of the
// profile, of what the plan says of the engine, and of what it says of the role.
type renderer struct {
	profile *engine.Profile // as of the version that the plan's image names
	of      *engine.Role
	own     plan.Role
	server  plan.Server
	seed    uint64
	sweep   string
}

func newRenderer(p *engine.Profile, role string, s plan.Server, seed uint64, sweep string) *renderer {
	own := s.Roles[role]
	p = p.At(engine.ImageVersion(cmp.Or(own.Image, s.Image)))
	return &renderer{profile: p, of: p.Role(role), own: own, server: s, seed: seed, sweep: sweep}
}

// role returns what a backend needs to know of it. Its ports are the backend's to
// choose.
func (r *renderer) role() (backends.Role, error) {
	env := reveal(r.server.Env)
	maps.Copy(env, reveal(r.own.Env))
	out := backends.Role{
		Name: r.of.Name, Replicas: r.server.ReplicasOf(r.of), GPUs: r.server.GPUsOf(r.of.Name),
		Env: env, Argv: r.argv, Args: named(r.argsOfRole()), KeyEnv: r.of.KeyEnv,
		Image: cmp.Or(r.own.Image, r.server.Image, r.of.Image), Entrypoint: r.of.Entrypoint, CPUs: r.server.CPUs,
	}
	for _, own := range [][]string{r.server.Entrypoint, r.own.Entrypoint} {
		if own != nil {
			out.Entrypoint = own
		}
	}
	if r.own.CPUs != nil {
		out.CPUs = r.own.CPUs
	}
	switch m := r.profile.MetricsOf(r.of.Name); {
	case m.Flag != "":
		out.MetricsFlag = m.Flag // nobody turns them on
	case m.Path != "":
		out.MetricsPaths, out.MetricsPort = append([]string{m.Path}, m.Fallback...), m.Port
	}
	for name, role := range r.profile.Logs.Containers {
		if role == r.of.Name {
			out.Containers = append(out.Containers, name)
		}
	}
	slices.Sort(out.Containers)
	for name := range r.of.Ports {
		if out.Ports == nil {
			out.Ports = make(map[string]int)
		}
		out.Ports[name] = 0
	}
	// Variables that are the same at each place reach every backend; the rest
	// only one that can carry them.
	for name, text := range r.of.Env {
		if _, given := env[name]; given {
			continue
		}
		if strings.Contains(text, "{{") {
			out.Extra = r.extra
			continue
		}
		env[name] = text
	}
	files := len(r.of.Files) > 0
	if r.of.Computes() && r.profile.Flags.Nested != "" {
		_, made, err := r.profile.Extra(r.of.Name, r.vars(backends.Address{Host: "HOST", Dir: "DIR", Peers: map[string][]backends.Address{}}), r.args())
		files = files || err != nil || len(made) > 0 // an error shows when it is rendered
	}
	if files {
		out.Extra = r.extra
	}
	return out, nil
}

// argv returns the command line of one replica.
func (r *renderer) argv(a backends.Address) ([]string, error) {
	command := r.server.CommandOf(r.profile, r.of.Name)
	argv, err := r.profile.Argv(r.of.Name, r.vars(a), r.args(), command)
	if err == nil && !r.of.Computes() {
		argv, err = r.withOwnFlags(argv, command)
	}
	if err != nil {
		return nil, fmt.Errorf("command line of %s: %w", r.server.Engine, err)
	}
	return argv, nil
}

// withOwnFlags adds a frontend's or a router's own arguments, which are flags of
// no engine: all but those that its command line has used already.
func (r *renderer) withOwnFlags(argv, command []string) ([]string, error) {
	if len(r.own.Args) == 0 {
		return argv, nil
	}
	if command == nil {
		command = r.of.Command
	}
	plain := &engine.Profile{
		Name:  r.profile.Name,
		Flags: engine.Flags{Style: r.profile.Flags.Style, Lists: r.profile.Flags.Lists, Negate: r.profile.Flags.Negate},
		Roles: []engine.Role{{Name: r.of.Name, Command: []string{""}}},
	}
	var own []engine.Arg
	for _, a := range r.own.ArgList() {
		quoted := fmt.Sprintf("arg %q", a.Name)
		if !slices.ContainsFunc(command, func(text string) bool { return strings.Contains(text, quoted) }) {
			own = append(own, a)
		}
	}
	flags, err := plain.Argv(r.of.Name, engine.Vars{}, own, nil)
	if err != nil {
		return nil, err
	}
	return append(argv, flags[1:]...), nil
}

// extra returns what a replica gets beside its command line.
func (r *renderer) extra(a backends.Address) (backends.Extra, error) {
	env, files, err := r.profile.Extra(r.of.Name, r.vars(a), r.args())
	if err != nil {
		return backends.Extra{}, fmt.Errorf("what %s is configured with: %w", r.server.Engine, err)
	}
	return backends.Extra{Env: env, Files: files}, nil
}

// args returns the plan's arguments of the engine with the role's own over them.
func (r *renderer) args() []engine.Arg { return r.server.ArgsOf(r.profile, r.of.Name) }

// argsOfRole returns the arguments that reach this role: a frontend's and a router's
// are no flags of the engine.
func (r *renderer) argsOfRole() []engine.Arg {
	if !r.of.Computes() {
		return r.own.ArgList()
	}
	return r.args()
}

func named(args []engine.Arg) map[string]any {
	m := make(map[string]any, len(args))
	for _, a := range args {
		m[a.Name] = a.Value
	}
	return m
}

func (r *renderer) vars(a backends.Address) engine.Vars {
	s := r.server
	v := engine.Vars{
		Model: s.Model, Served: s.Served, Host: a.Listen(), Port: a.Port, Ports: a.Ports, Dir: a.Dir,
		Replica: a.Replica, GPU: s.GPU, GPUs: s.GPUsOf(r.of.Name), Seed: r.seed, Sweep: r.sweep,
	}
	if s.Served == s.Model {
		v.Served = ""
	}
	if a.Peers != nil {
		v.Peers = make(map[string][]engine.Address, len(a.Peers))
	}
	for role, list := range a.Peers {
		for _, p := range list {
			v.Peers[role] = append(v.Peers[role], engine.Address{Host: p.Host, Port: p.Port, Ports: p.Ports, Dir: p.Dir})
		}
	}
	return v
}

func reveal(env map[string]secret.String) map[string]string {
	out := make(map[string]string, len(env))
	for k, v := range env {
		out[k] = v.Reveal()
	}
	return out
}
