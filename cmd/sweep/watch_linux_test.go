package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/layout"
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
model: Qwen/Qwen2.5-7B-Instruct
matrix: {engine: vllm, gpu: h100, concurrency: [1, 2], max_tokens: 16}
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
	watch := ptytest.Start(t, command("runs", "--watch", "out"), 100, 30)
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

// TestWatch_deployments watches a run of two deployments side by side: the terminal has a
// line for each, with its own progress and marks.
func TestWatch_deployments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "plan.yaml"), `version: 1
name: two
model: Qwen/Qwen2.5-7B-Instruct
matrix: {engine: vllm, gpu: [h100, l40s], concurrency: [1, 2], max_tokens: 16}
backend: {kind: sim}
load: {duration: 4s, warmup: {requests: 0}, prompts: {kind: synthetic, input_tokens: 20}}
`)
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), executable(t), args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), asSweep+"=1", "TERM=xterm")
		return cmd
	}
	run := ptytest.Start(t, command("run", "--parallel", "2", "-o", "out", "plan.yaml"), 100, 30)
	polltest.Until(t, "a run directory", func() bool {
		_, err := os.Stat(filepath.Join(dir, "out", "journal.jsonl"))
		return err == nil
	})
	watch := ptytest.Start(t, command("runs", "--watch", "out"), 100, 30)
	for _, gpu := range []string{"h100", "l40s"} {
		live := regexp.MustCompile(`two  [0-3]/4  vllm ` + gpu + ` \[[^\]]{2}\] .*tok/s  TTFT p95 `)
		line := regexp.MustCompile(`(?m)^ +vllm ` + gpu + ` \[[^\]]{2}\] .*tok/s  TTFT p95 `)
		polltest.Until(t, "the progress of "+gpu, func() bool {
			text := strings.ReplaceAll(watch.Text(), "\r", "\n")
			return live.MatchString(text) || line.MatchString(text)
		})
	}
	run.Await(0, "next: sweep")
	watch.Await(0, "not running")
}

// TestWatch_leftover: a progress that a killed run has left is shown to no one who looks at
// the run, and resume removes it.
func TestWatch_leftover(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "crash.yaml"), crashPlan)
	if r := sweep(t, dir, []string{"SWEEP_FAULT=commit.journal:after:kill@1"}, "run", "-o", "out", "crash.yaml"); r.code != -1 {
		t.Fatalf("it was not killed: %d\n%s", r.code, r.stderr)
	}
	left := filepath.Join(dir, "out", layout.Progress)
	write(t, left, `{"time":"2026-01-02T03:04:05Z","live":[{"deployment":"d","trial":{"cell":"c","trial":1},"step":"CANARY"}]}`)
	write(t, left+".tmp", `{"time":`)
	if r := sweep(t, dir, nil, "runs", "--watch", "out"); r.code != exitOK || strings.Contains(r.stdout+r.stderr, "CANARY") {
		t.Errorf("status: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := sweep(t, dir, nil, "resume", "out"); r.code != exitOK || strings.Contains(r.stdout+r.stderr, "CANARY") {
		t.Errorf("resume: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if files, err := filepath.Glob(left + "*"); err != nil || len(files) > 0 {
		t.Errorf("resume left %v (%v)", files, err)
	}
}
