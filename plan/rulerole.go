package plan

import (
	"maps"
	"slices"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan/internal/strict"
)

// checkRoles checks what a plan says of single roles of an engine.
func (l *loader) checkRoles(p *Plan, key string, profile *engine.Profile) {
	roles := l.root.Get("engines").Get(key).Get("roles")
	if roles == nil {
		return
	}
	for _, e := range roles.Entries {
		name := e.Key.Text
		role := l.role(profile, e.Key, name)
		if role == nil {
			continue
		}
		l.checkCommand(profile, name, "engines", key, "roles", name, "command")
		if args := e.Value.Get("args"); args != nil {
			l.checkArgs(flagsOf(profile, role), args)
		}
		for env := range p.Engines[key].Roles[name].Env {
			if !envName.MatchString(env) {
				l.Report.Node(l.key("engines", key, "roles", name, "env", env), "value", "%q cannot be the name of an environment variable", env)
			}
		}
	}
}

// checkRoleAxis holds an axis of a role against every engine that gets it.
func (l *loader) checkRoleAxis(p *Plan, at *syntax.Node, name, arg string) {
	for _, key := range slices.Sorted(maps.Keys(l.profiles)) {
		profile := l.profiles[key]
		role := l.role(profile, at, name)
		if role == nil {
			continue
		}
		given := p.Engines[key].Roles[name]
		if arg == "" {
			if given.Replicas > 0 {
				l.conflict("keep one of them", path("engines", key, "roles", name, "replicas"), "engines.%s.roles.%s.replicas is also an axis of the matrix", key, name)
			}
			continue
		}
		flags := flagsOf(profile, role)
		l.checkArg(flags, at, arg)
		for fixed := range given.Args {
			if flags.ArgName(fixed) == flags.ArgName(arg) {
				l.conflict("keep one of them", path("engines", key, "roles", name, "args", fixed), "engines.%s.roles.%s.args.%s is also an axis of the matrix", key, name, fixed)
			}
		}
	}
}

// role is a role of a profile by the name that stands at a place of the plan,
// or nil after a report.
func (l *loader) role(profile *engine.Profile, at *syntax.Node, name string) *engine.Role {
	if r := profile.Role(name); r != nil {
		return r
	}
	var names []string
	for _, r := range profile.Roles {
		names = append(names, r.Name)
	}
	d := l.Report.Node(at, "unknown-role", "%s has no role %q", profile.Name, name)
	if len(names) == 0 {
		d.Hint = "sweep starts no server of this engine"
		return nil
	}
	d.Expected = strict.OneOf(names)
	d.Nearest = syntax.Nearest(name, names)
	return nil
}

// flagsOf is the profile by which a role's arguments are judged: a frontend or
// a router has other flags than the engine, which nobody has listed.
func flagsOf(profile *engine.Profile, role *engine.Role) *engine.Profile {
	if role.Computes() {
		return profile
	}
	other := *profile
	other.Flags.Known, other.Flags.Reserved, other.Flags.Served = nil, nil, ""
	other.GPUs = engine.GPUs{}
	return &other
}
