package plan

import (
	"fmt"
	"strings"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/syntax"
)

// GPUsOf is how many GPUs one replica of a role has: 0 for a frontend or a
// router.
func (s Server) GPUsOf(role string) int {
	if s.RoleGPUs == nil {
		return s.GPUCount
	}
	return s.RoleGPUs[role]
}

// ReplicaGPUs is how many GPUs one replica of the role with the most has: those
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

// Parallelism is how one replica of a role spreads over GPUs by its arguments.
func (s Server) Parallelism(p *engine.Profile, role string) (engine.Parallelism, []engine.WrongSize) {
	v := engine.Vars{Model: s.Model, Served: s.Served, GPU: s.GPU, GPUs: max(1, s.GPUsOf(role))}
	return p.Parallelism(role, v, s.ArgsOf(p, role), s.CommandOf(p, role))
}

// countGPUs sets how many GPUs a server has: what its arguments say, times the
// replicas, summed over its roles. declared is the plan's gpu_count, 0 for none.
// It fills in what the arguments do not say, and must agree with what they do.
func (s *servers) countGPUs(out *Server, declared int) {
	out.GPUCount = max(1, declared)
	profile := s.l.profiles[out.Engine]
	if profile == nil || len(profile.Roles) == 0 || s.l.backend.Given {
		return // of a server that runs already only the plan can say it
	}
	type counted struct {
		role     *engine.Role
		of       engine.Parallelism
		replicas int
	}
	var roles []counted
	total, open := 0, 0 // open: replicas of which the arguments say nothing
	for i := range profile.Roles {
		c := counted{role: &profile.Roles[i]}
		c.replicas = out.ReplicasOf(c.role)
		var wrong []engine.WrongSize
		if c.of, wrong = out.Parallelism(profile, c.role.Name); wrong != nil {
			s.wrongSizes(*out, c.role.Name, wrong)
			return
		}
		if c.of.Known {
			total += c.of.GPUs * c.replicas
		} else {
			open += c.replicas
		}
		roles = append(roles, c)
	}
	each := 1
	if declared > 0 && open > 0 {
		each = max(1, (declared-total)/open)
	}
	out.RoleGPUs = make(map[string]int, len(roles))
	var parts []string
	for _, c := range roles {
		n := c.of.GPUs
		if !c.of.Known {
			n = each
			total += n * c.replicas
		}
		out.RoleGPUs[c.role.Name] = n
		if n == 0 {
			continue
		}
		part := c.of.String()
		if len(c.of.Sizes) == 0 {
			part = fmt.Sprintf("%d each", n)
		}
		parts = append(parts, fmt.Sprintf("%d %s, %s", c.replicas, c.role.Name, part))
	}
	out.GPUCount = total
	if declared > 0 && declared != total {
		s.contradicted(*out, profile, declared, strings.Join(parts, " + "))
	}
}

// contradicted reports a gpu_count that the engine's arguments contradict, once
// for each pair of numbers.
func (s *servers) contradicted(out Server, profile *engine.Profile, declared int, sum string) {
	if !s.first(fmt.Sprintf("gpu_count %s %d %d", out.Engine, declared, out.GPUCount)) {
		return
	}
	at := s.l.key("matrix", "gpu_count")
	for _, n := range s.l.axisNodes("gpu_count") {
		if n.Text == fmt.Sprint(declared) {
			at = n
		}
	}
	if sum == "" {
		sum = "it needs no GPU"
	}
	d := s.l.Report.Node(at, "gpu-count", "gpu_count is %d, and %s uses %d (%s)", declared, out.Engine, out.GPUCount, sum)
	d.Hint = "leave gpu_count out: it follows from the arguments and the replicas"
	if arg := profile.TensorArg(); arg != "" && declared > out.GPUCount {
		d.Hint = fmt.Sprintf("leave gpu_count out and write args.%s: it follows from the arguments and the replicas", arg)
	}
}

// wrongSizes reports arguments that are no number of GPUs, once each.
func (s *servers) wrongSizes(out Server, role string, wrong []engine.WrongSize) {
	for _, w := range wrong {
		if !s.first("size " + out.Engine + " " + w.String()) {
			continue
		}
		d := s.l.Report.Node(s.argNode(out.Engine, role, w.Arg), "value", "%s", w)
		d.Hint = "sweep needs the number of GPUs to know the server's price"
	}
}

// argNode is where the plan gives an argument to a role of an engine, else where
// it gives a command, else the engine's own place.
func (s *servers) argNode(key, role, arg string) *syntax.Node {
	profile := s.l.profiles[key]
	for _, at := range [][]string{{"engines", key, "roles", role, "args"}, {"engines", key, "args"}} {
		if n, ok := s.l.root.At(at...); ok {
			for _, e := range n.Entries {
				if profile.ArgName(e.Key.Text) == profile.ArgName(arg) {
					return e.Value
				}
			}
		}
	}
	for _, a := range s.p.Matrix.Axes {
		kind := a.kind
		if own := kind.role == "" || kind.role == role; own && kind.arg != "" && profile.ArgName(kind.arg) == profile.ArgName(arg) {
			return s.l.key("matrix", a.Name)
		}
	}
	for _, at := range [][]string{{"engines", key, "roles", role, "command"}, {"engines", key, "command"}, {"engines", key}} {
		if s.l.has(at...) {
			return s.l.key(at...)
		}
	}
	return s.l.key("matrix", "engine")
}

// first says whether a problem is met for the first time.
func (s *servers) first(what string) bool {
	again := s.met[what]
	s.met[what] = true
	return !again
}
