package kubernetes

import (
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/manifests"
	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/internal/syntax"
)

// A pod gets what its plan needs: to look at the stack, and to make what manifests have.
func TestGrant(t *testing.T) {
	t.Parallel()
	b := &Backend{namespace: "llm-d"}
	g, err := b.Grant()
	if err != nil || g.Namespace != "llm-d" {
		t.Fatalf("%+v, %v", g, err)
	}
	for _, r := range g.Rules {
		for _, verb := range r.Verbs {
			if verb != "get" && verb != "list" {
				t.Errorf("a stack that runs: %s on %v", verb, r.Resources)
			}
		}
	}
	var report syntax.Report
	b.manifests = manifest.Parse([]manifest.File{{Name: "a.yaml", Text: []byte(`apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: b}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: a}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: a}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: a}
`)}}, &report)
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	before := len(g.Rules)
	if g, err = b.Grant(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range g.Rules[before:] {
		got = append(got, r.Group+"/"+strings.Join(r.Resources, "+")+":"+strings.Join(r.Verbs, "+"))
	}
	const want = "batch/jobs:create+get+list+patch+delete /events:list apps/deployments:create+get networking.k8s.io/networkpolicies:create+get networking.k8s.io/ingresses:create+get gateway.networking.k8s.io/gateways:create+get"
	if strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	text, err := manifests.RoleYAML("llm-d", []manifest.File{{Name: "a.yaml", Text: []byte("{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}")}})
	for _, want := range []string{"namespace: llm-d\n", "apiGroups: [apps]\n    resources: [deployments]\n    verbs: [create, get]\n", "resources: [jobs]", "resources: [pods/log]", "resources: [events]"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%v, no %q in\n%s", err, want, text)
		}
	}
	if _, err := manifests.RoleYAML("llm-d", []manifest.File{{Name: "a.yaml", Text: []byte("{apiVersion: v1, kind: Secret, metadata: {name: a}}")}}); err == nil {
		t.Error("a Role for a Secret")
	}
	b.cluster.Context = "prod"
	if _, err := b.Grant(); err == nil || !strings.Contains(err.Error(), "backend.context") {
		t.Error(err)
	}
	var _ backends.Tenant = b
}
