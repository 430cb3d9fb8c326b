package rules

import (
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/plan/internal/strict"
)

// roles checks what a plan says of single roles of an engine.
func (c *Checked) roles() {
	for _, key := range c.engineKeys() {
		roles := c.Root.Get("engines").Get(key).Get("roles")
		if roles == nil || c.Profiles[key] == nil {
			continue
		}
		for _, e := range roles.Entries {
			name := e.Key.Text
			role := c.role(c.Profiles[key], e.Key, name)
			if role == nil {
				continue
			}
			c.command(c.Profiles[key], name, "engines", key, "roles", name, "command")
			if args := e.Value.Get("args"); args != nil {
				c.args(flagsOf(c.Profiles[key], role), args)
			}
		}
	}
}

// roleAxis holds an axis of a role against every engine that gets it.
func (c *Checked) roleAxis(axis string, kind axes.Kind) {
	at, name, arg := c.Key("matrix", axis), kind.Role, kind.Arg
	for _, key := range c.profileKeys() {
		role := c.role(c.Profiles[key], at, name)
		if role == nil {
			continue
		}
		given := c.Plan.Engines[key].Roles[name]
		if arg == "" {
			if given.Replicas > 0 {
				c.alsoAxis("engines", key, "roles", name, "replicas")
			}
			continue
		}
		flags := flagsOf(c.Profiles[key], role)
		c.arg(flags, at, arg)
		c.fixedArgs(flags, arg, given.Args, "engines", key, "roles", name, "args")
	}
}

// role returns a role of a profile by the name that stands at a place of the plan,
// or nil after a report.
func (c *Checked) role(profile *engine.Profile, at *syntax.Node, name string) *engine.Role {
	if r := profile.Role(name); r != nil {
		return r
	}
	var names []string
	for _, r := range profile.Roles {
		names = append(names, r.Name)
	}
	d := c.Report.Node(at, "unknown-role", "%s has no role %q", profile.Name, name)
	if len(names) == 0 {
		d.Hint = "sweep starts no server of this engine"
		return nil
	}
	d.Expected = strict.OneOf(names)
	d.Nearest = syntax.Nearest(name, names)
	return nil
}

// flagsOf returns the profile by which a role's arguments are judged: a frontend or a
// router has other flags than the engine, and no profile lists them.
func flagsOf(profile *engine.Profile, role *engine.Role) *engine.Profile {
	if role.Computes() {
		return profile
	}
	other := *profile
	other.Flags.Known, other.Flags.Reserved, other.Flags.Served = nil, nil, ""
	other.GPUs = engine.GPUs{}
	return &other
}
