package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
)

// measured runs a plan of the simulator, with validity bounds that a busy machine cannot break, and
// returns its rows and what was said.
func measured(t *testing.T, plan string, codes ...int) ([]result.Row, ran) {
	t.Helper()
	args, out := prepared(t, plan)
	got := sweep(t, t.TempDir(), nil, args...)
	if !slices.Contains(codes, got.code) {
		t.Fatalf("exit %d, want %v\n%s\n%s", got.code, codes, got.stdout, got.stderr)
	}
	return rowsOf(t, out), got
}

// prepared writes a plan and returns the command line that runs it into out.
func prepared(t *testing.T, plan string) (args []string, out string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "plan.yaml")
	text := "version: 1\nname: measured\nmodel: Qwen/Qwen2.5-1.5B-Instruct\nengines: {vllm: {args: {max-model-len: 4096, max-num-seqs: 8}}}\n" + plan
	write(t, path, text)
	out = filepath.Join(dir, "run")
	return append(append([]string{"run", "--calibrate", "never", "-o", out}, rehearsal...), path), out
}

func rowsOf(t *testing.T, out string) []result.Row {
	t.Helper()
	run, err := report.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	return run.Rows()
}

// TestVerdict_warmCache: prompts that a server knows without the load's doing are
// found, whatever the prompts are; and what a load shares of itself is no fault.
func TestVerdict_warmCache(t *testing.T) {
	t.Parallel()
	var texts []string
	for i := range 40 {
		texts = append(texts, fmt.Sprintf("%q", fmt.Sprintf("%d ", i)+strings.Repeat("alpha beta gamma delta ", 20)))
	}
	loads := map[string]string{
		"made up":      `{requests: 20, max_tokens: 8, prompts: {input_tokens: 200}}`,
		"conversation": `{requests_per_worker: 6, max_tokens: 8, conversation: {turns: 3}, prompts: {input_tokens: 200}}`,
	}
	if slow.Tests {
		loads["system"] = `{requests: 20, max_tokens: 8, prompts: {input_tokens: 200, system: You answer briefly., shared_prefix: 25%}}`
		loads["given"] = `{requests: 20, max_tokens: 8, prompts: {kind: inline, texts: [` + strings.Join(texts, ", ") + `]}}`
	}
	for name, load := range loads {
		for fault, want := range map[string]any{"[]": nil, "[warm-cache]": "cache_state"} {
			t.Run(name+" "+fault, func(t *testing.T) {
				t.Parallel()
				rows, got := measured(t, `
matrix: {engine: vllm, gpu: h100, concurrency: [2]}
backend: {kind: sim, faults: `+fault+`}
load: `+load, exitOK, exitIncomplete)
				if len(rows) != 1 || rows[0]["invalid_reasons"] != want {
					t.Errorf("reasons %v, want %v; hit rate %v\n%s", rows[0]["invalid_reasons"], want, rows[0]["prefix_cache_hit_rate"], got.stdout)
				}
			})
		}
	}
}
