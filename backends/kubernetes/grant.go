package kubernetes

import (
	"errors"
	"fmt"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/stack"
)

var _ backends.Tenant = (*Backend)(nil)

// Grant implements [backends.Tenant]: what the shipped Role has, and what it takes to make
// the objects of the plan's manifests.
func (b *Backend) Grant() (backends.Grant, error) {
	if err := ownAccount(b.cluster.Kubeconfig, b.cluster.Context); err != nil {
		return backends.Grant{}, err
	}
	g := backends.Grant{Namespace: b.namespace}
	for _, r := range stack.Rights() {
		g.Rules = append(g.Rules, backends.Rule{Group: r.Group, Resources: []string{r.Resource}, Verbs: []string{r.Verb}})
	}
	if b.manifests == nil {
		return g, nil
	}
	// The Job that owns the objects, which the cluster deletes with it.
	g.Rules = append(g.Rules, backends.Rule{Group: "batch", Resources: []string{"jobs"}, Verbs: []string{"create", "get", "list", "patch", "delete"}})
	seen := map[string]bool{}
	for _, o := range b.manifests.Objects {
		group, resource := o.Group(), resourceOf(o.Kind)
		if !seen[group+"/"+resource] {
			seen[group+"/"+resource] = true
			g.Rules = append(g.Rules, backends.Rule{Group: group, Resources: []string{resource}, Verbs: []string{"create", "get"}})
		}
	}
	return g, nil
}

// resourceOf is the resource of a kind, as the API's own rules spell it. No cluster is asked.
func resourceOf(kind string) string {
	name := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(name, "s"):
		return name + "es"
	case strings.HasSuffix(name, "y"):
		return strings.TrimSuffix(name, "y") + "ies"
	}
	return name + "s"
}

// ownAccount refuses what leads a pod to another account than its own.
func ownAccount(kubeconfig, context string) error {
	var errs []error
	for _, set := range [][2]string{{"kubeconfig", kubeconfig}, {"context", context}} {
		if set[1] != "" {
			errs = append(errs, fmt.Errorf("backend.%s: a pod uses its own account: leave out %s", set[0], set[1]))
		}
	}
	return errors.Join(errs...)
}
