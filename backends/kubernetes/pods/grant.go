package pods

import (
	"errors"

	"sweep.dev/sweep/backends"
)

var _ backends.Tenant = (*Backend)(nil)

// Grant implements [backends.Tenant]: what a launch needs, and what is needed for pods
// that cannot be reached and for nvidia-smi.
func (b *Backend) Grant() (backends.Grant, error) {
	if c := b.place.Cluster; c.Kubeconfig != "" || c.Context != "" {
		return backends.Grant{}, errors.New("backend: a pod uses its own account: leave out kubeconfig and context")
	}
	g := backends.Grant{Namespace: b.place.Namespace}
	for _, r := range rights {
		g.Rules = append(g.Rules, backends.Rule{Group: r.Group, Resources: []string{r.Resource}, Verbs: []string{r.Verb}})
	}
	g.Rules = append(g.Rules, backends.Rule{Resources: []string{"pods/exec", "pods/portforward"}, Verbs: []string{"create", "get"}})
	return g, nil
}
