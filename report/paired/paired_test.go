package paired

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/judge/quality"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/reporttest"
)

// put writes answers of a launch, see [reporttest.Answered].
func put(t *testing.T, dir, deployment string, launch int, digest string, server map[string]string, pattern string) {
	t.Helper()
	reporttest.Answers(t, dir, launch, quality.Answers{Header: quality.Header{
		Deployment: deployment, Label: "vllm " + server["gpu"] + " " + server["kv"], Server: server, Baseline: map[string]string{"kv": "f16"}, Digest: digest,
	}, List: reporttest.Answered(pattern)})
}

// Each server is compared with the baseline that has its own other values. One whose
// baseline has answered other prompts, or none, is not.
func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := strings.Repeat("r", 60)
	put(t, dir, "d1", 1, "s", map[string]string{"gpu": "l4", "kv": "f16"}, strings.Repeat("w", 60)) // before a resume
	put(t, dir, "d1", 2, "s", map[string]string{"gpu": "l4", "kv": "f16"}, good)
	put(t, dir, "d2", 1, "s", map[string]string{"gpu": "l4", "kv": "q8"}, good[:58]+"wr")
	put(t, dir, "d3", 1, "s", map[string]string{"gpu": "l4", "kv": "q4"}, good[:40]+strings.Repeat("w", 18)+"x?")
	put(t, dir, "d4", 1, "s", map[string]string{"gpu": "h100", "kv": "q8"}, good)
	put(t, dir, "d5", 1, "other", map[string]string{"gpu": "l4", "kv": "q5"}, good)
	if err := os.MkdirAll(filepath.Join(dir, layout.LaunchDir("d6", 1)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, layout.LaunchDir("d6", 1), layout.Quality), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	d := draw.New(&b, draw.Style{Width: 1000})
	d.Grid(p.Grid())
	d.Section("Verdicts", p.Verdicts())
	d.Paragraph(p.Notes()...)
	got := b.String()
	for _, want := range []string{
		"vllm l4 f16   100.0 %  94.0 % to 100.0 %  60       0        100.0 %",
		"vllm l4 q4    67.8 %",
		"vllm l4 q8 against vllm l4 f16: cannot tell: with 60 prompts a loss of 14.7 points or more would show (4 times in 5), and no smaller one",
		"score -1.7 points (97.5 % interval ",
		"of 60 prompts 1 became wrong and 0 right, p = 1",
		"98.3 % of the answers are the same text; the others differ first at character 15 (median); asked twice, the baseline differs from itself in 0.0 % and this one in 0.0 %",
		"vllm l4 q4 against vllm l4 f16: worse",
		"of 59 prompts 19 became wrong and 0 right",
		"vllm l4 q4: 1 prompt without an answer",
		"vllm h100 q8: not compared, as its baseline has no answers to these prompts.",
		"vllm l4 q5: not compared",
		"Not read: deployments/d6/l01/quality.jsonl: the first line is no header of version 1",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	if short := strings.Join(p.Short(), "\n"); !strings.Contains(short, "not read: deployments/d6/l01/quality.jsonl: the first line") {
		t.Errorf("in short:\n%s", short)
	}
	if strings.Count(got, " against ") != 2 || !strings.HasPrefix(p.Servers[0].Label, "vllm l4 f16") {
		t.Errorf("%d sides, first %s", len(p.Sides), p.Servers[0].Label)
	}
}

// A run whose plan has no quality says nothing of it.
func TestRead_none(t *testing.T) {
	t.Parallel()
	if p, err := Read(t.TempDir()); p != nil || err != nil {
		t.Errorf("%v, %v", p, err)
	}
}

// TestShort holds the line of each deployment: against its baseline, or its score.
func TestShort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := strings.Repeat("r", 60)
	put(t, dir, "d1", 1, "s", map[string]string{"gpu": "l4", "kv": "f16"}, good)
	put(t, dir, "d2", 1, "s", map[string]string{"gpu": "l4", "kv": "q4"}, good[:40]+strings.Repeat("w", 20))
	put(t, dir, "d3", 1, "s", map[string]string{"gpu": "h100", "kv": "f16"}, good[:45]+strings.Repeat("w", 15))
	p, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(p.Short(), "\n")
	for _, want := range []string{
		"vllm l4 q4 against vllm l4 f16: worse; score -33.3 points (95 % interval ",
		"vllm h100 f16: 75.0 % right (95 % interval 62.1 % to 85.3 %) of 60 prompts",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}
