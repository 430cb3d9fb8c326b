package clients

import (
	_ "embed"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/kubeapi"
)

//go:embed role.yaml
var role string

// RoleYAML returns the Role, as a manifest, that load pods in this namespace need.
func RoleYAML(namespace string) string { return strings.ReplaceAll(role, "NAMESPACE", namespace) }

// needed are the rights without which there are no load pods, and seldom those to say why the
// cluster makes none, and to end what lost its Job. role.yaml grants exactly these.
var (
	needed = []kubeapi.Right{
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
	seldom = []kubeapi.Right{
		{Verb: "list", Resource: "events"},
		{Verb: "delete", Resource: "pods"},
		{Verb: "deletecollection", Resource: "secrets"},
	}
)

// Rights returns what the shipped Role grants.
func Rights() []kubeapi.Right { return slices.Concat(needed, seldom) }

// Needed returns those of them without which there are no load pods.
func Needed() []kubeapi.Right { return slices.Clone(needed) }
