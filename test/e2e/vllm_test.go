//go:build e2e_vllm

package e2e

import "testing"

var vllm = rig{
	task:   "engines:vllm",
	files:  []string{".engines/vllm/bin/vllm", ".engines/tiny-hf/model.safetensors"},
	plan:   "plans/local-vllm.yaml",
	engine: "vllm",
	low:    1, high: 8, short: 32, long: 128, requests: 16,
	slow:          24,
	hasHistograms: true,
}

func TestVLLM_grid(t *testing.T)        { vllm.grid(t) }
func TestVLLM_relaunch(t *testing.T)    { vllm.relaunch(t) }
func TestVLLM_sweepKilled(t *testing.T) { vllm.sweepKilled(t) }
