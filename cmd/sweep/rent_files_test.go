package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/backends/runpod/runpodtest/podtest"
)

// An engine that has no metrics without a file of settings has them on a rented
// GPU: the file gets there before it starts, with what the plan says.
func TestRent_files(t *testing.T) {
	t.Parallel()
	this := []string{"env", asSweep + "=1", executable(t)}
	a := accountOf(t, podtest.Image{
		Pattern: "nvcr.io/nvidia/tensorrt-llm/release:*",
		Programs: map[string]string{
			"trtllm-serve": "exec " + podtest.Quote(slices.Concat(this, []string{"sim", "--engine", "trtllm", "--gpu"})...) + " {gpu} \"$@\"\n",
		},
	})
	plan := strings.ReplaceAll(rentPlan, "engine: vllm", "engine: trtllm")
	plan = strings.Replace(plan, `{vllm: {image: "vllm/vllm-openai:v0.29.0"}}`,
		`{trtllm: {image: "nvcr.io/nvidia/tensorrt-llm/release:1.3.0", args: {kv_cache_config.max_tokens: 4096}}}`, 1)
	write(t, filepath.Join(a.dir, "rent.yaml"), plan)

	r := a.sweep("run", "-o", "out", "--yes", "rent.yaml")
	if r.code != exitOK {
		t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for name, want := range map[string]string{"status": "ok ok", "engine": "trtllm trtllm", "backend": "runpod runpod", "server_requests": "5 6", "kv_cache_tokens": "4096 4096"} {
		if got := column(t, filepath.Join(a.dir, "out", "cells.csv"), name); strings.Join(got, " ") != want {
			t.Errorf("%s is %v, want %s", name, got, want)
		}
	}
	if r := a.sweep("run", "--yes", "--set", "backend.bootstrap=false", "rent.yaml"); r.code != exitUsage || !strings.Contains(r.stderr, "configured by files") {
		t.Errorf("with nobody to write them: exit %d, %s%s", r.code, r.stdout, r.stderr)
	}
	if audit := a.Audit(); len(audit.Pods) != 1 || audit.Err(0) != nil {
		t.Errorf("%d pods, %v", len(audit.Pods), audit.Err(0))
	}
}
