package rented

import (
	"testing"

	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/planfile"
)

// TestPlaceOf: a host that a variable names is another place with another value.
func TestPlaceOf(t *testing.T) {
	t.Parallel()
	type config struct {
		Host string `yaml:"host" doc:"the host"`
	}
	v := plan.Vocabulary{Backends: []plan.PluginDoc{{Kind: "ssh", Doc: "hosts", Config: config{}}}}
	place := func(host string) string {
		p, err := planfile.Parse("p.yaml", t.TempDir(), []byte(`version: 1
name: p
model: m
matrix: {engine: vllm, gpu: t4, concurrency: 1}
backend: {kind: ssh, host: "${SWEEP_HOST}"}
load: {requests: 1, max_tokens: 1, prompts: {input_tokens: 20}}
`), planfile.Options{Vocabulary: v, LookupEnv: func(string) (string, bool) { return host, true }})
		if err != nil {
			t.Fatal(err)
		}
		got, err := PlaceOf(p)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if a := place("a"); a == place("b") || a != place("a") {
		t.Error("two hosts are one place")
	}
}
