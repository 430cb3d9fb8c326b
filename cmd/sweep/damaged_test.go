package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/layout"
)

// A file of a run directory that is missing or broken is named, with what to do, in every
// command: it is no internal error, and no resume goes in circles.
func TestDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "plan.yaml"), "version: 1\nname: d\nmodel: sweep/tiny\nmatrix: {engine: vllm, gpu: h100, concurrency: 1, max_tokens: 4}\nbackend: {kind: sim}\nload: {requests: 3, warmup: {requests: 0}, prompts: {kind: synthetic, input_tokens: 4}}\n")
	for _, run := range []string{"good", "bad"} {
		if got := sweep(t, dir, nil, "run", "--calibrate", "never", "-o", run, "plan.yaml"); got.code != exitOK && got.code != exitIncomplete {
			t.Fatalf("exit %d\n%s", got.code, got.stderr)
		}
	}
	half := func(b []byte) []byte { return b[:len(b)/2] }
	flipped := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	for _, c := range []struct {
		file, want string
		damage     func([]byte) []byte // nil removes the file
		readers    bool                // every command reads it
	}{
		{layout.Resolved, "plan.resolved.json is missing", nil, true},
		{layout.Resolved, "plan.resolved.json: unexpected end of JSON input", half, true},
		{layout.Journal, "journal is damaged at byte", flipped, true},
		{layout.Plan, "plan.yaml is missing", nil, false},
	} {
		path := filepath.Join(dir, "bad", c.file)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if c.damage == nil {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, c.damage(bytes.Clone(whole)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		commands := []string{"resume bad"}
		if c.readers {
			commands = append(commands, "report bad", "cells bad", "runs bad", "logs bad", "compare bad good", "compare good bad", "runs merge bad good -o both", "sim fit --model x bad", "export --format vllm bad")
		}
		for _, command := range commands {
			got := sweep(t, dir, nil, strings.Fields(command)...)
			if got.code != exitUsage || !strings.Contains(got.stderr, c.want) || !strings.Contains(got.stderr, "bring the file back") {
				t.Errorf("%s: %s: exit %d, stderr\n%s", c.want, command, got.code, got.stderr)
			}
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
