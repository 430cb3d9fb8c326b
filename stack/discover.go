package stack

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/kubeapi"
)

// Discover finds the stack that a name in a namespace leads to: a route, a gateway, a
// pool, a service, an ingress, a graph of Dynamo, or labels as key=value. KIND/NAME
// chooses between objects of one name. An empty name is the only stack there is.
//
// It fails with a [kubeapi.Denied] if the user may not list pods; what else may not be
// read is a finding.
func Discover(ctx context.Context, api *kubeapi.Client, namespace, name string) (*Stack, error) {
	version, err := api.Version(ctx)
	if err != nil {
		return nil, err
	}
	held, err := review(ctx, api, namespace)
	if err != nil {
		return nil, err
	}
	c, err := collect(ctx, api, namespace)
	if err != nil {
		return nil, err
	}
	p, err := c.find(name)
	if err != nil {
		return nil, err
	}
	s := c.stack(p)
	s.Context, s.Server, s.Kubernetes, s.Rights = api.Context(), api.Server(), version.GitVersion, held
	return s, nil
}

// stack makes a stack of a part.
func (c *cluster) stack(p *part) *Stack {
	s := &Stack{Namespace: c.namespace, Name: p.name, APIs: append([]string{}, c.apis...), Entries: []Entry{}}
	roles := map[string]string{} // by pod
	byRole := map[string][]Pod{}
	for _, name := range sorted(p.pods) {
		one := c.pod(name)
		role := roleOf(one)
		if role == roleOther {
			role = roleServer // something leads to it
		}
		if isWorker(one) {
			role += " worker"
		}
		roles[name] = role
		byRole[role] = append(byRole[role], describe(one))
		if kind := kindOf(one); kind != "" && (s.Kind == "" || s.Kind == "llm-d") {
			s.Kind = kind // KServe's pods have labels of llm-d as well
		}
	}
	for name, pods := range byRole {
		s.Roles = append(s.Roles, Role{Name: name, Pods: pods})
	}
	slices.SortFunc(s.Roles, func(a, b Role) int {
		return cmp.Or(cmp.Compare(order(a.Name), order(b.Name)), strings.Compare(a.Name, b.Name))
	})
	s.Entries = append(s.Entries, c.entries(p, roles)...)
	s.Findings = append(append([]string{}, c.findings...), findings(s)...)
	return s
}

// order is the place of a role on the way of a request.
func order(role string) int {
	if at := slices.Index(roleOrder, role); at >= 0 {
		return at
	}
	return len(roleOrder)
}
