package kubernetes

import (
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/stack"
)

// profileRoles are the names that engine profiles have for the roles of stacks, the best
// first.
var profileRoles = map[string][]string{
	"gateway":        {"gateway"},
	"proxy":          {"gateway"},
	"frontend":       {"frontend"},
	"router":         {"epp", "router"},
	"prefill":        {"prefill"},
	"decode":         {"decode", "worker", "server"},
	"worker":         {"worker", "server", "decode"},
	"server":         {"server", "worker", "decode"},
	"prefill-decode": {"server", "worker", "decode"},
}

// picker is the role of a stack whose metrics may want a token.
const picker = "router"

// engines are the roles of stacks in which an engine computes.
var engines = []string{"prefill", "decode", "worker", "server", "prefill-decode", "encode"}

// profileRole returns the role of a spec that a role of a stack plays, or "".
func profileRole(spec *backends.Spec, role string) string {
	for _, name := range profileRoles[role] {
		if slices.ContainsFunc(spec.Roles, func(r backends.Role) bool { return r.Name == name }) {
			return name
		}
	}
	return ""
}

// besides returns the roles of a spec that containers of a pod play beside its main one, and
// whose metrics are on.
func besides(spec *backends.Spec, p *stack.Pod) (all []place) {
	for _, r := range spec.Roles {
		if r.MetricsFlag == "" {
			continue
		}
		for i := range p.Containers {
			c := &p.Containers[i]
			if port := c.FlagPort(r.MetricsFlag); port > 0 && !c.Main && slices.Contains(r.Containers, c.Name) {
				all = append(all, place{plays: r.Name, pod: *p, port: port})
			}
		}
	}
	return all
}

// leads reports whether the pods of a role of a stack answer for themselves: the workers of
// a group have no server of their own.
func leads(role string) bool { return !strings.HasSuffix(role, " worker") }

// roleless returns the roles of a stack that compute and that the engine of a plan does not
// have, so that no column is of them.
func roleless(spec *backends.Spec, s *stack.Stack) (names []string) {
	for i := range s.Roles {
		if name := s.Roles[i].Name; slices.Contains(engines, name) && profileRole(spec, name) == "" {
			names = append(names, name)
		}
	}
	return names
}

var _ backends.Paired = (*deployment)(nil)

// Pairs implements [backends.Paired]. Pods that are not ready are in none.
func (d *deployment) Pairs() (prefill, decode []string, state string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for i := range d.stack.Roles {
		r := &d.stack.Roles[i]
		to := map[string]*[]string{"prefill": &prefill, "decode": &decode}[r.Name]
		if to == nil {
			continue
		}
		for j := range r.Pods {
			if p := &r.Pods[j]; p.Ready {
				*to = append(*to, p.Name)
				all = append(all, fmt.Sprintf("%s/%d", p.UID, p.Restarts()))
			}
		}
	}
	slices.Sort(all)
	return prefill, decode, strings.Join(all, " ")
}
