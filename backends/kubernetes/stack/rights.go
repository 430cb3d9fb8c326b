package stack

import (
	"context"
	_ "embed"
	"strings"

	"sweep.dev/sweep/internal/kubeapi"
)

// A RightStatus is a right, and whether the user has it.
type RightStatus struct {
	kubeapi.Right
	For  string `json:"for"`
	Held bool   `json:"held"`
}

// rights are what a look at a stack and at its logs needs, and a run that measures it.
// role.yaml grants exactly these.
var rights = []RightStatus{
	{Right: kubeapi.Right{Verb: "list", Resource: "pods"}, For: "roles, images, arguments, restarts"},
	{Right: kubeapi.Right{Verb: "get", Resource: "pods/log"}, For: "the logs"},
	{Right: kubeapi.Right{Verb: "list", Resource: "services"}, For: "the entry"},
	{Right: kubeapi.Right{Verb: "list", Group: "inference.networking.k8s.io", Resource: "inferencepools"}, For: "the pods of a pool"},
	{Right: kubeapi.Right{Verb: "list", Group: "inference.networking.x-k8s.io", Resource: "inferencepools"}, For: "the pods of a pool of v1alpha2"},
	{Right: kubeapi.Right{Verb: "list", Group: "gateway.networking.k8s.io", Resource: "httproutes"}, For: "the entry through a gateway"},
	{Right: kubeapi.Right{Verb: "list", Group: "gateway.networking.k8s.io", Resource: "gateways"}, For: "the gateway's address"},
	{Right: kubeapi.Right{Verb: "list", Group: "networking.k8s.io", Resource: "ingresses"}, For: "the entry through an ingress"},
	{Right: kubeapi.Right{Verb: "get", Resource: "pods/proxy"}, For: "metrics of pods that cannot be reached directly, in a run"},
}

// Rights returns what the shipped Role grants.
func Rights() []kubeapi.Right {
	list := make([]kubeapi.Right, len(rights))
	for i, r := range rights {
		list[i] = r.Right
	}
	return list
}

//go:embed role.yaml
var role string

//go:embed role-deploy.yaml
var deployRole string

// DeployRoleYAML returns the Role, as a manifest, with which a run starts servers as pods of
// this namespace.
func DeployRoleYAML(namespace string) string {
	return strings.ReplaceAll(deployRole, "NAMESPACE", namespace)
}

// RoleYAML returns the Role, as a manifest, that a look at a stack in this namespace needs.
func RoleYAML(namespace string) string { return strings.ReplaceAll(role, "NAMESPACE", namespace) }

// review says which of the rights the user has.
func review(ctx context.Context, api *kubeapi.Client, namespace string) ([]RightStatus, error) {
	questions := make([]kubeapi.Right, len(rights))
	for i, r := range rights {
		questions[i] = r.Right
	}
	held, err := api.Review(ctx, namespace, questions)
	if err != nil {
		return nil, err
	}
	all := make([]RightStatus, len(rights))
	for i, r := range rights {
		all[i] = r
		all[i].Held = held[i]
	}
	return all, nil
}
