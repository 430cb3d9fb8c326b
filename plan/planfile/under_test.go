package planfile

import (
	"strings"
	"testing"

	"sweep.dev/sweep/plan"
)

// What a backend is may depend on its configuration: here its servers run already if it
// has their address.
func TestParse_under(t *testing.T) {
	t.Parallel()
	opts := testOptions()
	opts.Vocabulary.Backends = append(opts.Vocabulary.Backends, plan.PluginDoc{
		Kind: "cluster", FreeGPU: true, Config: endpointConfig{},
		Under: func(decode func(any) error) plan.PluginDoc {
			var c endpointConfig
			err := decode(&c)
			return plan.PluginDoc{Kind: "cluster", FreeGPU: true, Config: endpointConfig{}, Given: err == nil && c.URL != ""}
		},
	})
	text := func(config string) string {
		return `version: 1
name: n
model: org/model
matrix: {engine: vllm, gpu: A, concurrency: [1], max_tokens: 8}
repeats: {n: 3, launch: each}
backend: {kind: cluster` + config + `}
load: {requests: 10, prompts: {input_tokens: 8}}
`
	}
	if _, err := Parse("plan.yaml", ".", []byte(text("")), opts); err != nil {
		t.Error(err)
	}
	if _, err := Parse("plan.yaml", ".", []byte(text(", url: 'http://a'")), opts); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("with servers that run already: %v", err)
	}
}
