package pods

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/secret"
)

// unit returns a rendered unit of a deployment with a configuration.
func unit(t *testing.T, c Config) (*launch, *provision.Unit) {
	t.Helper()
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	b := New(nil, Place{Kind: "kubernetes", Namespace: "ns"}, c)
	spec := backends.Spec{Owner: "me@here", RunID: "run1", Pod: "d1-l01", Engine: "vllm", GPU: "h100", Grace: 30 * time.Second, Expires: time.Now().Add(time.Hour)}
	role := backends.Role{Name: "prefill_decode", Replicas: 1, GPUs: 2, Image: "vllm/vllm-openai:v1"}
	name := backends.NewName(spec.Owner, spec.RunID, spec.Expires)
	u := provision.PerReplica(backends.Spec{Roles: []backends.Role{role}}, name)[0]
	u.Spec, u.Pod, u.Marks = spec, name, backends.Marks(spec)
	r := u.Replicas[0]
	r.Place = provision.PlaceOf(role, 0, "127.0.0.1", false)
	r.Place.Dir = "/etc/sweep/x"
	r.Argv = []string{"vllm", "serve", "$(HF_TOKEN) $HOME"}
	r.Env = map[string]string{"SWEEP_RUN_ID": "run1", "API_KEY": "canary-key"}
	r.Files = map[string][]byte{"conf.yaml": []byte("canary-file")}
	return &launch{b: b, name: name.String(), owner: &owner.Owner{Name: name, UID: "uid-1"}}, u
}

// What decides whether a pod starts, and what it may do, is in its manifest; no
// credential is.
func TestPod(t *testing.T) {
	t.Parallel()
	l, u := unit(t, Config{
		Cache: &Cache{Claim: "models"}, Secrets: map[string]string{"HF_TOKEN": "hf/HF_TOKEN"}, RuntimeClass: "nvidia", Memory: "64Gi",
		Env: map[string]secret.String{"X": secret.New("${X}", "canary-env")}, PullSecrets: []string{"registry"},
	})
	text, err := json.Marshal(l.pod(u))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"restartPolicy":"Never"`, `"enableServiceLinks":false`, `"automountServiceAccountToken":false`, `"uid":"uid-1"`,
		`"nvidia.com/gpu":"2"`, `"nodeSelector":{"nvidia.com/gpu.product":"NVIDIA-H100-80GB-HBM3"}`, `"runtimeClassName":"nvidia"`,
		`"key":"nvidia.com/gpu","operator":"Exists"`, `"tolerationSeconds":30`, `"medium":"Memory","sizeLimit":"8Gi"`, `"claimName":"models"`,
		`{"name":"HF_HOME","value":"/model-cache"}`, `"secretKeyRef":{"key":"HF_TOKEN","name":"hf"}`, `"imagePullPolicy":"IfNotPresent"`,
		`"runAsNonRoot":true`, `"runAsUser":1000`, `"drop":["ALL"]`, `"allowPrivilegeEscalation":false`, `"type":"RuntimeDefault"`,
		`"terminationGracePeriodSeconds":30`, `"hostname":"prefill-decode-0"`, `"args":["serve","$$(HF_TOKEN) $$HOME"]`, `"imagePullSecrets":[{"name":"registry"}]`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	for _, unwanted := range []string{"canary", "livenessProbe"} {
		if strings.Contains(string(text), unwanted) {
			t.Errorf("%s in\n%s", unwanted, text)
		}
	}
	hidden, _ := json.Marshal(l.secret(u))
	for _, want := range []string{`"env.API_KEY":"canary-key"`, `"file.0":"canary-file"`, `"immutable":true`, `"uid":"uid-1"`} {
		if !strings.Contains(string(hidden), want) {
			t.Errorf("no %s in\n%s", want, hidden)
		}
	}
	if strings.Contains(string(hidden), "SWEEP_RUN_ID") {
		t.Error("the marks are hidden")
	}
	l, u = unit(t, Config{Root: true, GPULabel: noLabel})
	text, _ = json.Marshal(l.pod(u))
	if strings.Contains(string(text), "runAs") || strings.Contains(string(text), "nodeSelector") || strings.Contains(string(text), `"/tmp"`) {
		t.Errorf("with root: true\n%s", text)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"gpu_resource":   {GPUResource: "a gpu"},
		"gpu_label":      {GPULabel: "a b"},
		"node_selector":  {NodeSelector: map[string]string{"a b": "c"}},
		"memory":         {Memory: "much"},
		"shm_size":       {ShmSize: "64GB"},
		"runtime_class":  {RuntimeClass: "NVIDIA"},
		"cache":          {Cache: &Cache{Claim: "models", Path: "models"}},
		"want SECRET":    {Secrets: map[string]string{"HF_TOKEN": "hf"}},
		"env":            {Env: map[string]secret.String{"A=B": secret.Plain("x")}},
		"pull:":          {Pull: "sometimes"},
		"pull_secrets":   {PullSecrets: []string{"A"}},
		"uid or uid:gid": {User: "me"},
		"root: true":     {User: "0"},
		"pending":        {Pending: -1},
	} {
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := (Config{}).Check(); err != nil {
		t.Error(err)
	}
}

// The shipped Role grants each right that is asked for, and no other but those of what
// may be left out.
func TestRole(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../stack/role-deploy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role struct {
		Rules []struct {
			Groups    []string `yaml:"apiGroups"`
			Resources []string `yaml:"resources"`
			Verbs     []string `yaml:"verbs"`
		} `yaml:"rules"`
	}
	if err := yaml.Unmarshal(text, &role); err != nil {
		t.Fatal(err)
	}
	granted := map[kubeapi.Right]bool{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				granted[kubeapi.Right{Verb: verb, Group: rule.Groups[0], Resource: resource}] = true
			}
		}
	}
	for _, r := range rights {
		if !granted[r.Right] {
			t.Errorf("it does not grant %+v", r.Right)
		}
		delete(granted, r.Right)
	}
	for r := range granted {
		if !slices.Contains([]string{"pods/exec", "pods/portforward"}, r.Resource) {
			t.Errorf("it grants %+v, which nothing asks for", r)
		}
	}
}
