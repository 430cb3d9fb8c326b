package stack_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"sweep.dev/sweep/backends/kubernetes/stack"
	"sweep.dev/sweep/backends/kubernetes/stack/stacktest"
	"sweep.dev/sweep/internal/kubeapi"
)

// cluster returns a client of a server with the objects of a file of testdata.
func cluster(t *testing.T, file string, denied ...string) *kubeapi.Client {
	t.Helper()
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: stacktest.Serve(t, filepath.Join("testdata", file), denied...)})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// pods returns the roles of a stack with their pods.
func pods(s *stack.Stack) string {
	var roles []string
	for _, r := range s.Roles {
		names := make([]string, len(r.Pods))
		for i := range r.Pods {
			names[i] = r.Pods[i].Name
		}
		roles = append(roles, r.Name+": "+strings.Join(names, " "))
	}
	return strings.Join(roles, "; ")
}

// entries returns the addresses of a stack.
func entries(s *stack.Stack) string {
	list := make([]string, len(s.Entries))
	for i, e := range s.Entries {
		list[i] = strings.TrimSpace(e.URL + " " + strings.Join(e.Needs, ", "))
	}
	return strings.Join(list, "; ")
}

// A pool leads to its pods, its endpoint picker and the workers of its groups, whatever
// name it is found by, and to nothing else.
func TestDiscover_pool(t *testing.T) {
	t.Parallel()
	const want = "router: epp; prefill: prefill-a; decode: decode-a decode-a-0 decode-b; server: stray; decode worker: decode-a-1"
	api := cluster(t, "pd.yaml")
	for _, name := range []string{"", "pd", "inferencepool/pd", "httproute/pd", "service/pd-epp", "gateway/edge", "llm-d.ai/guide=pd", "llm-d.ai/role=prefill"} {
		s, err := stack.Discover(t.Context(), api, "ns", name)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if got := pods(s); got != want || s.Kind != "llm-d" {
			t.Errorf("%q: %s %s\nwant %s", name, s.Kind, got, want)
		}
		if got := entries(s); got != "header X-Gateway-Base-Model-Name: qwen, host llm.example.com" {
			t.Errorf("%q: entries %s", name, got)
		}
	}
	s, err := stack.Discover(t.Context(), api, "ns", "pd")
	if err != nil {
		t.Fatal(err)
	}
	want2 := []string{
		"the address of gateway infra/edge is not known: kubernetes: /apis/gateway.networking.k8s.io/v1/namespaces/infra/gateways/edge: 404 Not Found: 404 page not found",
		"prefill: 1 of 1 pod not ready: prefill-a (Evicted)",
		"decode: 1 of 3 pods not ready: decode-b (Unschedulable)",
		"decode: its pods have 2 different revisions, so a rollout may be under way",
		"decode: its pods have 2 different images",
		"decode: its pods have 2 different arguments",
		"decode: container routing-proxy of decode-a was restarted 3 times (last end: OOMKilled, exit code 137)",
		"no prefill pod is ready: a router may let the decode pods do all work and answer 200",
		"prefill has --tensor-parallel-size 4 and decode 2: NIXL does not transfer from more ranks to fewer",
		"1 server without a role beside prefill and decode: stray",
	}
	if !slices.Equal(s.Findings, want2) {
		t.Errorf("findings\n%s\nwant\n%s", strings.Join(s.Findings, "\n"), strings.Join(want2, "\n"))
	}
	decode := s.Roles[2].Pods[0]
	if c := decode.Main(); decode.Restarts() != 3 || len(decode.Containers) != 2 || !decode.Containers[0].Sidecar || c.GPUs != "nvidia.com/gpu=2" || c.Ports[0].Number != 8200 ||
		c.Args[0] != "export VLLM_API_KEY=***; exec vllm serve m --tensor-parallel-size 2 --hf-token *** --max-tokens 8" {
		t.Errorf("%+v", decode)
	}
}

// Several stacks of one namespace are told apart.
func TestDiscover_many(t *testing.T) {
	t.Parallel()
	api := cluster(t, "many.yaml")
	_, err := stack.Discover(t.Context(), api, "ns", "")
	if err == nil || !strings.Contains(err.Error(), "has 3 stacks") || !strings.Contains(err.Error(), "inferencepool/two, service/one-epp, service/three") {
		t.Error(err)
	}
	for name, want := range map[string][2]string{
		"one-epp":            {"proxy: one-proxy-0; router: one-epp-0; server: one-0", "http://one-epp.ns.svc"},
		"app=one":            {"proxy: one-proxy-0; router: one-epp-0; server: one-0", "http://one-epp.ns.svc"},
		"two":                {"prefill-decode: two-0", ""},
		"three":              {"server: three-0", "https://lb.example.com host three.example.com; http://[2001:db8::1]:8000; http://three.ns.svc:8000"},
		"ingress/three":      {"server: three-0", "https://lb.example.com host three.example.com; http://[2001:db8::1]:8000; http://three.ns.svc:8000"},
		"app=three,app=four": {"", "leads to no pod"},
		"four":               {"", "named four"},
		"pod/three-0":        {"", "no kind of object"},
	} {
		s, err := stack.Discover(t.Context(), api, "ns", name)
		switch {
		case want[0] == "" && (err == nil || !strings.Contains(err.Error(), want[1])):
			t.Errorf("%s: %v", name, err)
		case want[0] == "":
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case pods(s) != want[0] || entries(s) != want[1]:
			t.Errorf("%s: %s, %s\nwant %s", name, pods(s), entries(s), want)
		}
	}
	if s, err := stack.Discover(t.Context(), api, "ns", "three"); err != nil || s.Roles[0].Pods[0].Main().Name != "vllm" || s.Roles[0].Pods[0].Main().GPUs != "amd.com/gpu=1" {
		t.Errorf("%+v, %v", s, err)
	}
}

// A denied read is reported with its verb and resource. Without pods there is nothing.
func TestDiscover_denied(t *testing.T) {
	t.Parallel()
	_, err := stack.Discover(t.Context(), cluster(t, "pd.yaml", "pods"), "ns", "")
	if denied, ok := errors.AsType[*kubeapi.Denied](err); !ok || denied.Verb != "list" || denied.Resource != "pods" {
		t.Error(err)
	}
	s, err := stack.Discover(t.Context(), cluster(t, "pd.yaml", "services", "httproutes"), "ns", "pd")
	if err != nil {
		t.Fatal(err)
	}
	findings := strings.Join(s.Findings, "\n")
	for _, resource := range []string{"services", "httproutes"} {
		if want := "u may not list " + resource + " in namespace ns"; !strings.Contains(findings, want) {
			t.Errorf("no %q in\n%s", want, findings)
		}
	}
	for _, h := range s.Rights {
		if want := h.Resource != "services" && h.Resource != "httproutes"; h.Held != want {
			t.Errorf("%s held: %v", h.Resource, h.Held)
		}
	}
}

// A name that leads nowhere since a right is missing is refused with that right. A name without a
// kind may lead elsewhere later, so its error only has the right in words.
func TestDiscover_unread(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, denied, want string
		refused            bool
	}{
		{"ingress/three", "ingresses", "u may not list ingresses in namespace ns", true},
		{"ingress/three", "services", "u may not list services in namespace ns", true},
		{"ingress/three", "httproutes", "", false},
		{"service/three", "services", "u may not list services in namespace ns", true},
		{"inferencepool/two", "inferencepools", "u may not list inferencepools in namespace ns", true},
		{"ingress/none", "httproutes", "named ingress/none", false},
		{"none", "ingresses", "u may not list ingresses in namespace ns", false},
	} {
		_, err := stack.Discover(t.Context(), cluster(t, "many.yaml", c.denied), "ns", c.name)
		if _, refused := errors.AsType[*kubeapi.Denied](err); refused != c.refused || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s without %s: %v", c.name, c.denied, err)
		}
	}
}

// An Ingress leads to the pods of the Services of all of its paths and of its default backend,
// and not to those of others.
func TestDiscover_ingress(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "many.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "both.yaml")
	both := strings.Replace(string(text), "spec: {tls: [{hosts: [three.example.com]}]", "spec: {defaultBackend: {service: {name: two}}, tls: [{hosts: [three.example.com]}]", 1) +
		"\n---\napiVersion: v1\nkind: Service\nmetadata: {name: two, namespace: ns}\nspec: {selector: {app: two}, ports: [{port: 8000}]}\n"
	if err := os.WriteFile(file, []byte(both), 0o600); err != nil {
		t.Fatal(err)
	}
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: stacktest.Serve(t, file)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := stack.Discover(t.Context(), api, "ns", "ingress/three")
	if err != nil {
		t.Fatal(err)
	}
	if got := pods(s); got != "server: three-0; prefill-decode: two-0" || !strings.HasPrefix(entries(s), "https://lb.example.com host three.example.com") {
		t.Errorf("%s, %s", got, entries(s))
	}
}

// The shipped Role grants what is asked for, and nothing beyond.
func TestRole(t *testing.T) {
	t.Parallel()
	var role struct {
		Metadata struct{ Namespace string }
		Rules    []struct {
			APIGroups []string `yaml:"apiGroups"`
			Resources []string
			Verbs     []string
		}
	}
	if err := yaml.Unmarshal([]byte(stack.RoleYAML("prod")), &role); err != nil || role.Metadata.Namespace != "prod" {
		t.Fatal(err, role.Metadata.Namespace)
	}
	granted := map[string]bool{}
	for _, r := range role.Rules {
		for _, verb := range r.Verbs {
			granted[fmt.Sprintf("%s %s", verb, kubeapi.Qualified(r.APIGroups[0], r.Resources[0]))] = true
		}
	}
	s, err := stack.Discover(t.Context(), cluster(t, "pd.yaml"), "ns", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range s.Rights {
		right := fmt.Sprintf("%s %s", h.Verb, kubeapi.Qualified(h.Group, h.Resource))
		if !granted[right] {
			t.Errorf("the Role does not grant %s", right)
		}
		delete(granted, right)
	}
	if len(granted) > 0 {
		t.Errorf("the Role grants more: %v", granted)
	}
}
