package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/result"
)

func TestGenerate_isCurrent(t *testing.T) {
	used, err := uses(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	want, err := generate(result.Columns(result.Extra{}), used)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("..", "..", "result", "col", "col.go"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("result/col/col.go is not what the registry and its uses say: go generate ./result/col")
	}
}

func TestGenerate_usedAlone(t *testing.T) {
	text, err := generate([]result.Column{{Name: "gpu_w"}, {Name: "run_id"}}, map[string]bool{"RunID": true})
	if err != nil || !strings.Contains(string(text), `RunID = "run_id"`) || strings.Contains(string(text), "gpu_w") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestGenerate_rejectsTwoNamesForOne(t *testing.T) {
	if text, err := generate([]result.Column{{Name: "gpu_w"}, {Name: "GPU_w"}}, nil); err == nil {
		t.Errorf("two columns have one name:\n%s", text)
	}
}

func TestIdentifier(t *testing.T) {
	for column, want := range map[string]string{
		"p95_ttft_ms": "P95TTFTMs", "mean_gpu_clock_mhz": "MeanGPUClockMHz", "cell_id": "CellID",
		"usd_per_1m_output_tokens": "USDPer1MOutputTokens", "error": "Error",
	} {
		if got := identifier(column); got != want {
			t.Errorf("%s is %s, want %s", column, got, want)
		}
	}
}
