package main

import (
	"bytes"
	"os"
	"testing"

	allcollectors "sweep.dev/sweep/collectors/all"
	"sweep.dev/sweep/result/finding"
)

func TestFindings_upToDate(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/run.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := findings(text)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) {
		t.Error("docs/run.md is not what go generate ./schemas makes")
	}
	if _, err := findings(bytes.Replace(text, []byte("<!-- /findings -->"), nil, 1)); err == nil {
		t.Error("a page without a place for its table is no error")
	}
}

// Each collector has the finding that it failed.
func TestFindings_collectors(t *testing.T) {
	known := map[finding.Code]bool{}
	for _, f := range finding.Remarks() {
		known[f.Code] = true
	}
	for _, c := range allcollectors.Collectors() {
		if code := finding.Collector(c.Kind); !known[code] {
			t.Errorf("package finding does not have %s", code)
		}
	}
}
