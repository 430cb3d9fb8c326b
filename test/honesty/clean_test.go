//go:build honesty

package honesty

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/result/bounds"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "what the clean cells are drawn by; 0 takes the clock")
	cellsFlag  = flag.Int("cells", 200, "clean cells")
	clockFlag  = flag.Bool("clock", false, "also set this machine's clock by 30 ms and back, as root")
	roundsFlag = flag.Int("rounds", 6, "how often a cell may be measured until the machine lets it")
)

// servers have decode steps of about 2 to 50 ms, in this order.
var servers = [][2]string{
	{"Qwen/Qwen2.5-1.5B-Instruct", "a100-80gb"},
	{"Qwen/Qwen2.5-1.5B-Instruct", "a100-40gb"},
	{"Qwen/Qwen2.5-7B-Instruct", "h200"},
	{"Qwen/Qwen2.5-1.5B-Instruct", "l40s"},
	{"Qwen/Qwen3-0.6B", "l4"},
	{"Qwen/Qwen2.5-7B-Instruct", "h100"},
	{"Qwen/Qwen3-0.6B", "rtx-2000-ada"},
	{"Qwen/Qwen2.5-7B-Instruct", "a100-80gb"},
	{"Qwen/Qwen2.5-7B-Instruct", "a100-40gb"},
	{"Qwen/Qwen2.5-1.5B-Instruct", "l4"},
	{"Qwen/Qwen2.5-1.5B-Instruct", "rtx-2000-ada"},
	{"Qwen/Qwen2.5-7B-Instruct", "l40s"},
	{"meta-llama/Llama-3.1-8B-Instruct", "l40s"},
	{"meta-llama/Llama-3.1-70B-Instruct", "mi300x"},
	{"Qwen/Qwen2.5-7B-Instruct", "l4"},
}

var dialects = []string{"vllm", "sglang", "trtllm", "llamacpp", "tgi"}

// A cell is one point of the hypercube.
type cell struct {
	server  [2]string
	gap     time.Duration // as it was meant; the server decides
	streams int
	tokens  int
	words   int // in each chunk: with the dialects, its size
	dialect string
	open    bool
	client  string
}

// rate returns that of an open loop that has so many streams at once, as far as a
// server follows.
func (c cell) rate() int {
	e2e := 0.02 + float64(c.tokens)*c.gap.Seconds()
	return max(4, min(60, int(float64(c.streams)/e2e)))
}

// hypercube draws n cells, so that each variable's range is divided into n
// strata and each stratum has one cell (McKay, Beckman and Conover 1979).
func hypercube(n int, r *rand.Rand) []cell {
	column := func() []float64 {
		u := make([]float64, n)
		for i, p := range r.Perm(n) {
			u[i] = (float64(p) + r.Float64()) / float64(n)
		}
		return u
	}
	between := func(u, from, to float64) float64 { return from * math.Pow(to/from, u) }
	of := func(u float64, n int) int { return min(n-1, int(u*float64(n))) }
	streams, gaps, tokens, words, dialect, loop, client := column(), column(), column(), column(), column(), column(), column()
	cells := make([]cell, n)
	for i := range cells {
		c := cell{
			server: servers[of(gaps[i], len(servers))], gap: time.Duration(between(gaps[i], 2, 50) * float64(time.Millisecond)),
			streams: int(between(streams[i], 1, 65)), tokens: int(between(tokens[i], 8, 201)), words: []int{1, 2, 4}[of(words[i], 3)],
			dialect: dialects[of(dialect[i], len(dialects))], open: loop[i] < 0.5, client: []string{"fast", "std"}[of(client[i], 2)],
		}
		// No answer takes longer than two seconds, or all cells would take hours,
		// and no server says more in a second than the simulated one can on a
		// shared core.
		c.tokens = max(8, min(c.tokens, int(2*time.Second/c.gap)))
		c.streams = max(1, min(c.streams, int(c.gap.Seconds()*6000)))
		cells[i] = c
	}
	return cells
}

// cleanPlan has one engine for each cell, whose name is the cell's number. Its
// cells are those of include alone; the axes' own product is left out.
func cleanPlan(cells []cell) string {
	load, levels, arrivals := "concurrency", "[1, 2]", ""
	if cells[0].open {
		load, arrivals = "request_rate", "  arrivals: constant\n" // a short Poisson process may be empty
	}
	var engines, include strings.Builder
	for i, c := range cells {
		level := c.streams
		if c.open {
			level = c.rate()
		}
		fmt.Fprintf(&engines, "  c%03d: {profile: %s}\n", i, c.dialect)
		fmt.Fprintf(&include, "    - {engine: c%03d, model: %s, gpu: %s, %s: %d, max_tokens: %d}\n", i, c.server[0], c.server[1], load, level, c.tokens)
	}
	return fmt.Sprintf(`version: 1
name: clean
matrix:
  engine: [c000, vllm]
  model: [%s, %s]
  gpu: [l4, l40s]
  %s: %s
  max_tokens: [8, 16]
  exclude: [max_tokens > 0]
  include:
%sbackend: {kind: sim, faults: [chunk-tokens=%d]}
engines:
%sload:
  duration: 700ms
%s  warmup: {requests: 1}
  prompts: {input_tokens: 50, length: words}
  client: %s
calibrate: never
sinks: [csv: {columns: full}]
`, servers[0][0], servers[5][0], load, levels, include.String(), cells[0].words, engines.String(), arrivals, cells[0].client)
}

// TestClean measures cells in which nothing goes wrong. None may be INVALID.
//
// A machine that is shared gives true reasons now and then, so that a verdict
// counts as false if the machine was ours: others, the hypervisor among
// them, had at most 2 % of its CPU time during the trial. A cell that is INVALID
// is measured again until it is VALID; one that is INVALID for the same reason
// in two undisturbed trials is a false verdict, and one that is never VALID is
// undecided, which fails the test too. Steal alone is no verdict: if the kernel has
// counted it here too, the cell was no clean one.
func TestClean(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	// Cells of one plan differ in what a plan can vary.
	groups := map[string][]cell{}
	for _, c := range hypercube(*cellsFlag, rand.New(rand.NewPCG(seed, 1))) {
		key := fmt.Sprintf("%s, open loop %v, %d tokens in a chunk", c.client, c.open, c.words)
		groups[key] = append(groups[key], c)
	}
	var valid, wrong, undecided, again, stolen int
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		c := cleaning{t: t, dir: filepath.Join(t.TempDir(), "run"), cells: len(groups[key]), quiet: map[string]map[string]int{}, steal: map[string]float64{}}
		c.run(cleanPlan(groups[key]))
		t.Logf("%s: %d cells, %d VALID", key, c.cells, c.valid)
		valid += c.valid
		wrong += c.wrong
		undecided += c.undecided
		again += c.again
		stolen += c.stolen
	}
	fmt.Printf("honesty: %d clean cells, %d false verdicts, %d undecided; %d cells INVALID for steal that the kernel counted, %d trials on a disturbed machine; seed %d\n",
		valid+wrong+undecided, wrong, undecided, stolen, again, seed)
}

// cleaning is one run of clean cells.
type cleaning struct {
	t     *testing.T
	dir   string
	cells int

	quiet                          map[string]map[string]int // INVALID while nothing disturbed, by cell and reason
	valid, wrong, undecided, again int

	steal  map[string]float64 // of the last attempt, as the watcher saw it
	stolen int
}

func (c *cleaning) run(plan string) {
	file := filepath.Join(c.t.TempDir(), "clean.yaml")
	if err := os.WriteFile(file, []byte(plan), 0o600); err != nil {
		c.t.Fatal(err)
	}
	args := []string{"run", "-o", c.dir, file}
	judged := map[string]int{} // attempt by cell
	for range *roundsFlag {
		s := start(c.t, nil, args...)
		w := watch(c.t, s.cmd.Process.Pid)
		code := s.wait()
		w.end()
		all := outcomes(c.t, c.dir)
		if len(all) != c.cells {
			c.t.Fatalf("exit %d, %d cells, want %d", code, len(all), c.cells)
		}
		c.valid, c.wrong, c.undecided, c.stolen = 0, 0, 0, 0
		for _, o := range all {
			if judged[o.Cell] < o.Attempt {
				judged[o.Cell] = o.Attempt
				c.judge(o, w.others(o.Begin, o.End))
				c.steal[o.Cell] = w.stolen(o.Begin, o.End)
			}
			switch {
			case o.text("status") == "ok":
				c.valid++
			case c.confirmed(o.Cell):
				c.wrong++
			case len(o.Invalid) == 1 && o.has("cpu_steal") && c.steal[o.Cell] > bounds.Defaults().Steal:
				c.stolen++
			default:
				c.undecided++
			}
		}
		if c.undecided+c.stolen == 0 {
			break
		}
		args = []string{"resume", "--retry", "invalid", c.dir}
	}
	if c.wrong > 0 || c.undecided > 0 {
		c.t.Errorf("%d cells are INVALID without a reason that can be seen, %d never had the machine", c.wrong, c.undecided)
	}
}

// judge notes why a trial is INVALID.
func (c *cleaning) judge(o outcome, others float64) {
	switch o.text("status") {
	case "ok":
		return
	case "invalid":
	default:
		c.t.Errorf("%s: %s", o.text("engine"), o)
		return
	}
	c.t.Logf("others had %.1f %% of the machine: %s %s, %v streams, %v/s, %v tokens, gaps of %.1f ms: %s", 100*others,
		o.text("client"), o.text("engine"), o.Row["concurrency"], o.Row["request_rate"], o.Row["max_tokens"], o.number("p50_icl_ms"), o)
	if others > disturbed {
		c.again++
		return
	}
	if c.quiet[o.Cell] == nil {
		c.quiet[o.Cell] = map[string]int{}
	}
	for _, f := range o.Invalid {
		c.quiet[o.Cell][f.Code]++
	}
}

func (c *cleaning) confirmed(cell string) bool {
	for _, n := range c.quiet[cell] {
		if n > 1 {
			return true
		}
	}
	return false
}
