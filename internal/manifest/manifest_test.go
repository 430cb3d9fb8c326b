package manifest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/syntax"
)

const stack = `# a comment alone
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: decode, labels: {app: x, app.kubernetes.io/managed-by: Helm}, creationTimestamp: null}
spec:
  replicas: 1
  template:
    metadata: {labels: {app: x}}
    spec:
      containers:
      - name: vllm
        args: [serve, --max-num-seqs=64]
        resources: {limits: {nvidia.com/gpu: "1"}}
status: {}
---
# nothing
---
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: graph}
spec: {components: [{name: Frontend, replicas: 1}, {name: Decode, replicas: 1, mode: 0644}]}
`

func parse(t *testing.T, text string) *Set {
	t.Helper()
	var r syntax.Report
	s := Parse([]File{{Name: "stack.yaml", Text: []byte(text)}}, &r)
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return s
}

// Values and labels are put where they belong, and into nothing else.
func TestDocuments(t *testing.T) {
	t.Parallel()
	s := parse(t, stack)
	values := map[string]any{
		"Deployment/decode.spec.replicas":                                                         int64(3),
		"Deployment/decode.spec.template.spec.containers[0].args[1]":                              "--max-num-seqs=8",
		"Deployment/decode.spec.template.spec.containers.vllm.args[2]":                            "--enforce-eager",
		`Deployment/decode.spec.template.spec.containers.vllm.resources.limits["nvidia.com/gpu"]`: int64(4),
		"Deployment/decode.spec.template.spec.schedulerName":                                      "kai",
		"DynamoGraphDeployment/graph.spec.components.Decode.replicas":                             int64(2),
	}
	labels := Labels{Set: map[string]string{"sweep.dev/run": "r"}, Add: map[string]string{"app.kubernetes.io/managed-by": "sweep"}, Annotations: map[string]string{"a": "b"}}
	for range 2 { // nothing is shared between two launches
		docs, err := s.Documents(values)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range s.Objects {
			o.Label(docs[i], labels)
		}
		got, err := json.Marshal(docs)
		if err != nil {
			t.Fatal(err)
		}
		const want = `[{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"a":"b"},"labels":{"app":"x","app.kubernetes.io/managed-by":"Helm","sweep.dev/run":"r"},"name":"decode"},` +
			`"spec":{"replicas":3,"template":{"metadata":{"labels":{"app":"x","app.kubernetes.io/managed-by":"sweep","sweep.dev/run":"r"}},"spec":{"containers":[` +
			`{"args":["serve","--max-num-seqs=8","--enforce-eager"],"name":"vllm","resources":{"limits":{"nvidia.com/gpu":"4"}}}],"schedulerName":"kai"}}}},` +
			`{"apiVersion":"nvidia.com/v1beta1","kind":"DynamoGraphDeployment","metadata":{"annotations":{"a":"b"},"labels":{"app.kubernetes.io/managed-by":"sweep","sweep.dev/run":"r"},"name":"graph"},` +
			`"spec":{"components":[{"name":"Frontend","replicas":1},{"mode":420,"name":"Decode","replicas":2}],"labels":{"app.kubernetes.io/managed-by":"sweep","sweep.dev/run":"r"}}}]`
		if string(got) != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}

// Pods of every kind that has templates get the labels.
func TestDocuments_templates(t *testing.T) {
	t.Parallel()
	for kind, spec := range map[string]string{
		"Pod":              `{containers: []}`,
		"StatefulSet":      `{template: {spec: {}}}`,
		"CronJob":          `{jobTemplate: {spec: {template: {spec: {}}}}}`,
		"LeaderWorkerSet":  `{leaderWorkerTemplate: {leaderTemplate: {spec: {}}, workerTemplate: {spec: {}}}}`,
		"JobSet":           `{replicatedJobs: [{template: {spec: {template: {spec: {}}}}}]}`,
		"DisaggregatedSet": `{roles: [{spec: {leaderWorkerTemplate: {workerTemplate: {spec: {}}}}}, {spec: {leaderWorkerTemplate: {workerTemplate: {spec: {}}}}}]}`,
		"ConfigMap":        `{template: {}}`,
	} {
		s := parse(t, "apiVersion: v1\nkind: "+kind+"\nmetadata: {name: a}\nspec: "+spec+"\n")
		docs, err := s.Documents(nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Objects[0].Label(docs[0], Labels{Set: map[string]string{"sweep.dev/run": "r"}})
		text, err := json.Marshal(docs[0])
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"Pod": 1, "ConfigMap": 1, "StatefulSet": 2, "CronJob": 3, "LeaderWorkerSet": 3, "JobSet": 2, "DisaggregatedSet": 3}[kind]
		if n := strings.Count(string(text), `"labels":{"sweep.dev/run":"r"}`); n != want {
			t.Errorf("%s has the labels %d times, want %d: %s", kind, n, want, text)
		}
	}
}

// A path that leads nowhere says what may have been meant.
func TestFind_unknown(t *testing.T) {
	t.Parallel()
	s := parse(t, stack)
	for path, want := range map[string][2]string{
		"Deployment/decode.spec.replcas":                              {"Deployment/decode has no spec.replcas", "Deployment/decode.spec.replicas"},
		"Deployment/decode.spec.tmplate.spec.x":                       {"Deployment/decode has no spec.tmplate", "Deployment/decode.spec.template.spec.x"},
		"Deployment/decode.spec.replicas.x":                           {"there is a whole number", ""},
		"Deployment/decode.spec.nothing.x":                            {"Deployment/decode has no spec.nothing", ""},
		"Deployment/decode.spec.template.spec.containers[2]":          {"the list has 1 entries", ""},
		"Deployment/decode.spec.template.spec.containers.vlm.args[0]": {"has no spec.template.spec.containers.vlm", "Deployment/decode.spec.template.spec.containers.vllm.args[0]"},
		"Deployment/decod.spec.replicas":                              {"there is no object Deployment/decod", "Deployment/decode.spec.replicas"},
		"spec.replicas":                                               {"there are 2 objects", "Deployment/decode.spec.replicas"},
		"spec.components[0].replicas":                                 {"there are 2 objects", "DynamoGraphDeployment/graph.spec.components[0].replicas"},
		"Deployment/decode.spec..x":                                   {"a key is empty", ""},
		"Deployment/decode.spec[x]":                                   {"is not an index", ""},
	} {
		_, err := s.Find(path)
		unknown, ok := errors.AsType[*Unknown](err)
		if !ok || !strings.Contains(err.Error(), want[0]) || unknown.Nearest != want[1] {
			t.Errorf("%s: %v, nearest %q", path, err, unknown.Nearest)
		}
	}
}

// A value keeps the type of what it replaces.
func TestFit(t *testing.T) {
	t.Parallel()
	s := parse(t, stack)
	for _, c := range []struct {
		path string
		v    any
		want any
		err  string
	}{
		{"Deployment/decode.spec.replicas", int64(2), int64(2), ""},
		{"Deployment/decode.spec.replicas", "two", nil, "a whole number there (stack.yaml:7:13)"},
		{"Deployment/decode.spec.replicas", 1.5, nil, "a whole number"},
		{"Deployment/decode.spec.template.spec.containers", "x", nil, "a list there"},
		{"Deployment/decode.spec.template.spec.containers[0].name", int64(3), "3", ""},
		{"Deployment/decode.spec.paused", true, true, ""},
	} {
		at, err := s.Find(c.path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := at.Fit(c.v)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s = %v: %v, %v", c.path, c.v, got, err)
		}
	}
}

// What a manifest may not have is reported at its place.
func TestParse_refuses(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: v1\nkind: ConfigMap\n"
	for name, c := range map[string][2]string{
		"no mapping":    {"[a]", "1:1: a manifest is a mapping"},
		"no kind":       {"apiVersion: v1\nmetadata: {name: a}", "has no kind"},
		"no name":       {head, "has no metadata.name"},
		"a bad name":    {head + "metadata: {name: A b}", `3:18: metadata.name cannot be "A b"`},
		"made up name":  {head + "metadata: {generateName: a-}", "without a fixed name"},
		"a list":        {"apiVersion: v1\nkind: List\nitems: []", "3:1: a list of objects"},
		"own label":     {head + "metadata:\n  name: a\n  labels: {sweep.dev/run: x}", "5:12: sweep sets sweep.dev/run itself"},
		"own, in a pod": {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  template:\n    metadata: {annotations: {sweep.dev/owner: x}}", "6:30: sweep sets"},
		"a finalizer":   {head + "metadata: {name: a, finalizers: [x/y]}", "has a finalizer"},
		"an owner":      {head + "metadata: {name: a, ownerReferences: []}", "sweep sets the owner"},
		"copied":        {head + "metadata: {name: a, uid: x}", "metadata.uid is the cluster's own"},
		"a status":      {head + "metadata: {name: a}\nstatus: {phase: Running}", "4:1: status is the cluster's own"},
		"a hook":        {head + "metadata: {name: a, annotations: {helm.sh/hook: test}}", "--no-hooks"},
		"twice":         {head + "metadata: {name: a}\n---\n" + head + "metadata: {name: a}", "7:18: ConfigMap/a is there twice, first in f.yaml:1"},
		"a secret":      {"apiVersion: v1\nkind: Secret\nmetadata: {name: a}", "a Secret would be copied"},
		"a credential":  {head + "metadata: {name: a}\ndata: {x: hf_abcdefghijklmnopqrstuvwxyz}", "4:11: this looks like a credential"},
		"yes":           {head + "metadata: {name: a}\ndata: {x: yes}", `4:11: yes is text to some`},
		"not YAML":      {"a: [", "f.yaml:1:"},
		"empty":         {"# nothing\n---\n", "the file is empty"},
	} {
		var r syntax.Report
		s := Parse([]File{{Name: "f.yaml", Text: []byte(c[0])}}, &r)
		err := r.Err()
		if d, ok := errors.AsType[*syntax.Diagnostics](err); !ok || !strings.Contains(d.Pretty(), c[1]) {
			t.Errorf("%s: %v, want %q", name, err, c[1])
		}
		if name != "twice" && len(s.Objects) > 0 {
			t.Errorf("%s: is an object", name)
		}
	}
}
