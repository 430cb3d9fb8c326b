//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestExport runs a grid and opens each export with the tool that it is for: vllm bench
// sweep draws it, llm-d's model takes each report, and promtool checks the metrics and
// makes a block of their history. InferenceX' script is on no registry: its rules are in
// the test of package export. SHOTS names a folder for what was drawn, RUN a run that is
// there already.
func TestExport(t *testing.T) {
	const readers = ".engines/export/bin/"
	need(t, "engines:vllm", ".engines/vllm/bin/vllm")
	need(t, "engines:export", readers+"python", readers+"promtool", ".engines/export/plots/pandas")
	dir := os.Getenv("RUN")
	if dir == "" {
		dir = filepath.Join(t.TempDir(), "run")
		if out, err := exec.CommandContext(t.Context(), program, "run", "-o", dir, "test/e2e/testdata/report.yaml").CombinedOutput(); err != nil && !strings.Contains(err.Error(), "exit status 99") && !strings.Contains(err.Error(), "exit status 3") {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	to := t.TempDir()
	export := func(format, path string) string {
		t.Helper()
		path = filepath.Join(to, path)
		if out, err := exec.CommandContext(t.Context(), program, "export", "--format", format, "-o", path, dir).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", format, err, out)
		}
		return path
	}

	folder := export("vllm", "vllm")
	bench := func(word ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), ".engines/vllm/bin/vllm", append([]string{"bench", "sweep"}, word...)...)
		plots, err := filepath.Abs(".engines/export/plots")
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(os.Environ(), "PYTHONPATH="+plots, "VLLM_NO_USAGE_STATS=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("vllm bench sweep %s: %v\n%s", word[0], err, out)
		}
	}
	bench("plot_pareto", folder, "--gpu-count-var", "gpu_count")
	bench("plot", folder, "--var-x", "max_concurrency", "--var-y", "median_ttft_ms", "--curve-by", "engine")
	for _, name := range []string{"pareto/PARETO.png", "FIGURE.png"} {
		drawn(t, filepath.Join(folder, name))
	}

	if out, err := exec.CommandContext(t.Context(), readers+"python", "test/e2e/export.py", export("llmd", "llmd")).CombinedOutput(); err != nil || string(out) != "6 reports\n" {
		t.Errorf("llm-d's reader: %v\n%s", err, out)
	}

	metrics, err := os.ReadFile(export("prometheus", "sweep.prom"))
	if err != nil {
		t.Fatal(err)
	}
	check := exec.CommandContext(t.Context(), readers+"promtool", "check", "metrics")
	check.Stdin = bytes.NewReader(metrics)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	fill := exec.CommandContext(t.Context(), readers+"promtool", "tsdb", "create-blocks-from", "openmetrics", export("openmetrics", "sweep.om"), filepath.Join(to, "tsdb"))
	if out, err := fill.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("NUM SAMPLES")) {
		t.Errorf("promtool tsdb create-blocks-from openmetrics: %v\n%s", err, out)
	}
}

// drawn fails if a picture has one colour alone, and keeps it for who wants to look.
func drawn(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	colours := map[string]bool{}
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
			colours[fmt.Sprint(picture.At(x, y))] = true
		}
	}
	if len(colours) < 10 {
		t.Errorf("%s has %d colours", path, len(colours))
	}
	if shots := os.Getenv("SHOTS"); shots != "" {
		if err := os.WriteFile(filepath.Join(shots, filepath.Base(path)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
