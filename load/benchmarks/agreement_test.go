//go:build bench

package benchmarks

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/perf/benchmath"

	"sweep.dev/sweep/internal/polltest"
)

var repeats = flag.Int("repeats", 10, "interleaved repeats of the agreement on a real engine")

// TestAgreement prints sweep beside vllm bench on a real vLLM with a tiny model:
// 8 streams, 64 requests of 64 tokens, by turns. Both share the machine's cores
// with the engine, so a heavier client makes a slower engine.
func TestAgreement(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sweep := filepath.Join(dir, "sweep")
	if out, err := exec.Command("go", "build", "-o", sweep, "../../cmd/sweep").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	at := place{root: root, url: startVLLM(t, root, dir), sweep: sweep}
	tools := []peer{
		{"sweep", func(p *place, _ int) []string { return sweepOnVLLM(t, p) }, readSweep("p50_tpot_ms_whole")},
		{"vllm bench 0.32.0", func(p *place, _ int) []string {
			return []string{
				p.engine("vllm", "bin", "vllm"), "bench", "serve", "--backend", "openai-chat", "--base-url", p.url,
				"--endpoint", "/v1/chat/completions", "--model", "tiny", "--tokenizer", p.engine("tiny-hf"),
				"--dataset-name", "random", "--random-input-len", "20", "--random-output-len", "64",
				"--num-prompts", "64", "--max-concurrency", "8", "--ignore-eos",
				"--save-result", "--result-dir", p.dir, "--result-filename", "result.json",
			}
		}, func(p *place) (reading, error) {
			var v struct {
				TTFT       float64 `json:"mean_ttft_ms"`
				TPOT       float64 `json:"median_tpot_ms"`
				Throughput float64 `json:"output_throughput"`
			}
			err := readJSON(filepath.Join(p.dir, "result.json"), &v)
			return reading{ttft: v.TTFT, p50: v.TPOT, throughput: v.Throughput}, err
		}},
	}
	got := make([]map[string][]float64, len(tools))
	for i := range got {
		got[i] = map[string][]float64{}
	}
	for n := range *repeats + 1 {
		for i, tool := range tools {
			p := at
			p.dir = filepath.Join(dir, fmt.Sprintf("%d-%d", i, n))
			if err := os.MkdirAll(p.dir, 0o755); err != nil {
				t.Fatal(err)
			}
			r := runPeer(t, tool, &p, 8)
			if r.err != nil {
				t.Fatalf("%s: %v", tool.name, r.err)
			}
			if n == 0 {
				continue // the engine is warm from here on
			}
			for name, v := range map[string]float64{"TPOT": r.p50, "tok/s": r.throughput, "TTFT": r.ttft, "CPU": r.cpu} {
				got[i][name] = append(got[i][name], v)
			}
		}
	}
	table := newTable(fmt.Sprintf("On vLLM (CPU, tiny model), 8 streams, %d repeats by turns: median and 95 %% interval", *repeats),
		"figure", tools[0].name, "", tools[1].name, "", "p of no difference")
	for _, f := range []struct{ name, label string }{{"TPOT", "median TPOT, ms"}, {"tok/s", "output tokens/s"}, {"TTFT", "mean TTFT, ms"}, {"CPU", "CPU of the command, s"}} {
		var samples [2]*benchmath.Sample
		row := []string{f.label}
		for i := range samples {
			samples[i] = benchmath.NewSample(got[i][f.name], &benchmath.DefaultThresholds)
			s := benchmath.AssumeNothing.Summary(samples[i], 0.95)
			row = append(row, f2(s.Center), fmt.Sprintf("%.2f .. %.2f", s.Lo, s.Hi))
		}
		table.row(append(row, fmt.Sprintf("%.3f", benchmath.AssumeNothing.Compare(samples[0], samples[1]).P))...)
	}
	table.print(os.Stdout)
}

// startVLLM starts a real vLLM and returns its URL.
func startVLLM(t *testing.T, root, dir string) string {
	t.Helper()
	const port = "9818"
	cmd := exec.Command(filepath.Join(root, ".engines", "vllm", "bin", "vllm"), "serve", filepath.Join(root, ".engines", "tiny-hf"),
		"--served-model-name", "tiny", "--host", "127.0.0.1", "--port", port, "--dtype", "float32",
		"--max-model-len", "4096", "--max-num-seqs", "64", "--enforce-eager")
	cmd.Env = append(os.Environ(), "VLLM_CPU_KVCACHE_SPACE=1", "HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(filepath.Join(dir, "vllm.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Its workers are in its group.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		log.Close()
	})
	url := "http://127.0.0.1:" + port
	if !polltest.Within(3*time.Minute, func() bool {
		resp, err := http.Get(url + "/health")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}) {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("vLLM does not answer:\n%s", text[max(0, len(text)-3000):])
	}
	return url
}

func sweepOnVLLM(t *testing.T, p *place) []string {
	t.Helper()
	plan := fmt.Sprintf(`version: 1
name: agreement
model: tiny
matrix: {engine: [vllm], concurrency: [8], max_tokens: [64]}
backend: {kind: endpoint, url: %q}
load:
  requests: 64
  warmup: {requests: 0}
  prompts: {kind: synthetic, input_tokens: 20}
sinks: [csv: {columns: full}]
`, p.url)
	path := filepath.Join(p.dir, "plan.yaml")
	if err := os.WriteFile(path, []byte(plan), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{p.sweep, "run", "-o", filepath.Join(p.dir, "run"), path}
}
