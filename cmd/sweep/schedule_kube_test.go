package main

import "testing"

// Engine files of one name in several folders are all there.
func TestMounted(t *testing.T) {
	got := mounted([]string{"a/vllm.yaml", "b/vllm.yaml", "c/vllm.yaml", "a/vllm.yaml", "2-vllm.yaml"})
	for file, want := range map[string]string{
		"a/vllm.yaml": "engine-files/vllm.yaml", "b/vllm.yaml": "engine-files/2-vllm.yaml", "c/vllm.yaml": "engine-files/3-vllm.yaml",
		"2-vllm.yaml": "engine-files/2-2-vllm.yaml",
	} {
		if got[file] != want {
			t.Errorf("%s is at %q, want %q", file, got[file], want)
		}
	}
}
