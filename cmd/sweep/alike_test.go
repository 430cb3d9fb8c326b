package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRefused_alike holds that validate refuses what run refuses, with the same
// words, and that run refuses it before it makes or starts anything.
func TestRefused_alike(t *testing.T) {
	t.Parallel()
	const (
		head    = "version: 1\nname: bad\n"
		sim     = "backend: sim\n"
		model   = "model: sweep/tiny\n"
		matrix  = "matrix: {engine: vllm, gpu: l4, concurrency: 1}\n"
		load    = "load: {requests: 4, max_tokens: 4, prompts: {input_tokens: 8}}\n"
		prompts = "one\ntwo\n"
	)
	with := func(old, replaced string) string {
		return strings.Replace(head+model+matrix+sim+load, old, replaced, 1)
	}
	for name, c := range map[string]struct{ plan, says string }{
		"concurrency beyond a client": {with("concurrency: 1}", "concurrency: 100000}"), "65536"},
		"requests beyond a source":    {with("requests: 4", "requests: 6000000"), "5000000"},
		"requests of all workers":     {strings.Replace(with("requests: 4", "requests_per_worker: 200000"), "concurrency: 1}", "concurrency: 1000}", 1), "more than 5000000 requests"},
		"a rate that makes too many":  {strings.Replace(with("concurrency: 1}", "request_rate: 900000}"), "requests: 4", "duration: 1h", 1), "requests, more than"},
		"a prompt beyond a source":    {with("input_tokens: 8", "input_tokens: 5000000"), "4000000"},
		"a pair beyond a source":      {with("input_tokens: 8", "distribution: empirical, pairs: [[8, 2000000]]"), "an output of 2000000 tokens"},
		"an unknown model":            {with(model, "model: nobody/nothing\n"), "meta-llama/Llama-3.2-3B-Instruct"},
		"an engine without a dialect": {with("engine: vllm", "engine: nim"), "the simulator speaks the dialects of"},
		"prompts that are too few":    {with("input_tokens: 8", "kind: inline, texts: [a, b]"), "load.prompts.texts has 2 texts"},
		"prompts that are not there":  {with("input_tokens: 8", "kind: jsonl, file: none.jsonl"), "there is no file none.jsonl"},
		"prompts that are none":       {with("input_tokens: 8", "kind: jsonl, file: prompts.txt"), "prompts.txt"},
		"a trace that is none":        {head + model + strings.Replace(matrix, ", concurrency: 1", "", 1) + sim + "load: {trace: {file: prompts.txt, format: mooncake}, max_tokens: 4}\n", "prompts.txt"},
		"a field that is set twice":   {with("load: {", "load: {sampling: {top_p: 0.5}, body: {max_tokens: 3}, "), "max_tokens"},
		"a client that cannot send":   {with("load: {", "load: {stream: false, client: fast, "), "not streamed"},
		"an argument that is none":    {with("version: 1\n", "version: 1\nengines: {vllm: {args: {max-num-seq: 4}}}\n"), "max-num-seqs"},
		"a GPU that is none":          {with("gpu: l4", "gpu: l5"), "l4"},
		"a sim that cannot be":        {with("backend: sim\n", "backend: {kind: sim, faults: [nonsense]}\n"), "nonsense"},
		"servers that all do not fit": {with(model+matrix, "model: meta-llama/Llama-3.1-8B-Instruct\npredicted: skip\nmatrix: {engine: vllm, gpu: l4, args.gpu-memory-utilization: 0.6, concurrency: 1}\n"), "predicted not to fit"},
		"an objective of nothing":     {with("version: 1\n", "version: 1\nslo: {x: p95_nothing < 3}\n"), "p95_nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "p.yaml"), c.plan)
			write(t, filepath.Join(dir, "prompts.txt"), prompts)
			validated := sweep(t, dir, nil, "validate", "p.yaml")
			run := sweep(t, dir, nil, "run", "--yes", "--calibrate", "never", "-o", "out", "p.yaml")
			for command, got := range map[string]ran{"validate": validated, "run": run} {
				if got.code != exitUsage || !strings.Contains(got.stderr, c.says) {
					t.Errorf("%s: exit %d, want %d and %q:\n%s", command, got.code, exitUsage, c.says, got.stderr)
				}
			}
			refusal := func(text string) string {
				text = strings.TrimPrefix(strings.ReplaceAll(text, "sweep: ", ""), "p.yaml: ")
				line, _, _ := strings.Cut(text, "\n")
				line, _, _ = strings.Cut(line, " (see: ")
				return line
			}
			if a, b := refusal(validated.stderr), refusal(run.stderr); a != b {
				t.Errorf("validate says\n%s\nrun says\n%s", a, b)
			}
			if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
				t.Error("run has made its directory")
			}
		})
	}
}
