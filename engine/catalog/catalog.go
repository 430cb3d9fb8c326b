// Package catalog lists GPUs and models: memory, rates and list prices of the GPUs,
// shapes of the models. The data is YAML beside this file, with a source on every
// entry; figures are the vendors' own.
package catalog

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
)

// A GPU is one model of accelerator.
type GPU struct {
	Name    string `yaml:"name"`    // as in a plan: "rtx-2000-ada"
	Product string `yaml:"product"` // as its driver reports it
	Vendor  string `yaml:"vendor"`  // nvidia or amd

	MemoryMiB int64   `yaml:"memory_mib"`     // as its driver reports it
	Bandwidth float64 `yaml:"bandwidth_gb_s"` // of its memory, 10^9 bytes/s
	// TFLOPS is the peak rate by type (float32, float16, bfloat16, fp8, int8),
	// dense, in 10^12/s. A type that is absent is not supported.
	TFLOPS            map[string]float64 `yaml:"tflops"`
	ComputeCapability string             `yaml:"compute_capability"`
	// Link is the bandwidth to its neighbours in one direction, 10^9 bytes/s.
	Link float64 `yaml:"link_gb_s"`

	TDP      float64 `yaml:"tdp_w"`
	IdleW    float64 `yaml:"idle_w"`
	MaxSMMHz int     `yaml:"max_sm_mhz"`
	Source   string  `yaml:"source"`

	// USDPerHour is a list price for planning, not what a provider will bill.
	USDPerHour  float64 `yaml:"usd_per_hour"`
	PriceSource string  `yaml:"price_source"`
	PriceDate   string  `yaml:"price_date"` // YYYY-MM-DD
}

// Memory returns the GPU's memory in bytes.
func (g GPU) Memory() int64 { return g.MemoryMiB << 20 }

// Supports reports whether the GPU computes in a type.
func (g GPU) Supports(dtype string) bool { _, ok := g.TFLOPS[dtype]; return ok }

// A Model is the shape of one dense decoder-only transformer.
type Model struct {
	Name    string   `yaml:"name"`
	Aliases []string `yaml:"aliases,omitempty"`

	Layers       int    `yaml:"layers"`
	Hidden       int    `yaml:"hidden"`
	Heads        int    `yaml:"heads"`
	KVHeads      int    `yaml:"kv_heads"`
	HeadDim      int    `yaml:"head_dim"`
	Intermediate int    `yaml:"intermediate"` // width of the feed-forward layer
	Vocab        int    `yaml:"vocab"`
	Tied         bool   `yaml:"tied,omitempty"` // the output matrix is the embedding
	Context      int    `yaml:"context"`        // longest sequence, tokens
	DType        string `yaml:"dtype"`          // as published
	Parameters   int64  `yaml:"parameters"`
	Source       string `yaml:"source"`
}

// KVBytesPerToken returns the size of one token's keys and values in all layers,
// with elements of elem bytes.
func (m Model) KVBytesPerToken(elem float64) float64 {
	return 2 * float64(m.Layers*m.KVHeads*m.HeadDim) * elem
}

// Embedding returns the number of weights in the token embedding.
func (m Model) Embedding() int64 { return int64(m.Vocab) * int64(m.Hidden) }

//go:embed gpus.yaml
var gpusYAML []byte

//go:embed models.yaml
var modelsYAML []byte

var (
	loadGPUs   = sync.OnceValue(func() []GPU { return mustDecode[GPU]("gpus.yaml", gpusYAML) })
	loadModels = sync.OnceValue(func() []Model { return mustDecode[Model]("models.yaml", modelsYAML) })
)

// mustDecode panics on a broken file: it is part of the program, and a test
// reads it.
func mustDecode[T any](name string, src []byte) []T {
	var list []T
	if err := yaml.NewDecoder(bytes.NewReader(src), yaml.Strict()).Decode(&list); err != nil {
		panic(fmt.Sprintf("catalog: %s: %v", name, err))
	}
	return list
}

// GPUs returns all GPUs, cheapest class first as in the file.
func GPUs() []GPU { return slices.Clone(loadGPUs()) }

// GPUNames returns the names of all GPUs in the order of [GPUs].
func GPUNames() []string {
	var names []string
	for _, g := range loadGPUs() {
		names = append(names, g.Name)
	}
	return names
}

// GPUByName finds a GPU by its name in plans.
func GPUByName(name string) (GPU, bool) {
	for _, g := range loadGPUs() {
		if g.Name == name {
			return g, true
		}
	}
	return GPU{}, false
}

// NameOfLabel returns the name of the GPU that a label of a Kubernetes node says; the label itself
// if the catalogue has none.
func NameOfLabel(label string) string {
	for _, g := range loadGPUs() {
		if strings.EqualFold(strings.ReplaceAll(g.Product, " ", "-"), label) {
			return g.Name
		}
	}
	return label
}

// NoGPU reports whether a plan's label of a GPU says that there is none: cpu, or a label that
// begins with cpu and a separator, as cpu-2-cores. Labels are free on backends that do not
// choose hardware.
func NoGPU(label string) bool {
	const cpu = "cpu"
	if len(label) < len(cpu) || !strings.EqualFold(label[:len(cpu)], cpu) {
		return false
	}
	return len(label) == len(cpu) || strings.ContainsRune("-_ :,(/", rune(label[len(cpu)]))
}

// Models returns all models.
func Models() []Model { return slices.Clone(loadModels()) }

// ModelByName finds a model by its name or one of its aliases, in any case.
func ModelByName(name string) (Model, bool) {
	for _, m := range loadModels() {
		if strings.EqualFold(m.Name, name) || slices.ContainsFunc(m.Aliases, func(a string) bool { return strings.EqualFold(a, name) }) {
			return m, true
		}
	}
	return Model{}, false
}
