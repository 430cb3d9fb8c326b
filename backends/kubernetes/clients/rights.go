package clients

import (
	_ "embed"
	"strings"

	"sweep.dev/sweep/internal/kubeapi"
)

//go:embed role.yaml
var role string

// RoleYAML is the Role, as a manifest, that load pods in this namespace need.
func RoleYAML(namespace string) string { return strings.ReplaceAll(role, "NAMESPACE", namespace) }

// Rights are what a user needs to have load pods, of which role.yaml grants a bit more.
func Rights() []kubeapi.Right {
	return []kubeapi.Right{
		{Verb: "create", Group: "batch", Resource: "jobs"},
		{Verb: "get", Group: "batch", Resource: "jobs"},
		{Verb: "list", Group: "batch", Resource: "jobs"},
		{Verb: "patch", Group: "batch", Resource: "jobs"},
		{Verb: "delete", Group: "batch", Resource: "jobs"},
		{Verb: "create", Resource: "secrets"},
		{Verb: "get", Resource: "pods"},
		{Verb: "list", Resource: "pods"},
		{Verb: "get", Resource: "pods/portforward"},
		{Verb: "create", Resource: "pods/portforward"},
		{Verb: "get", Resource: "pods/exec"},
		{Verb: "create", Resource: "pods/exec"},
	}
}
