package planfile

import (
	"os"
	"strings"
	"testing"
)

// The lm_eval of docs/quality.md is what a plan may say.
func TestQualityPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/quality.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "<!-- checked: plan/planfile.TestQualityPage -->\n```text\n")
	block, _, _ = strings.Cut(block, "```")
	good, err := os.ReadFile("testdata/ok/quality_lm_eval.yaml")
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(good), "quality:\n")
	files := strings.NewReplacer("results/auto/samples_gsm8k", "lm_eval_auto", "results/fp8/samples_gsm8k", "lm_eval_fp8")
	p, err := Parse("page", "testdata/ok", []byte(before+files.Replace(block)), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	var of []string
	for _, d := range p.Deployments() {
		ref := "none"
		if f := p.Quality.LMEval.FileOf(d.Cells[0]); f != nil {
			ref = f.FileRef
		}
		of = append(of, ref)
	}
	if got := strings.Join(of, " "); got != "lm_eval_auto.jsonl lm_eval_fp8.jsonl none" {
		t.Errorf("the deployments have the files %s", got)
	}
}
