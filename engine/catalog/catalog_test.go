package catalog

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestGPUs(t *testing.T) {
	want := []string{"t4", "rtx-2000-ada", "l4", "l40s", "a100-40gb", "a100-80gb", "h100", "h200", "b200", "mi300x"}
	if got := GPUNames(); !slices.Equal(got, want) {
		t.Errorf("GPUNames() = %v, want %v", got, want)
	}
	name := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	for _, g := range GPUs() {
		if !name.MatchString(g.Name) {
			t.Errorf("%s: not a plan's kind of name", g.Name)
		}
		if g.Product == "" || g.Source == "" || g.PriceSource == "" {
			t.Errorf("%s: product, source or price source missing", g.Name)
		}
		if _, err := time.Parse(time.DateOnly, g.PriceDate); err != nil {
			t.Errorf("%s: price date: %v", g.Name, err)
		}
		if g.MemoryMiB < 8000 || g.Bandwidth < 100 || g.TDP < 50 || g.IdleW <= 0 || g.IdleW > g.TDP/3 || g.USDPerHour <= 0 || g.MaxSMMHz < 1000 || g.Link <= 0 {
			t.Errorf("%s: a figure is missing or absurd: %+v", g.Name, g)
		}
		// Every card here computes in half precision, and no slower than in single.
		if g.TFLOPS["float16"] < g.TFLOPS["float32"] || g.TFLOPS["float32"] == 0 {
			t.Errorf("%s: rates %v", g.Name, g.TFLOPS)
		}
		text, _, _ := strings.Cut(g.ComputeCapability, ".")
		major, err := strconv.Atoi(text)
		if err != nil {
			t.Errorf("%s: %v", g.Name, err)
		}
		if got := g.Supports("bfloat16"); got != (major >= 8) {
			t.Errorf("%s: bfloat16 = %v with capability %s", g.Name, got, g.ComputeCapability)
		}
	}
	if _, ok := GPUByName("H100"); ok {
		t.Error("GPUByName takes a name that plans do not have")
	}
}

func TestNoGPU(t *testing.T) {
	for label, want := range map[string]bool{
		"cpu": true, "CPU": true, "cpu-1-core": true, "cpu-2-cores": true, "cpu_2": true, "CPU (2 cores)": true,
		"": false, "cp": false, "cpux": false, "l4": false, "gpu-cpu": false, "cpu2gpu": false,
	} {
		if got := NoGPU(label); got != want {
			t.Errorf("NoGPU(%q) = %v", label, got)
		}
	}
	for _, name := range GPUNames() {
		if NoGPU(name) {
			t.Errorf("%s is no GPU", name)
		}
	}
}

func TestGPUs_areCopies(t *testing.T) {
	GPUs()[0].Name = "changed"
	if GPUs()[0].Name == "changed" {
		t.Error("a caller can change the catalogue")
	}
}

// count returns the number of weights of a shape, as the published code makes them:
// Qwen2 has biases on q, k and v; Qwen3 has norms on q and k instead; Gemma 3
// has those and four norms a layer.
func count(m Model) int64 {
	q, kv := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	layer := m.Hidden*q + 2*m.Hidden*kv + q*m.Hidden + 3*m.Hidden*m.Intermediate + 2*m.Hidden
	if strings.HasPrefix(m.Name, "Qwen/Qwen2") {
		layer += q + 2*kv
	}
	if strings.HasPrefix(m.Name, "Qwen/Qwen3") {
		layer += 2 * m.HeadDim
	}
	if strings.HasPrefix(m.Name, "google/gemma-3") {
		layer += 2*m.Hidden + 2*m.HeadDim
	}
	n := int64(m.Layers)*int64(layer) + m.Embedding() + int64(m.Hidden)
	if !m.Tied {
		n += m.Embedding()
	}
	return n
}

func TestModels(t *testing.T) {
	if len(Models()) < 6 {
		t.Fatalf("%d models", len(Models()))
	}
	for _, m := range Models() {
		if got := count(m); got != m.Parameters {
			t.Errorf("%s: the shape has %d weights, the file says %d", m.Name, got, m.Parameters)
		}
		if m.Heads%m.KVHeads != 0 || m.Context < 4096 || m.Source == "" || m.DType == "" {
			t.Errorf("%s: %+v", m.Name, m)
		}
	}
}

func TestModelByName(t *testing.T) {
	for name, want := range map[string]string{
		"Qwen/Qwen2.5-1.5B-Instruct": "Qwen/Qwen2.5-1.5B-Instruct",
		"qwen/qwen2.5-1.5b-instruct": "Qwen/Qwen2.5-1.5B-Instruct",
		"Llama-3.1-8B":               "meta-llama/Llama-3.1-8B-Instruct",
		"gemma-3-270m":               "google/gemma-3-270m",
		"tiny":                       "sweep/tiny",
		"nobody/nothing":             "",
	} {
		m, ok := ModelByName(name)
		if m.Name != want || ok != (want != "") {
			t.Errorf("ModelByName(%q) = %q, %v; want %q", name, m.Name, ok, want)
		}
	}
}

func TestKVBytesPerToken(t *testing.T) {
	m, _ := ModelByName("Qwen/Qwen2.5-1.5B-Instruct")
	// 2 (k and v) x 28 layers x 2 heads x 128 x 2 bytes
	if got := m.KVBytesPerToken(2); got != 28672 {
		t.Errorf("got %v bytes, want 28672", got)
	}
}
