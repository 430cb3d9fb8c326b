//go:build e2e_vllm

package e2e

import "testing"

func TestVLLM_honest(t *testing.T) { vllm.honest(t) }
