//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// qualityPlan is one model with two types of its KV cache, and with a context that is
// too short for some of the prompts.
const qualityPlan = `version: 1
name: quality
model: .engines/gemma-3-270m-q4_k_m.gguf
matrix:
  engine: llamacpp
  gpu: cpu
  concurrency: 1
  max_tokens: 8
  args.cache-type-k: [f16, q4_0]
  args.cache-type-v: [f16, q4_0]
  args.ctx-size: [2048, 256]
  zip: [[args.cache-type-k, args.cache-type-v]]
  exclude: ['arg_ctx_size == 256 && arg_cache_type_k != "f16"']
backend: process
engines:
  llamacpp:
    command: [.engines/llamacpp/bin/python, tools/engines/llama_serve.py, '--model={{.Model}}', '--host={{.Host}}', '--port={{.Port}}', --metrics]
    served_model_name: gemma-3-270m
    args: {parallel: 1, threads: 1}
load:
  requests: 1
  warmup: {requests: 0}
  sampling: {temperature: 0}
  prompts: {input_tokens: 16, length: words}
quality:
  file: set.jsonl
  baseline: {args.cache-type-k: f16, args.cache-type-v: f16, args.ctx-size: 2048}
  max_tokens: 8
  concurrency: 1
timeouts: {ready: 1m, request: 1m}
`

// The items of qualitySet.
const (
	shortItems = 5
	longItems  = 5
)

// qualitySet is short items of the shipped set, and those whose prompt has some 300 tokens
// and the answer in it many times.
func qualitySet(t *testing.T) []byte {
	t.Helper()
	shipped, err := os.ReadFile("plans/quality/short-answers.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	set := bytes.Join(bytes.SplitAfterN(shipped, []byte("\n"), shortItems+1)[:shortItems], nil)
	for _, word := range strings.Fields("apple river stone cloud tiger lemon house piano bread green")[:longItems] {
		set = fmt.Appendf(set, `{"id": %q, "prompt": %q, "expected": %q}`+"\n", "long-"+word,
			strings.Repeat("The code word is "+word+". ", 45)+"What is the code word?", word)
	}
	return set
}

// The same real model answers a set of prompts with several types of its KV cache. A
// context that is too short for half of the prompts has a lower score, and says why. So
// small a model has few of these right, too few to be certain of a loss.
func TestLlamaCpp_quality(t *testing.T) {
	t.Parallel()
	need(t, llamaCpp.task, llamaCpp.files...)
	dir := t.TempDir()
	for name, text := range map[string][]byte{"plan.yaml": []byte(qualityPlan), "set.jsonl": qualitySet(t)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "run")
	s := start(t, "run", "-o", out, filepath.Join(dir, "plan.yaml"))
	ended(t, s.wait())
	s.nothingLeft(0)
	rows := readRows(t, out)
	if len(rows) != 3 {
		t.Fatalf("%d rows, want 3", len(rows))
	}
	scores := map[string]float64{}
	for _, r := range rows {
		scores[r["arg_cache_type_k"]+" "+r["arg_ctx_size"]] = r.number(t, "quality_score")
		refused := 0.0
		if r["arg_ctx_size"] == "256" {
			refused = longItems
		}
		name := fmt.Sprintf("%s KV cache, context %s", r["arg_cache_type_k"], r["arg_ctx_size"])
		t.Logf("%s: score %s (%s to %s), the same twice %s", name, r["quality_score"], r["quality_score_low"], r["quality_score_high"], r["quality_repeat_rate"])
		const items = shortItems + longItems
		if n, x := r.number(t, "quality_n"), r.number(t, "quality_refused"); n != items || x != refused {
			t.Errorf("%s: %v scored and %v refused, want %d and %v", name, n, x, items, refused)
		}
		if x, least := r.number(t, "extra_completions"), 2*(items-refused)+refused; x < least {
			t.Errorf("%s: %v extra completions, want %v at least", name, x, least)
		}
	}
	summary, err := os.ReadFile(filepath.Join(out, "summary.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, verdicts, _ := strings.Cut(string(summary), "## Does it answer worse than the baseline?")
	verdicts, _, _ = strings.Cut(verdicts, "\n## ")
	t.Log(verdicts)
	if long, short := scores["f16 2048"], scores["f16 256"]; short >= long {
		t.Errorf("a context that is too short scores %v, and one that is not %v", short, long)
	}
	if strings.Count(verdicts, " against ") != 2 {
		t.Error("two servers are not compared with the baseline")
	}
}
