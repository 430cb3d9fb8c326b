package planfile

import (
	"reflect"
	"testing"
)

// An objective with looser bounds on the same figures is implied, wherever it is written.
func TestImplied(t *testing.T) {
	t.Parallel()
	p := parse(t, `version: 1
name: tiers
model: Qwen/Qwen2.5-1.5B-Instruct
matrix: {engine: vllm, gpu: l4, max_tokens: 8}
backend: sim
load: {requests: 50, prompts: {input_tokens: 100}}
find:
  axis: request_rate
  from: 1
  to: 8
  objectives:
    soon: p95_ttft_ms < 1000 and p95_tpot_ms < 50
    now: p95_ttft_ms < 200 and p95_tpot_ms < 25
    clean: error_rate < 1%
`)
	want := map[string][]string{"soon": {"now"}}
	if got := p.Implied(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
