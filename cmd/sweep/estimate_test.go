package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"sweep.dev/sweep/executor/fingerprint"
	"sweep.dev/sweep/internal/vocabulary"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/planfile"
)

// deploymentOf parses a plan of one deployment.
func deploymentOf(t *testing.T, text string) (*plan.Plan, plan.Deployment) {
	t.Helper()
	p, err := planfile.Parse("x.yaml", t.TempDir(), []byte(text), planfile.Options{Vocabulary: vocabulary.All(), MaxCells: 100, LookupEnv: os.LookupEnv})
	if err != nil {
		t.Fatal(err)
	}
	all := p.Deployments()
	if len(all) != 1 {
		t.Fatalf("%d deployments", len(all))
	}
	return p, all[0]
}

// Each launch that is measured has the time of its fingerprint: that of its tokens, and at
// most the bound of package fingerprint.
func TestEstimate_fingerprint(t *testing.T) {
	t.Parallel()
	const grid = "version: 1\nname: x\nmodel: %s\nmatrix: {engine: vllm, gpu: l4, concurrency: [1, 2]}\nbackend: sim\nload: {requests: 8, max_tokens: 4}\n%s"
	const hunt = "version: 1\nname: x\nmodel: %s\nmatrix: {engine: vllm, gpu: l4}\nbackend: sim\nload: {requests: 40, max_tokens: 4}\nfind: {axis: request_rate, from: 1, to: 8, within: 50%%, devices: 3, objectives: {a: p50_ttft_ms < 100}}\ncollect: [gpu]\n%s"
	const small, large = "Qwen/Qwen2.5-1.5B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"
	for _, c := range []struct {
		text, model, more string
		of                traits
		launches          int // with a fingerprint
	}{
		{grid, small, "", traits{scale: 1, rents: true}, 1},
		{grid, small, "", traits{scale: 1}, 0},
		{grid, small, "fingerprint: true\n", traits{scale: 1, given: true}, 1},
		{grid, small, "repeats: {n: 3, launch: each}\n", traits{scale: 1, rents: true}, 3},
		{grid, large, "", traits{scale: 1, rents: true}, 1}, // a token takes half a second
		{hunt, small, "", traits{scale: 1, rents: true}, 3},
		{hunt, small, "", traits{scale: 2}, 3},
	} {
		p, d := deploymentOf(t, fmt.Sprintf(c.text, c.model, c.more))
		with := estimate(p, d, c.of)
		p.Fingerprint = new(bool)
		without := estimate(p, d, c.of)
		each := min(fingerprint.Limit, time.Duration(float64(fingerprint.Tokens())*float64(tokenEstimate(d.Server))/c.of.scale))
		name := fmt.Sprintf("%s %q %+v", c.model, c.more, c.of)
		if got, want := with.took-without.took, time.Duration(c.launches)*each; got != want || with.starts-without.starts != want {
			t.Errorf("%s: %s more are expected, want %s", name, got, want)
		}
		if got, want := with.longer-without.longer, time.Duration(c.launches)*fingerprint.Limit; got != want || with.mostStarts-without.mostStarts != want {
			t.Errorf("%s: %s more at most, want %s", name, got, want)
		}
		if with.launches != without.launches || with.mostLaunches < with.launches || with.longer < with.took {
			t.Errorf("%s: %+v", name, with)
		}
	}
}
