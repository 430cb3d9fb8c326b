package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
)

// measured runs a plan of the simulator, deaf to the machine's weather, and
// returns its rows and what was said.
func measured(t *testing.T, plan string, codes ...int) (rows []result.Row, out string, got ran) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "plan.yaml")
	text := "version: 1\nname: measured\nmodel: Qwen/Qwen2.5-1.5B-Instruct\nengines: {vllm: {args: {max-model-len: 4096, max-num-seqs: 8}}}\n" + plan
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil { //nolint:forbidigo // a test's plan
		t.Fatal(err)
	}
	out = filepath.Join(dir, "run")
	got = sweep(t, dir, nil, append(append([]string{"run", "--calibrate", "never", "-o", out}, rehearsal...), path)...)
	for _, code := range codes {
		if got.code == code {
			run, err := report.Open(out)
			if err != nil {
				t.Fatal(err)
			}
			return run.Rows(), out, got
		}
	}
	t.Fatalf("exit %d, want %v\n%s\n%s", got.code, codes, got.stdout, got.stderr)
	return nil, "", got
}

// TestVerdict_warmCache: prompts that a server knows without the load's doing are
// found, whatever the prompts are; and what a load shares of itself is no fault.
func TestVerdict_warmCache(t *testing.T) {
	t.Parallel()
	var texts []string
	for i := range 24 {
		texts = append(texts, fmt.Sprintf("%q", fmt.Sprintf("%d ", i)+strings.Repeat("alpha beta gamma delta ", 20)))
	}
	for name, load := range map[string]string{
		"made up":      `{requests: 20, max_tokens: 8, prompts: {input_tokens: 200}}`,
		"system":       `{requests: 20, max_tokens: 8, prompts: {input_tokens: 200, system: You answer briefly., shared_prefix: 25%}}`,
		"given":        `{requests: 20, max_tokens: 8, prompts: {kind: inline, texts: [` + strings.Join(texts, ", ") + `]}}`,
		"conversation": `{requests_per_worker: 6, max_tokens: 8, conversation: {turns: 3}, prompts: {input_tokens: 200}}`,
	} {
		for fault, want := range map[string]any{"[]": nil, "[warm-cache]": "cache_state"} {
			t.Run(name+" "+fault, func(t *testing.T) {
				t.Parallel()
				rows, _, got := measured(t, `
matrix: {engine: vllm, gpu: l4, concurrency: [2]}
backend: {kind: sim, time_scale: 8, faults: `+fault+`}
load: `+load, exitOK, exitIncomplete)
				if len(rows) != 1 || rows[0]["invalid_reasons"] != want {
					t.Errorf("reasons %v, want %v; hit rate %v\n%s", rows[0]["invalid_reasons"], want, rows[0]["prefix_cache_hit_rate"], got.stdout)
				}
			})
		}
	}
}
