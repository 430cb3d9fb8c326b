package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A refused run leaves nothing in the folder, and names resume only if there is
// a run to resume.
func TestRun_refusedFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "plan.yaml"), `
version: 1
name: refused
model: sweep/tiny
matrix: {engine: vllm, gpu: l4, concurrency: 1, max_tokens: 3}
backend: sim
load: {requests: 2, warmup: {requests: 0}, prompts: {input_tokens: 20}}
`)
	foreign := filepath.Join(dir, "thesis")
	if err := os.Mkdir(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(foreign, "thesis.tex"), "x")
	// Before the calibration, which takes seconds.
	calibrated := []string{"SWEEP_CALIBRATE=auto", "XDG_CACHE_HOME=" + t.TempDir()}
	r := sweep(t, dir, calibrated, "run", "-o", foreign, "plan.yaml")
	if strings.Contains(r.stderr, "calibrating") {
		t.Errorf("it is calibrated first\n%s", r.stderr)
	}
	if r.code != exitUsage || strings.Contains(r.stderr, "resume") || !strings.Contains(r.stderr, "thesis.tex") {
		t.Errorf("exit %d\n%s", r.code, r.stderr)
	}
	if entries, err := os.ReadDir(foreign); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	run := filepath.Join(dir, "run")
	if r := sweep(t, dir, nil, "run", "-o", run, "plan.yaml"); r.code != exitOK && r.code != exitIncomplete {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	if r := sweep(t, dir, calibrated, "run", "-o", run, "plan.yaml"); r.code != exitUsage || !strings.Contains(r.stderr, "sweep resume "+run) || strings.Contains(r.stderr, "calibrating") {
		t.Errorf("a second run: exit %d\n%s", r.code, r.stderr)
	}
}
