package planfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/plan"
)

// open reads a plan of the corpus.
func open(t testing.TB, file string) *plan.Plan {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	opts := testOptions()
	opts.Set = sets(string(src))
	p, err := Parse(filepath.Base(file), filepath.Dir(file), src, opts)
	if d, ok := plan.IsDiagnostics(err); ok {
		t.Fatal(d.Pretty())
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// whole is the plan of which all is printed, with its defaults. Of the others its golden file
// has what differs, so that a changed default changes one file.
const whole = "testdata/ok/minimal.yaml"

// TestOK holds what each good plan means: the cells with their ids and
// digests, in the order in which they run, and the resolved plan to the byte.
// A change here breaks resume and comparisons for everybody.
func TestOK(t *testing.T) {
	base := resolvedTree(t, open(t, whole))
	for _, file := range corpus(t, "testdata/ok/*.yaml") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			p := open(t, file)
			var b strings.Builder
			if file == whole { // the digest is of all that is resolved
				fmt.Fprintf(&b, "plan %s\n", p.Digest())
			}
			said := map[string]bool{}
			for _, c := range p.Cells() {
				if l := c.LoadName(); !said[l] {
					said[l] = true
					fmt.Fprintf(&b, "conditions %s\n", strings.TrimSpace(p.ConditionsDigest(c, "")+" "+l))
				}
			}
			for _, d := range p.Deployments() {
				fmt.Fprintf(&b, "deployment %s\n", d.ID)
				for _, c := range d.Cells {
					fmt.Fprintf(&b, "  cell %s spec %s subject %s", c.ID, p.SpecDigest(c), p.SubjectDigest(c, nil))
					for _, s := range c.Settings {
						fmt.Fprintf(&b, " %s=%v", s.Axis.Column, s.Value)
					}
					b.WriteByte('\n')
				}
			}
			tree := resolvedTree(t, p)
			if file != whole {
				tree = differing(tree, base)
			}
			b.WriteString(indented(t, tree))
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden", b.String())
		})
	}
}

// resolvedTree returns the resolved plan, which is canonical: [indented] makes the same text of it.
func resolvedTree(t *testing.T, p *plan.Plan) any {
	t.Helper()
	text, err := p.Resolved()
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	if indented(t, tree) != string(text) {
		t.Errorf("the resolved plan is not canonical:\n%s", text)
	}
	return tree
}

func indented(t *testing.T, tree any) string {
	t.Helper()
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(tree); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// differing returns v less what base has too. What base alone has is null.
func differing(v, base any) any {
	of, ok := v.(map[string]any)
	from, both := base.(map[string]any)
	if !ok || !both {
		return v
	}
	rest := map[string]any{}
	for key, value := range of {
		if !reflect.DeepEqual(value, from[key]) {
			rest[key] = differing(value, from[key])
		}
	}
	for key := range from {
		if _, ok := of[key]; !ok {
			rest[key] = nil
		}
	}
	return rest
}

// TestResolved_noSecrets holds that nothing of the environment's secrets gets
// into what is written.
func TestResolved_noSecrets(t *testing.T) {
	for _, file := range corpus(t, "testdata/ok/*.yaml") {
		p := open(t, file)
		resolved, err := p.Resolved()
		if err != nil {
			t.Fatal(err)
		}
		shown := fmt.Sprintf("%v %+v %#v", p.Load, p.Engines, p.Deployments())
		for _, text := range [][]byte{resolved, []byte(shown)} {
			if bytes.Contains(text, []byte("canary")) {
				t.Errorf("%s: a secret is shown", file)
			}
		}
	}
}

func TestSecrets_revealed(t *testing.T) {
	p := open(t, "testdata/ok/closed.yaml")
	auth := p.Load.Headers["Authorization"]
	if auth.Reveal() != "Bearer canary-value" || auth.Ref() != "Bearer ${SWEEP_API_KEY}" {
		t.Errorf("header reveals %q and shows %q", auth.Reveal(), auth.Ref())
	}
	if got := p.Load.Prompts.System; !strings.HasSuffix(got, "${written} like this.") {
		t.Errorf("system = %q", got)
	}
	if p.Model != "org/model" {
		t.Errorf("model = %q", p.Model)
	}
	var cfg endpointConfig
	if err := open(t, "testdata/ok/open.yaml").Backend.Decode(&cfg); err != nil {
		t.Fatal(err)
	}
	if cfg.URL != "http://127.0.0.1:8000" || cfg.Key.Reveal() != "canary-value" {
		t.Errorf("endpoint = %+v", cfg)
	}
}

func TestPlugin_Decode(t *testing.T) {
	p := open(t, "testdata/ok/closed.yaml")
	cfg := promConfig{Interval: time.Second, Path: "/other"}
	if err := p.Collect[0].Decode(&cfg); err != nil || cfg.Interval != 500*time.Millisecond || cfg.Path != "/metrics" {
		t.Errorf("prom = %+v, %v", cfg, err)
	}
	var wrong struct {
		Interval int `yaml:"interval"`
	}
	err := p.Collect[0].Decode(&wrong)
	if d, ok := plan.IsDiagnostics(err); !ok || len(d.List) != 2 || d.List[0].Line == 0 {
		t.Errorf("a struct that does not fit: %v", err)
	}
	if err := p.Collect[0].Decode(wrong); err == nil {
		t.Error("decode into no pointer was taken")
	}
	// Defaults of a plug-in without keys stay.
	cfg = promConfig{Interval: time.Second}
	if err := p.Collect[1].Decode(&cfg); err != nil || cfg.Interval != time.Second {
		t.Errorf("gpu = %+v, %v", cfg, err)
	}
}

// TestSecrets holds that a plan knows what must not be shown, its plug-ins'
// part included, and nothing else of the environment.
func TestSecrets(t *testing.T) {
	p, err := Parse("p.yaml", ".", []byte(`
version: 1
name: p
model: "${SWEEP_MODEL}"
matrix: {engine: vllm, gpu: l4, concurrency: 1, max_tokens: 1}
backend: {kind: endpoint, url: "http://x", key: "${SWEEP_API_KEY}"}
load: {requests: 1, prompts: {input_tokens: 1}}
`), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	var c endpointConfig
	if err := p.Backend.Decode(&c); err != nil {
		t.Fatal(err)
	}
	got := p.Secrets()
	if len(got) != 1 || got[0].Ref() != "${SWEEP_API_KEY}" || got[0].Reveal() != "canary-value" {
		t.Errorf("the plan has the secrets %v, want the key alone", got)
	}
	if got := (&plan.Plan{}).Secrets(); got != nil {
		t.Errorf("no plan has the secrets %v", got)
	}
}
