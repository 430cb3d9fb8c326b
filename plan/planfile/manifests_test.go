package planfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/plan"
)

type clusterConfig struct {
	Namespace string          `yaml:"namespace" doc:"Where."`
	Manifests []manifest.File `yaml:"manifests,omitempty" doc:"Files."`
}

const decode = `apiVersion: apps/v1
kind: Deployment
metadata: {name: decode}
spec:
  replicas: 1
  template:
    spec: {containers: [{name: vllm, args: [serve, --max-num-seqs=64]}]}
---
apiVersion: v1
kind: Service
metadata: {name: decode}
spec: {ports: [{port: 80}]}
`

// parseManifests parses a plan with manifests and axes beside a folder with the files.
func parseManifests(t *testing.T, dir, axes, keys string, change func(*Options)) (*plan.Plan, error) {
	t.Helper()
	opts := testOptions()
	opts.Vocabulary.Backends = append(opts.Vocabulary.Backends, plan.PluginDoc{Kind: "cluster", FreeGPU: true, Given: true, Config: clusterConfig{}})
	if change != nil {
		change(&opts)
	}
	return Parse("plan.yaml", dir, []byte("version: 1\nname: x\nmodel: org/model\nmatrix:\n  engine: vllm\n  concurrency: 1\n"+axes+
		"backend: {kind: cluster, namespace: a, "+keys+"}\nload: {requests: 4, max_tokens: 8, prompts: {input_tokens: 20}}\n"), opts)
}

// Each value of an axis of manifests is a server of its own, and the content of the files
// is part of what is measured.
func TestManifests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "stack.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(decode)
	const axes = "  manifest.Deployment/decode.spec.replicas: [1, 2]\n  manifest.Deployment/decode.spec.template.spec.containers.vllm.args[1]: ['--max-num-seqs=8']\n"
	p, err := parseManifests(t, dir, axes, "manifests: [stack.yaml]", nil)
	if err != nil {
		t.Fatal(err)
	}
	all := p.Deployments()
	if len(all) != 2 || all[0].ID == all[1].ID || all[1].Server.Manifest["Deployment/decode.spec.replicas"] != int64(2) {
		t.Fatalf("%+v", all)
	}
	cell := all[1].Cells[0]
	if got := cell.Settings[2].Axis.Column; got != "manifest_deployment_decode_spec_replicas" {
		t.Errorf("the column is %s", got)
	}
	if len(p.Manifests()) != 1 || string(p.Manifests()[0].Text) != decode {
		t.Errorf("the plan keeps %+v", p.Manifests())
	}
	digests := func(p *plan.Plan) [3]string {
		return [3]string{p.SpecDigest(cell), p.SubjectDigest(cell, nil), p.Digest()}
	}
	before := digests(p)

	// The backend gets what was read, even if the file changes meanwhile.
	write(strings.Replace(decode, "port: 80", "port: 81", 1))
	var c clusterConfig
	if err := p.Backend.Decode(&c); err != nil || len(c.Manifests) != 1 || string(c.Manifests[0].Text) != decode {
		t.Errorf("%v, %+v", err, c)
	}
	other, err := parseManifests(t, dir, axes, "manifests: [stack.yaml]", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range digests(other) {
		if d == before[i] {
			t.Errorf("digest %d is the same for other manifests", i)
		}
	}
	// A resume has what its run kept, wherever the files are by then.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	again, err := parseManifests(t, dir, axes, "manifests: [stack.yaml]", func(o *Options) { o.Manifests = p.Manifests() })
	if err != nil || digests(again) != before {
		t.Errorf("%v: another plan than before", err)
	}
	if _, err := parseManifests(t, dir, axes, "manifests: [stack.yaml]", func(o *Options) { o.Manifests = []manifest.File{} }); err == nil || !strings.Contains(err.Error(), "has kept no file") {
		t.Error(err)
	}
}

// What is wrong with manifests and their axes is reported where it stands.
func TestManifests_wrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"stack.yaml": decode, "bad.yaml": "kind: Pod\napiVersion: v1\nmetadata: {name: a, finalizers: [x]}\n", "empty.yaml": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ axes, keys, want string }{
		"no file":        {"", "manifests: [no.yaml]", "plan.yaml:7:52: there is no file of manifests no.yaml [file]"},
		"an empty file":  {"", "manifests: [empty.yaml]", "plan.yaml:7:52: manifests empty.yaml: it is empty"},
		"a wrong object": {"", "manifests: [bad.yaml]", "bad.yaml:3:21: Pod/a has a finalizer"},
		"no manifests":   {"  manifest.spec.replicas: [1, 2]\n", "", "plan.yaml:7:3: matrix.manifest.spec.replicas has no effect: the backend applies no manifests"},
		"which object":   {"  manifest.spec.replicas: [1, 2]\n", "manifests: [stack.yaml]", `plan.yaml:7:3: there are 2 objects: say which, like manifest.KIND/NAME.spec.replicas; did you mean "manifest.Deployment/decode.spec.replicas"? [manifest-path]`},
		"a slip":         {"  manifest.Deployment/decode.spec.replcas: 2\n", "manifests: [stack.yaml]", `plan.yaml:7:3: Deployment/decode has no spec.replcas; did you mean "manifest.Deployment/decode.spec.replicas"? [manifest-path]`},
		"another type":   {"  manifest.Deployment/decode.spec.replicas: [few]\n", "manifests: [stack.yaml]", `manifest.Deployment/decode.spec.replicas cannot be few: Deployment/decode has a whole number there (stack.yaml:5:13) [type]`},
		"an argument":    {"  args.max-num-seqs: 2\n", "manifests: [stack.yaml]", "matrix.args.max-num-seqs has no effect"},
	} {
		_, err := parseManifests(t, dir, c.axes, c.keys, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: %v\nwant %s", name, err, c.want)
		}
	}
}

// A flag takes the place of an axis of manifests, with the brackets in its name.
func TestManifests_set(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "stack.yaml"), []byte(decode), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := parseManifests(t, dir, "", "manifests: [stack.yaml]", func(o *Options) {
		o.Set = []string{"matrix.manifest.Deployment/decode.spec.template.spec.containers[0].args[1]=[--max-num-seqs=1, --max-num-seqs=2]"}
	})
	if err != nil || len(p.Deployments()) != 2 {
		t.Errorf("%v", err)
	}
}
