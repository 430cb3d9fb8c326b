//go:build e2e

package e2e

import "testing"

var llamaCpp = rig{
	task:   "engines:llamacpp",
	files:  []string{".engines/llamacpp/bin/python", ".engines/gemma-3-270m-q4_k_m.gguf"},
	plan:   "plans/local-llamacpp.yaml",
	engine: "llamacpp",
	low:    1, high: 2, short: 16, long: 32, requests: 6,
	slow: 6, tokenizes: true,
}

func TestLlamaCpp_grid(t *testing.T) { llamaCpp.grid(t) } // alone: its figures are looked at

func TestLlamaCpp_relaunch(t *testing.T) {
	t.Parallel()
	llamaCpp.relaunch(t)
}

func TestLlamaCpp_sweepKilled(t *testing.T) {
	t.Parallel()
	llamaCpp.sweepKilled(t)
}
