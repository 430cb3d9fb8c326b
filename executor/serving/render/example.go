package render

import (
	"cmp"
	"fmt"
	"maps"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/plan"
)

// A Command is how one role of a deployment would be started.
type Command struct {
	Role string
	Argv []string
	Env  map[string]string // of the profile and the plan; secrets stay references
}

// Commands returns how the roles of a deployment would be started on this machine,
// each on its engine's own ports.
func Commands(p *plan.Plan, d plan.Deployment, w With) ([]Command, error) {
	spec, err := Spec(p, d, w)
	if err != nil {
		return nil, err
	}
	profile, _ := p.Profile(d.Server.Profile)
	example := Example(profile, spec, "127.0.0.1")
	var out []Command
	for _, role := range spec.Roles {
		if role.Argv == nil {
			continue
		}
		a := example(role.Name)
		c := Command{Role: role.Name, Env: map[string]string{}}
		if c.Argv, err = role.Argv(a); err != nil {
			return nil, err
		}
		if role.Extra != nil {
			extra, err := role.Extra(a)
			if err != nil {
				return nil, err
			}
			maps.Copy(c.Env, extra.Env)
		}
		maps.Copy(c.Env, role.Env)
		for _, env := range []map[string]secret.String{d.Server.Env, d.Server.Roles[role.Name].Env} {
			for name, v := range env {
				c.Env[name] = v.Ref()
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// Example returns where the first replica of a role could listen: on a host, on
// its engine's own ports, with its peers there too.
func Example(p *engine.Profile, spec backends.Spec, host string) (of func(role string) backends.Address) {
	all := make(map[string][]backends.Address, len(spec.Roles))
	for _, role := range spec.Roles {
		of := p.Role(role.Name)
		if of == nil {
			continue
		}
		for n := range role.Replicas {
			all[role.Name] = append(all[role.Name], backends.Address{Host: host, Port: cmp.Or(of.Port, 8000) + n, Ports: of.Ports, Replica: n, Dir: fmt.Sprintf("DIR/%s-%d", role.Name, n)})
		}
	}
	return func(role string) backends.Address {
		a := backends.Address{Host: "HOST"}
		if list := all[role]; len(list) > 0 {
			a = list[0]
		}
		a.Peers = all
		return a
	}
}
