package plan

import (
	"fmt"

	"sweep.dev/sweep/engine"
)

// GPUsOf returns how many GPUs one replica of a role has: 0 for a frontend or a
// router.
func (s Server) GPUsOf(role string) int {
	if s.RoleGPUs == nil {
		return s.GPUCount
	}
	return s.RoleGPUs[role]
}

// ReplicaGPUs returns how many GPUs one replica of the role with the most has: those
// that share a model.
func (s Server) ReplicaGPUs() int {
	if s.RoleGPUs == nil {
		return s.GPUCount
	}
	most := 0
	for _, n := range s.RoleGPUs {
		most = max(most, n)
	}
	return most
}

// Parallelism returns how one replica of a role spreads over GPUs by its arguments.
func (s Server) Parallelism(p *engine.Profile, role string) (engine.Parallelism, []engine.WrongSize) {
	v := engine.Vars{Model: s.Model, Served: s.Served, GPU: s.GPU, GPUs: max(1, s.GPUsOf(role))}
	return p.Parallelism(role, v, s.ArgsOf(p, role), s.CommandOf(p, role))
}

// TensorParallel returns how many GPUs share each layer of a replica of a role, if its
// arguments tell.
func (s Server) TensorParallel(p *engine.Profile, role string) (n int, known bool) {
	of, wrong := s.Parallelism(p, role)
	if wrong != nil || !of.Known {
		return 0, false
	}
	for _, size := range of.Sizes {
		if size.Name == engine.TensorParallel {
			return size.N, true
		}
	}
	return 1, true
}

// Copies returns how many copies of the model the arguments and replicas of a server have, which
// requests are spread over: data parallel ranks, replicas, and all roles that compute. 0 is
// not known.
func (s Server) Copies(p *engine.Profile) int {
	n := 0
	for i := range p.Roles {
		role := &p.Roles[i]
		if !role.Computes() {
			continue
		}
		of, wrong := s.Parallelism(p, role.Name)
		if wrong != nil {
			return 0
		}
		ranks := 1
		for _, size := range of.Sizes {
			if size.Name == engine.DataParallel {
				ranks = size.N
			}
		}
		n += ranks * s.ReplicasOf(role)
	}
	return n
}

// MovesByNIXL reports whether both sides of a server that prefills and decodes apart move KV
// caches by NIXL.
func (s Server) MovesByNIXL(p *engine.Profile) bool {
	v := engine.Vars{Model: s.Model, Served: s.Served, GPU: s.GPU, GPUs: 1}
	for _, role := range []string{engine.RolePrefill, engine.RoleDecode} {
		if !p.MovesByNIXL(role, v, s.ArgsOf(p, role), s.CommandOf(p, role)) {
			return false
		}
	}
	return true
}

// GPUCounted is how many GPUs a server has, and how the sum is made.
type GPUCounted struct {
	Total int
	Each  map[string]int // of one replica of each role
	Parts []string       // in a person's words
	// Wrong are arguments of Role that are no number of GPUs: nothing is counted.
	Wrong []engine.WrongSize
	Role  string
}

// CountGPUs counts what the arguments of a server say, times the replicas, summed
// over its roles. declared is the plan's gpu_count, 0 for none: it fills in what
// the arguments do not say. known is false if only the plan can say how many
// there are, as of a server that runs already.
func (s Server) CountGPUs(profile *engine.Profile, backend PluginDoc, declared int) (out GPUCounted, known bool) {
	if profile == nil || len(profile.Roles) == 0 || backend.Given {
		return out, false
	}
	type counted struct {
		role     *engine.Role
		of       engine.Parallelism
		replicas int
	}
	var roles []counted
	open := 0 // replicas of which the arguments say nothing
	for i := range profile.Roles {
		c := counted{role: &profile.Roles[i]}
		c.replicas = s.ReplicasOf(c.role)
		if c.of, out.Wrong = s.Parallelism(profile, c.role.Name); out.Wrong != nil {
			out.Role = c.role.Name
			return out, true
		}
		if c.of.Known {
			out.Total += c.of.GPUs * c.replicas
		} else {
			open += c.replicas
		}
		roles = append(roles, c)
	}
	each := 1
	if declared > 0 && open > 0 {
		each = max(1, (declared-out.Total)/open)
	}
	out.Each = make(map[string]int, len(roles))
	for _, c := range roles {
		n := c.of.GPUs
		if !c.of.Known {
			n = each
			out.Total += n * c.replicas
		}
		out.Each[c.role.Name] = n
		if n == 0 {
			continue
		}
		part := c.of.String()
		if len(c.of.Sizes) == 0 {
			part = fmt.Sprintf("%d each", n)
		}
		out.Parts = append(out.Parts, fmt.Sprintf("%d %s, %s", c.replicas, c.role.Name, part))
	}
	return out, true
}
