package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
)

// TestComparisons runs the plans whose summary compares, and looks for what it
// compares. All rows are ok or INVALID for a busy machine: what is looked at is
// no speed.
func TestComparisons(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		name, plan string
		set        []string
		rows       int
		want       []string // in the summary
		files      []string
	}{
		{
			name: "engines", plan: "engines-compare", set: []string{"matrix.max_tokens=30", "load.requests_per_worker=2", "load.warmup.requests=1"}, rows: 3,
			want: []string{
				"Completed 9 of 9 requests.", "## Engines side by side: l40s concurrency=1 max\\_tokens=30", "| engine | dynamo | dynamo-sglang | dynamo-trtllm |",
				"| requests completed | 3 of 3 | 3 of 3 | 3 of 3 |", "| unique metrics | ", "dynamo frontend-0, worker-0", "## Engines ranked", "output tokens/s: not ranked, too few trials: ", "  ~ |",
			},
			files: []string{"metrics-dynamo.log", "metrics-dynamo-sglang.log", "metrics-dynamo-trtllm.log"},
		},
		{
			name: "GPUs", plan: "chat-vs-batch", set: []string{"matrix.gpu=[h100, b200]", "matrix.max_tokens=[16,8]", "load.requests=6", "matrix.concurrency=[2,4]"}, rows: 8,
			want: []string{"## Which GPU for which load", "target_input_tokens=200 max_tokens=16", "concurrency=2", "each at its best of concurrency 2, 4, Mtok/$: ", "## Cost of output tokens"},
		},
		{
			name: "a surface without what cannot fit", plan: "memory-surface", set: []string{"matrix.max_tokens=2", "load.requests=4", "predicted=skip"}, rows: 6,
			want: []string{
				"## Which servers start", "| 0.6 | 4096 | 16 | skipped | oom.kv_startup |", "| 0.75 | 32768 | 16 | skipped | oom.max_len |",
				"6 of 6 servers came out", "Skipped: 6 cells",
			},
		},
		{
			name: "a soak", plan: "soak-container", set: []string{"backend={kind: sim}", "matrix.gpu=h100", "load.requests_per_worker=2"}, rows: 1,
			want: []string{"Completed 24 of 24 requests.", "metrics-vllm.log"}, files: []string{"metrics-vllm.log"},
		},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			out := rehearsePlan(t, p.plan, p.set, ranThrough)
			run, err := report.Open(out)
			if err != nil {
				t.Fatal(err)
			}
			rows := run.Rows()
			if len(rows) != p.rows {
				t.Errorf("%d rows, want %d", len(rows), p.rows)
			}
			for _, row := range rows {
				if row["status"] == result.StatusFailed {
					t.Errorf("%v: %v: %v", row["engine"], row["error_class"], row["error"])
				}
			}
			md, err := os.ReadFile(filepath.Join(out, "summary.md"))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range p.want {
				if !strings.Contains(string(md), want) && !strings.Contains(string(md), strings.ReplaceAll(want, `\_`, "_")) {
					t.Errorf("the summary does not say %q:\n%s", want, md)
				}
			}
			for _, name := range p.files {
				log, err := os.ReadFile(filepath.Join(out, name))
				if err != nil {
					t.Error(err)
				} else if !strings.HasPrefix(string(log), "# sweep scrape cell=") || !strings.Contains(string(log), "\n# TYPE ") {
					t.Errorf("%s is no log of what an engine exposed: %.200q", name, log)
				}
			}
		})
	}
}

// TestPredicted holds that a plan that skips what cannot fit says so, does not
// start it, and goes on in the same way.
func TestPredicted(t *testing.T) {
	t.Parallel()
	const surface = `version: 1
name: predicted
model: Qwen/Qwen2.5-7B-Instruct
matrix:
  engine: vllm
  gpu: l4
  args.gpu-memory-utilization: [0.6, 0.9]
  args.max-model-len: 4096
  concurrency: 1
  max_tokens: 2
backend: {kind: sim}
load: {requests: 1, prompts: {input_tokens: 16}}
on_start_failure: record
`
	dir := t.TempDir()
	write(t, filepath.Join(dir, "start.yaml"), surface)
	write(t, filepath.Join(dir, "skip.yaml"), surface+"predicted: skip\n")
	write(t, filepath.Join(dir, "none.yaml"), strings.Replace(surface, "[0.6, 0.9]", "0.6", 1)+"predicted: skip\n")
	for plan, want := range map[string][]string{
		"start.yaml": {"does not fit (oom.kv_startup)", "2 cells in 2 deployments"},
		"skip.yaml":  {"skipped", "does not fit (oom.kv_startup)", "1 cell in 1 deployment,"},
	} {
		got := sweep(t, dir, nil, "plan", plan)
		for _, w := range want {
			if !strings.Contains(got.stdout, w) {
				t.Errorf("sweep plan %s does not say %q:\n%s%s", plan, w, got.stdout, got.stderr)
			}
		}
	}
	if got := sweep(t, dir, nil, "run", "-o", "no", "none.yaml"); got.code != exitUsage || !strings.Contains(got.stderr, "predicted not to fit") {
		t.Errorf("a plan of which nothing fits: exit %d, %s", got.code, got.stderr)
	}
	if got := sweep(t, dir, nil, append(append([]string{"run", "-o", "out"}, rehearsal...), "skip.yaml")...); got.code != exitOK {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	if got := sweep(t, dir, nil, "resume", "out"); got.code != exitOK || strings.Contains(got.stderr, "launch") {
		t.Errorf("resume: exit %d\n%s", got.code, got.stderr)
	}
	if starts, err := filepath.Glob(filepath.Join(dir, "out/deployments/*")); err != nil || len(starts) != 1 {
		t.Errorf("servers were started: %q, %v", starts, err)
	}
}
