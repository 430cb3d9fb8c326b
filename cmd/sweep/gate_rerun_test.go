package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sweep.dev/sweep/cmd/sweep/internal/vocabulary"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/planfile"
)

// A second measurement names its cells by their ids: an expression that named 300 of them
// would be longer than one may be.
func TestFilter_cells(t *testing.T) {
	t.Parallel()
	var loads []string
	for n := range 400 {
		loads = append(loads, fmt.Sprint(n+1))
	}
	text := "version: 1\nname: x\nmodel: sweep/tiny\nmatrix: {engine: vllm, gpu: h100, concurrency: [" + strings.Join(loads, ", ") + "]}\n" +
		"load: {requests: 400, max_tokens: 3, prompts: {kind: synthetic, input_tokens: 20}}\nbackend: {kind: sim}\n"
	p, err := planfile.Parse("x.yaml", t.TempDir(), []byte(text), planfile.Options{Vocabulary: vocabulary.All(), MaxCells: 400, LookupEnv: os.LookupEnv})
	if err != nil {
		t.Fatal(err)
	}
	made, err := build(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, d := range p.Deployments() {
		ids = append(ids, idsOf(d.Cells)...)
	}
	want := ids[50:350]
	_, only, err := filter(p, made, "", want, "")
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := selected(p, only)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range chosen {
		got = append(got, idsOf(d.Cells)...)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%d cells, want %d", len(got), len(want))
	}
}

func idsOf(cells []plan.Cell) (ids []string) {
	for _, c := range cells {
		ids = append(ids, c.ID)
	}
	return ids
}
