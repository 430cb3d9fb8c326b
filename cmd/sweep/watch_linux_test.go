package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/ptytest"
)

// TestWatch_terminal runs a plan on a terminal and watches it from another: both show
// the cells with their marks, and the watch ends with the run.
func TestWatch_terminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const plan = `version: 1
name: watched
model: sweep/tiny
matrix: {engine: vllm, gpu: h100, concurrency: [1, 2], max_tokens: 64}
backend: {kind: sim}
load: {duration: 4s, warmup: {requests: 0}, prompts: {kind: synthetic, input_tokens: 20}}
`
	if err := os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), self, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), asSweep+"=1", "TERM=xterm")
		return cmd
	}
	run := ptytest.Start(t, command("run", "-o", "out", "plan.yaml"), 100, 30)
	polltest.Until(t, "a run directory", func() bool {
		_, err := os.Stat(filepath.Join(dir, "out", "journal.jsonl"))
		return err == nil
	})
	watch := ptytest.Start(t, command("status", "--watch", "out"), 100, 30)
	run.Await(0, "watched  0/2  vllm h100 [..]")
	run.Await(0, "tok/s")
	watch.Await(0, "watched  0/2")
	watch.Await(0, "tok/s  TTFT p95 ")
	watch.Await(0, "watched  1/2  vllm h100 [")
	run.Await(0, "next: sweep")
	watch.Await(0, "not running")
	if text := watch.Text(); strings.Contains(text, "panic") {
		t.Error(text)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "out", "progress.json*")); err != nil || len(left) > 0 {
		t.Errorf("the run left %v (%v)", left, err)
	}
}
