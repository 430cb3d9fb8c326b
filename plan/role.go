package plan

import (
	"cmp"
	"maps"
	"slices"

	"sweep.dev/sweep/engine"
)

// ArgsOf returns the engine's arguments for a role of tier engine: those of the
// server with the role's own in their place.
func (s Server) ArgsOf(p *engine.Profile, role string) []Arg {
	own := s.Roles[role].ArgList()
	args := slices.DeleteFunc(slices.Clone(s.Args), func(a Arg) bool {
		return slices.ContainsFunc(own, func(o Arg) bool { return p.ArgName(o.Name) == p.ArgName(a.Name) })
	})
	return append(args, own...)
}

// ArgList returns the arguments of the role alone, sorted by name.
func (r Role) ArgList() []Arg { return ArgList(r.Args) }

// ArgList returns arguments, sorted by name.
func ArgList(args map[string]any) []Arg {
	var list []Arg
	for _, name := range slices.Sorted(maps.Keys(args)) {
		list = append(list, Arg{Name: name, Value: args[name]})
	}
	return list
}

// CommandOf returns the command line that the plan gives a role in place of the
// profile's; nil for none.
func (s Server) CommandOf(p *engine.Profile, role string) []string {
	if own := s.Roles[role].Command; own != nil || len(p.Roles) > 1 {
		return own
	}
	return s.Command
}

// ReplicasOf returns how many replicas of a role are started.
func (s Server) ReplicasOf(role *engine.Role) int {
	return cmp.Or(s.Roles[role.Name].Replicas, role.Replicas, 1)
}
