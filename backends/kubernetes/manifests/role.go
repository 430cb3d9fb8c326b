package manifests

import (
	"cmp"
	"fmt"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/stack"
	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/internal/syntax"
)

// Rules returns what it takes to make the objects of manifests.
func Rules(set *manifest.Set) []backends.Rule {
	// The Job that owns the objects, which the cluster deletes with it.
	rules := []backends.Rule{{Group: "batch", Resources: []string{"jobs"}, Verbs: []string{"create", "get", "list", "patch", "delete"}}}
	// Why a pod does not start, where it does not say that itself.
	rules = append(rules, backends.Rule{Resources: []string{"events"}, Verbs: []string{"list"}})
	seen := map[string]bool{}
	for _, o := range set.Objects {
		group, resource := o.Group(), resourceOf(o.Kind)
		if !seen[group+"/"+resource] {
			seen[group+"/"+resource] = true
			rules = append(rules, backends.Rule{Group: group, Resources: []string{resource}, Verbs: []string{"create", "get"}})
		}
	}
	return rules
}

// RoleYAML returns the Role, as a manifest, with which a run makes the objects of some files in
// a namespace and measures the stack that they are. No cluster is asked for the resources
// of their kinds.
func RoleYAML(namespace string, files []manifest.File) (string, error) {
	var r syntax.Report
	set := manifest.Parse(files, &r)
	if err := cmp.Or(r.Err(), Check(set, namespace)); err != nil {
		return "", err
	}
	_, role, _ := strings.Cut(stack.RoleYAML(namespace), "apiVersion:")
	role = strings.Replace(role, "name: sweep-attach", "name: sweep-manifests", 1)
	var b strings.Builder
	b.WriteString("# What sweep needs to make the objects of some manifests, to measure the stack that they\n" +
		"# are, and to delete them. Bind it to the user or account that sweep runs as.\napiVersion:" + role)
	b.WriteString("  # The objects of the manifests, and the Job without pods that owns them: the cluster\n  # deletes them with it.\n")
	for _, rule := range Rules(set) {
		fmt.Fprintf(&b, "  - apiGroups: [%s]\n    resources: [%s]\n    verbs: [%s]\n", cmp.Or(rule.Group, `""`), strings.Join(rule.Resources, ", "), strings.Join(rule.Verbs, ", "))
	}
	return b.String(), nil
}

// resourceOf returns the resource of a kind, as the API's own rules spell it, and those of the
// Gateway API. No cluster is asked.
func resourceOf(kind string) string {
	name := strings.ToLower(kind)
	switch {
	case name == "endpoints", name == "":
		return name
	case strings.HasSuffix(name, "s"):
		return name + "es"
	case strings.HasSuffix(name, "y") && !strings.HasSuffix(name, "ay") && !strings.HasSuffix(name, "ey"):
		return strings.TrimSuffix(name, "y") + "ies"
	}
	return name + "s"
}
