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
	v, err := Open(ctx, api, namespace, name)
	if err != nil {
		return nil, err
	}
	return v.Stack, nil
}

// A View is a stack that can be looked at again.
type View struct {
	Stack *Stack // as it was seen last

	api     *kubeapi.Client
	name    string
	cluster *cluster
}

// Open is [Discover] for one who looks more than once.
func Open(ctx context.Context, api *kubeapi.Client, namespace, name string) (*View, error) {
	version, err := api.Version(ctx)
	if err != nil {
		return nil, err
	}
	held, err := review(ctx, api, namespace)
	if err != nil {
		return nil, err
	}
	v := &View{api: api, name: name, cluster: &cluster{namespace: namespace}, Stack: &Stack{
		Context: api.Context(), Server: api.Server(), Kubernetes: version.GitVersion, Rights: held,
	}}
	return v, v.Look(ctx)
}

// Look reads the whole stack again. What was seen before stays beside an error.
func (v *View) Look(ctx context.Context) error {
	c, err := collect(ctx, v.api, v.cluster.namespace)
	if err != nil {
		return err
	}
	return v.see(c)
}

// LookAtPods reads the pods again and nothing else, which is one request.
func (v *View) LookAtPods(ctx context.Context) error {
	c := *v.cluster
	var err error
	if c.pods, err = kubeapi.List[pod](ctx, v.api, podsOf(c.namespace)); err != nil {
		return err
	}
	return v.see(&c)
}

func (v *View) see(c *cluster) error {
	p, err := c.find(v.name)
	if err != nil {
		return err
	}
	s := c.stack(p)
	s.Context, s.Server, s.Kubernetes, s.Rights = v.Stack.Context, v.Stack.Server, v.Stack.Kubernetes, v.Stack.Rights
	v.cluster, v.Stack = c, s
	return nil
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

// order returns the place of a role on the way of a request.
func order(role string) int {
	if at := slices.Index(roleOrder, role); at >= 0 {
		return at
	}
	return len(roleOrder)
}
