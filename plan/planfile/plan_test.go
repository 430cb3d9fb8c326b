package planfile

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/plan"
)

// The plug-ins of the tests, and engines and GPUs that do not change when the
// real ones do.
type (
	endpointConfig struct {
		URL string        `yaml:"url" doc:"Address of the server."`
		Key secret.String `yaml:"key,omitempty" doc:"Key, by reference."`

		ResetCache string `yaml:"reset_cache,omitempty" doc:"Whether." enum:"never,between_trials"`
	}
	promConfig struct {
		Interval time.Duration `yaml:"interval,omitempty"`
		Path     string        `yaml:"path,omitempty"`
	}
	attachConfig struct {
		Namespace string `yaml:"namespace" doc:"Namespace."`
		Attach    string `yaml:"attach" doc:"What is attached to."`
	}
	csvConfig struct {
		Columns []string `yaml:"columns,omitempty" doc:"Columns to write."`
	}
)

func testOptions() Options {
	return Options{
		Vocabulary: plan.Vocabulary{
			Backends: []plan.PluginDoc{
				{Kind: "sim"},
				{Kind: "process", FreeGPU: true},
				{Kind: "endpoint", FreeGPU: true, Given: true, Config: endpointConfig{}},
				{Kind: "kubernetes", FreeGPU: true, Given: true, LoadPods: true, Config: attachConfig{}},
			},
			Collectors: []plan.PluginDoc{{Kind: "prom", Config: promConfig{}}, {Kind: "gpu"}, {Kind: "proc"}},
			Sinks:      []plan.PluginDoc{{Kind: "csv", Config: csvConfig{}}, {Kind: "parquet"}},
		},
		LookupEnv: func(name string) (string, bool) {
			v, ok := map[string]string{
				"SWEEP_API_KEY": "canary-value", "SWEEP_MODEL": "org/model", "SWEEP_EMPTY": "",
				"HF_TOKEN": "canary-hf", "AWS_SECRET_ACCESS_KEY": "canary-aws", "EXTRA": "extra",
			}[name]
			return v, ok
		},
		profiles: map[string]*engine.Profile{
			"vllm": {
				Name: "vllm", API: engine.API{IgnoreEOS: true, CacheReset: "/reset_prefix_cache"},
				Flags: engine.Flags{
					Reserved: []string{"host", "port", "model"}, Served: "served-model-name",
					Known: []string{"max-num-seqs", "max-model-len", "gpu-memory-utilization", "dtype", "enable-prefix-caching"},
				},
			},
			"sglang":         {Name: "sglang", API: engine.API{IgnoreEOS: true}},
			"generic-openai": {Name: "generic-openai"},
			"dynamo": {
				Name: "dynamo", Entry: "frontend", API: engine.API{IgnoreEOS: true},
				Flags: engine.Flags{Reserved: []string{"model"}, Known: []string{"max-num-seqs", "max-model-len"}},
				Roles: []engine.Role{{Name: "worker"}, {Name: "frontend", Tier: engine.TierFrontend}},
			},
		},
		gpus: []string{"t4", "rtx-2000-ada", "l4", "a100-80gb"},
	}
}

// parseReal parses a plan with the real engines and GPUs and, unless it is "",
// a user's configuration.
func parseReal(t *testing.T, config, src string) (*plan.Plan, error) {
	t.Helper()
	opts := testOptions()
	opts.profiles, opts.gpus = nil, nil
	if config != "" {
		opts.Config = filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(opts.Config, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Parse("plan.yaml", t.TempDir(), []byte(src), opts)
}

const simple = `version: 1
name: simple
model: m
backend: sim
matrix:
  engine: vllm
  gpu: [l4, t4]
  concurrency: [1, 4]
  max_tokens: {from: 64, to: 256, factor: 2}
load:
  requests: 8
  prompts: {input_tokens: 200}
slo:
  responsive: p95_ttft_ms < 200
`

func TestParse_simple(t *testing.T) {
	p, err := Parse("p.yaml", ".", []byte(simple), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	ds := p.Deployments()
	if len(ds) != 2 || len(ds[0].Cells) != 6 || ds[0].Server.GPU != "l4" {
		t.Errorf("deployments = %+v", ds)
	}
	c := ds[0].Cells[1]
	if c.Load.Concurrency != 1 || c.Load.MaxTokens != 128 || c.Load.Output != "exact" {
		t.Errorf("second cell = %+v", c)
	}
	row := map[string]any{"p95_ttft_ms": 150.0}
	if r := p.SLO[0].Evaluate(row, nil, 0.95); r.Verdict != "pass" || r.Values["p95_ttft_ms"] != 150.0 {
		t.Errorf("slo = %+v", r)
	}
	if r := p.SLO[0].Evaluate(nil, nil, 0.95); r.Verdict != "" || r.Error == "" {
		t.Errorf("slo without a value = %+v", r)
	}
	f, err := p.Filter(`gpu == "t4" && concurrency in [4, 8]`)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range p.Cells() {
		if ok, err := f(c); err != nil {
			t.Fatal(err)
		} else if ok {
			n++
		}
	}
	if n != 3 {
		t.Errorf("filter kept %d cells, want 3", n)
	}
}
