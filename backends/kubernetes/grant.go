package kubernetes

import (
	"errors"
	"fmt"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/manifests"
	"sweep.dev/sweep/backends/kubernetes/stack"
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
	if b.manifests != nil {
		g.Rules = append(g.Rules, manifests.Rules(b.manifests)...)
	}
	return g, nil
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
