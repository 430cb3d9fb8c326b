package answer

import (
	"encoding/json"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/schematest"
	"sweep.dev/sweep/judge/quality"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/reporttest"
	"sweep.dev/sweep/report/view"
	"sweep.dev/sweep/schemas"
)

// What is not known of answers that sweep did not ask for is null, and 0 of its own.
func TestQualityOf(t *testing.T) {
	t.Parallel()
	for source, want := range map[quality.Source]string{
		quality.FromSweep:  `"quality_n":1,"quality_refused":0,"quality_unknown":0}`,
		quality.FromLMEval: `"quality_n":1,"quality_refused":null,"quality_unknown":null}`,
	} {
		dir := t.TempDir()
		a := quality.Answers{
			Header: quality.Header{Deployment: "d1", Label: "vllm", Server: map[string]string{"gpu": "l4"}, Digest: "s", Source: source},
			List:   []quality.Answer{{Item: "0", Right: new(true)}},
		}
		reporttest.Answers(t, dir, 1, a)
		got, err := json.Marshal(qualityOf(&view.View{Run: &report.Run{Dir: dir}}))
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%q: %s, %v, want %s", source, got, err, want)
		}
	}
}

// The figures of a deployment against its baseline are what the schema says, with and without
// what is not known.
func TestQualityOf_schema(t *testing.T) {
	t.Parallel()
	schema, err := schematest.Compiler(t, schemas.Answer).Compile(schematest.Name + "#/definitions/quality")
	if err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]string{
		"rrww": `"base_score":1,"score":0.5,"difference":-0.5,`,
		"????": `"base_score":null,"score":null,"difference":null,`,
	} {
		dir := t.TempDir()
		for id, answers := range map[string]string{"f16": "rrrr", "q4": pattern} {
			reporttest.Answers(t, dir, 1, quality.Answers{
				Header: quality.Header{Deployment: id, Label: id, Server: map[string]string{"kv": id}, Baseline: map[string]string{"kv": "f16"}, Digest: "s"},
				List:   reporttest.Answered(answers),
			})
		}
		q := qualityOf(&view.View{Run: &report.Run{Dir: dir}})
		schematest.Holds(t, schema, q)
		got, err := json.Marshal(q)
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %s, %v, want %s", pattern, got, err, want)
		}
	}
}
