package core

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/catalog"
)

func gpu(t testing.TB, name string) catalog.GPU {
	t.Helper()
	g, ok := catalog.GPUByName(name)
	if !ok {
		t.Fatalf("no GPU %q", name)
	}
	return g
}

func model(t testing.TB, name string) catalog.Model {
	t.Helper()
	m, ok := catalog.ModelByName(name)
	if !ok {
		t.Fatalf("no model %q", name)
	}
	return m
}

// config is the server of most tests: a small model on a small card.
func config(t testing.TB, change func(*Options)) Config {
	t.Helper()
	o := Options{
		Model: model(t, "Qwen/Qwen2.5-1.5B-Instruct"), GPU: gpu(t, "rtx-2000-ada"),
		MemoryUtilization: 0.8, MaxModelLen: 4096, MaxSeqs: 128,
	}
	if change != nil {
		change(&o)
	}
	c, err := Plan(o)
	if err != nil {
		t.Fatal(err)
	}
	return *c
}

// prompt is n tokens that no other seed has.
func prompt(seed, n int) []uint32 {
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	p := make([]uint32, n)
	for i := range p {
		p[i] = r.Uint32()
	}
	return p
}

// An arrival is one request of a scripted load.
type arrival struct {
	at      time.Duration
	prompt  []uint32
	out     int
	stopAt  int
	abortAt time.Duration
}

// A trace is what came of one arrival.
type trace struct {
	timing      Timing
	tokens      int
	maxGap      time.Duration
	finish      Finish
	cached      int
	preemptions int
}

func (r trace) ttft() time.Duration { return r.timing.First - r.timing.Arrived }
func (r trace) tpot() time.Duration {
	return (r.timing.Last - r.timing.First) / time.Duration(r.tokens-1)
}

// play runs a scripted load until everything has ended.
func play(t testing.TB, e *Engine, load []arrival) []trace {
	t.Helper()
	order := make([]int, len(load))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(load[a].at, load[b].at) })
	results := make([]trace, len(load))
	ids := map[int]int{}
	var now time.Duration
	for range 10_000_000 {
		for len(order) > 0 && load[order[0]].at <= now {
			i := order[0]
			order = order[1:]
			ids[e.Add(load[i].at, Request{Prompt: load[i].prompt, MaxTokens: load[i].out, StopAt: load[i].stopAt, Token: func(n int) uint32 { return uint32(i<<16 | n) }})] = i
		}
		for id, i := range ids {
			if at := load[i].abortAt; at > 0 && at <= now {
				e.Abort(id)
				delete(ids, id)
			}
		}
		step, ok := e.Begin(now)
		if !ok {
			if len(order) == 0 {
				return results
			}
			now = load[order[0]].at
			continue
		}
		now = step.End
		for _, o := range e.End() {
			r := &results[ids[o.ID]]
			if o.N != r.tokens+1 {
				t.Fatalf("token %d follows token %d", o.N, r.tokens)
			}
			r.tokens, r.timing, r.finish, r.cached, r.preemptions = o.N, o.Timing, o.Finish, o.Cached, o.Preemptions
			r.maxGap = max(r.maxGap, o.Gap)
		}
	}
	t.Fatal("the engine does not come to an end")
	return nil
}

func TestBatchOneDecode_isBytesOverBandwidth(t *testing.T) {
	for _, c := range []struct {
		gpu, model, dtype string
		gpus              int
	}{
		{"t4", "Qwen/Qwen2.5-1.5B-Instruct", "half", 1},
		{"rtx-2000-ada", "Qwen/Qwen2.5-1.5B-Instruct", "auto", 1},
		{"l4", "Llama-3.1-8B", "auto", 1},
		{"l40s", "Qwen/Qwen2.5-7B-Instruct", "auto", 1},
		{"a100-40gb", "Llama-3.1-8B", "auto", 1},
		{"a100-80gb", "Llama-3.1-8B", "auto", 1},
		{"h100", "Llama-3.1-8B", "auto", 1},
		{"h200", "Llama-3.1-8B", "auto", 1},
		{"b200", "Llama-3.1-70B", "auto", 1},
		{"mi300x", "Llama-3.1-70B", "auto", 1},
	} {
		cfg := config(t, func(o *Options) {
			o.GPU, o.Model, o.DType, o.GPUs = gpu(t, c.gpu), model(t, c.model), c.dtype, c.gpus
			o.MemoryUtilization = 0.95
		})
		const in, out = 100, 101
		r := play(t, New(cfg), []arrival{{prompt: prompt(1, in), out: out}})[0]
		want := cfg.DecodeBytes(in+out/2) / (cfg.GPU.Bandwidth * 1e9)
		if got := r.tpot().Seconds(); got < want || got > 1.2*want {
			t.Errorf("%s on %d %s: %.3f ms a token, bytes over bandwidth are %.3f ms", c.model, c.gpus, c.gpu, 1e3*got, 1e3*want)
		}
	}
}

func TestTensorParallel_sharesTheReading(t *testing.T) {
	cfg := config(t, func(o *Options) { o.GPU, o.Model, o.GPUs = gpu(t, "h100"), model(t, "Llama-3.1-70B"), 4 })
	got := play(t, New(cfg), []arrival{{prompt: prompt(1, 100), out: 50}})[0].tpot().Seconds()
	reading := cfg.DecodeBytes(125) / (cfg.GPU.Bandwidth * 1e9)
	reduce := 2 * 80 * LinkLatency.Seconds()
	if got < reading+reduce || got > 1.2*(reading+reduce) {
		t.Errorf("%.2f ms a token; a quarter of the bytes takes %.2f ms, the reductions %.2f ms", 1e3*got, 1e3*reading, 1e3*reduce)
	}
}

func TestDecode_readsTheContext(t *testing.T) {
	cfg := config(t, nil)
	short := play(t, New(cfg), []arrival{{prompt: prompt(1, 10), out: 50}})[0].tpot()
	long := play(t, New(cfg), []arrival{{prompt: prompt(1, 4000), out: 50}})[0].tpot()
	want := 3990 * cfg.KVBytesPerToken() / (cfg.GPU.Bandwidth * 1e9)
	if got := (long - short).Seconds(); got < want || got > 1.2*want {
		t.Errorf("3990 tokens of context cost %.4f ms a token, bytes over bandwidth are %.4f", 1e3*got, 1e3*want)
	}
}

func TestPrefill_isComputeBound(t *testing.T) {
	cfg := config(t, func(o *Options) { o.MaxBatchedTokens = 4096 })
	const in = 4000
	r := play(t, New(cfg), []arrival{{prompt: prompt(1, in), out: 1}})[0]
	ops := 2 * cfg.body() * in
	want := ops / (cfg.GPU.TFLOPS["bfloat16"] * 1e12)
	if got := r.ttft().Seconds(); got < want || got > 2.2*want {
		t.Errorf("prefill of %d tokens takes %.1f ms, operations over the peak rate are %.1f ms", in, 1e3*got, 1e3*want)
	}
	if r.finish != Length || r.tokens != 1 {
		t.Errorf("ended %q after %d tokens", r.finish, r.tokens)
	}
}

// throughput is tokens per second with n sequences that start at once.
func throughput(t *testing.T, cfg Config, n int) (rate float64, s Stats) {
	t.Helper()
	const out = 64
	var load []arrival
	for i := range n {
		load = append(load, arrival{prompt: prompt(i, 32), out: out})
	}
	e := New(cfg)
	var end time.Duration
	for i, r := range play(t, e, load) {
		if r.tokens != out || r.finish != Length {
			t.Fatalf("request %d: %d tokens, %q", i, r.tokens, r.finish)
		}
		end = max(end, r.timing.Last)
	}
	return float64(n*out) / end.Seconds(), e.Stats()
}

func TestThroughput_saturatesAtMaxSeqs(t *testing.T) {
	cfg := config(t, func(o *Options) { o.MaxSeqs = 8 })
	var rate [5]float64
	for i := range rate {
		rate[i], _ = throughput(t, cfg, 2<<i) // 2 4 8 16 32
	}
	if rate[2] < 3*rate[0] {
		t.Errorf("8 sequences give %.0f tok/s, 2 give %.0f: batching gains nothing", rate[2], rate[0])
	}
	for _, r := range rate[3:] {
		if r > 1.1*rate[2] {
			t.Errorf("beyond max-num-seqs the rate goes on: %.0f", rate)
		}
	}
}

func TestThroughput_saturatesAtTheKVLimit(t *testing.T) {
	// 96 tokens a sequence are 6 blocks: 48 blocks hold 8 of them.
	cfg := config(t, func(o *Options) { o.Blocks, o.MaxModelLen = 48, 512 })
	at8, s := throughput(t, cfg, 8)
	if s.Preemptions != 0 {
		t.Errorf("%d preemptions where all fits", s.Preemptions)
	}
	// Twelve fit once they are of all ages, which they become slowly.
	at64, _ := throughput(t, cfg, 64)
	at128, _ := throughput(t, cfg, 128)
	free, _ := throughput(t, config(t, nil), 64)
	if at64 > 1.5*at8 || at128 > 1.1*at64 {
		t.Errorf("8, 64 and 128 sequences give %.0f, %.0f and %.0f tok/s where 8 fit", at8, at64, at128)
	}
	if free < 4*at64 {
		t.Errorf("with room for all, 64 sequences give only %.0f tok/s (%.0f at the limit)", free, at64)
	}
}

func TestPreemption_underASmallCache(t *testing.T) {
	// Both are admitted with 20 blocks each; at 512 tokens they need 32 each.
	cfg := config(t, func(o *Options) { o.Blocks, o.MaxModelLen, o.NoPrefixCaching = 44, 640, true })
	e := New(cfg)
	r := play(t, e, []arrival{{prompt: prompt(1, 300), out: 212}, {prompt: prompt(2, 300), out: 212}})
	s := e.Stats()
	if s.Preemptions == 0 || r[1].preemptions != s.Preemptions || r[0].preemptions != 0 {
		t.Errorf("preemptions: %d, of the first %d, of the second %d; the latest gives way", s.Preemptions, r[0].preemptions, r[1].preemptions)
	}
	for i := range r {
		if r[i].tokens != 212 {
			t.Errorf("request %d got %d tokens", i, r[i].tokens)
		}
	}
	if r[1].maxGap < 5*r[1].tpot() {
		t.Errorf("a preempted sequence waits: its largest gap is %v at %v a token", r[1].maxGap, r[1].tpot())
	}
	if s.KVUsage != 0 || s.Running != 0 || s.Waiting != 0 {
		t.Errorf("left over: %+v", s)
	}
}

func TestPrefixHits_cutTTFT(t *testing.T) {
	shared := prompt(7, 2000)
	second := append(slices.Clone(shared), prompt(8, 40)...)
	load := []arrival{{prompt: shared, out: 4}, {at: time.Second * 10, prompt: second, out: 4}}

	cfg := config(t, nil)
	on := New(cfg)
	with := play(t, on, load)
	cfg.PrefixCaching = false
	off := New(cfg)
	without := play(t, off, load)

	if with[1].cached != 2000 || without[1].cached != 0 {
		t.Errorf("cached %d with, %d without", with[1].cached, without[1].cached)
	}
	if with[0].ttft() != without[0].ttft() {
		t.Errorf("the first request: %v with, %v without", with[0].ttft(), without[0].ttft())
	}
	if with[1].ttft() > without[1].ttft()/4 {
		t.Errorf("a hit of 2000 tokens brings TTFT only from %v to %v", without[1].ttft(), with[1].ttft())
	}
	if s := on.Stats(); s.PrefixQueries != 4040 || s.PrefixHits != 2000 {
		t.Errorf("%d hits of %d queries", s.PrefixHits, s.PrefixQueries)
	}
	if s := off.Stats(); s.PrefixQueries != 0 {
		t.Errorf("%d queries without a cache", s.PrefixQueries)
	}
	// The whole prompt again: its last token is computed all the same.
	if again := play(t, on, []arrival{{at: time.Second * 20, prompt: shared, out: 1}})[0]; again.cached != 1984 {
		t.Errorf("%d tokens of the same prompt are cached, want 1984", again.cached)
	}
	if !on.ResetPrefixCache() {
		t.Error("an idle cache is not reset")
	}
	if again := play(t, on, []arrival{{at: time.Second * 30, prompt: shared, out: 1}})[0]; again.cached != 0 {
		t.Errorf("%d tokens cached after a reset", again.cached)
	}
}

func TestPrefixCache_refusesAResetInUse(t *testing.T) {
	e := New(config(t, nil))
	e.Add(0, Request{Prompt: prompt(1, 100), MaxTokens: 2})
	e.Begin(0)
	e.End()
	if e.ResetPrefixCache() {
		t.Error("the cache was reset under a running sequence")
	}
}

func TestPrefixCache_evictsTheOldest(t *testing.T) {
	cfg := config(t, func(o *Options) { o.Blocks, o.MaxModelLen = 40, 512 })
	e := New(cfg)
	a, b := prompt(1, 256), prompt(2, 256) // 16 blocks each, and one more for the answer
	play(t, e, []arrival{{prompt: a, out: 4}})
	play(t, e, []arrival{{at: time.Second, prompt: b, out: 4}})
	play(t, e, []arrival{{at: 2 * time.Second, prompt: prompt(3, 256), out: 4}}) // pushes a out
	if r := play(t, e, []arrival{{at: 3 * time.Second, prompt: b, out: 4}})[0]; r.cached != 240 {
		t.Errorf("%d tokens of the younger prefix survived, want all 15 blocks that count", r.cached)
	}
	if r := play(t, e, []arrival{{at: 4 * time.Second, prompt: a, out: 4}})[0]; r.cached > 64 {
		t.Errorf("%d tokens of the oldest prefix survived, though 17 of 34 other blocks were wanted", r.cached)
	}
}

func TestPrefill_delaysDecodeUnlessChunked(t *testing.T) {
	// A long prompt comes while another sequence decodes.
	load := []arrival{{prompt: prompt(1, 16), out: 300}, {at: time.Second, prompt: prompt(2, 4000), out: 4}}
	whole := play(t, New(config(t, func(o *Options) { o.NoChunkedPrefill, o.MaxBatchedTokens = true, 4096 })), load)
	chunked := play(t, New(config(t, func(o *Options) { o.MaxBatchedTokens = 256 })), load)
	if whole[0].maxGap < 10*whole[0].tpot() {
		t.Errorf("a whole prefill stalls decode for %v only, at %v a token", whole[0].maxGap, whole[0].tpot())
	}
	if chunked[0].maxGap > whole[0].maxGap/6 {
		t.Errorf("the largest gap is %v in chunks, %v whole", chunked[0].maxGap, whole[0].maxGap)
	}
	if chunked[1].ttft() < whole[1].ttft() {
		t.Errorf("chunks are not free: TTFT %v chunked, %v whole", chunked[1].ttft(), whole[1].ttft())
	}
}

func TestQueueing_underOpenLoopOverload(t *testing.T) {
	cfg := config(t, func(o *Options) { o.MaxSeqs = 4 })
	capacity, _ := throughput(t, cfg, 64) // tok/s
	ttft := func(load float64) (first, last time.Duration, waiting int) {
		const n, out = 120, 64
		gap := time.Duration(float64(time.Second) * out / capacity / load)
		var script []arrival
		for i := range n {
			script = append(script, arrival{at: time.Duration(i) * gap, prompt: prompt(i, 32), out: out})
		}
		r := play(t, New(cfg), script)
		for _, q := range r {
			if q.timing.Scheduled > q.timing.Arrived+cfg.Step(Work{Tokens: 1, Sampled: 1}).Total*3 {
				waiting++
			}
		}
		return r[n/4].ttft(), r[n-1].ttft(), waiting
	}
	if first, last, _ := ttft(0.5); last > 3*first {
		t.Errorf("at half the capacity TTFT grows from %v to %v", first, last)
	}
	first, last, waiting := ttft(2)
	if last < 2*first || waiting < 60 {
		t.Errorf("at twice the capacity TTFT goes from %v to %v, %d of 120 queue", first, last, waiting)
	}
}

func TestEngine_isDeterministic(t *testing.T) {
	cfg := config(t, func(o *Options) { o.Seed, o.Jitter, o.Blocks, o.MaxModelLen = 42, 0.05, 64, 512 })
	var load []arrival
	for i := range 40 {
		load = append(load, arrival{at: time.Duration(i) * 7 * time.Millisecond, prompt: prompt(i, 20+i*3), out: 30, stopAt: i})
	}
	a, b := play(t, New(cfg), load), play(t, New(cfg), load)
	if !slices.Equal(a, b) {
		t.Error("two runs of the same seed differ")
	}
	cfg.Seed = 43
	if slices.Equal(a, play(t, New(cfg), load)) {
		t.Error("the seed changes nothing")
	}
	for i, r := range a {
		want, finish := 30, Length
		if i > 0 && i <= 30 {
			want, finish = i, Stop
		}
		if r.tokens != want || r.finish != finish {
			t.Errorf("request %d: %d tokens, %q; want %d, %q", i, r.tokens, r.finish, want, finish)
		}
	}
}

func TestAbort_freesEverything(t *testing.T) {
	cfg := config(t, func(o *Options) { o.MaxSeqs = 2 })
	e := New(cfg)
	var load []arrival
	for i := range 6 { // four of them in the queue
		load = append(load, arrival{prompt: prompt(i, 100), out: 500, abortAt: time.Duration(i+1) * 50 * time.Millisecond})
	}
	play(t, e, load)
	if s := e.Stats(); s.KVUsage != 0 || s.Running != 0 || s.Waiting != 0 {
		t.Errorf("left over: %+v", s)
	}
	e.Abort(3) // once more is no error
}

// TestCache_neverLosesABlock drives the pool with random loads: whatever
// happens, all blocks are free at the end and each is in the ring once.
func TestCache_neverLosesABlock(t *testing.T) {
	for seed := range 20 {
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		cfg := config(t, func(o *Options) { o.Blocks, o.MaxModelLen, o.MaxSeqs = 33, 512, 6 })
		e := New(cfg)
		var load []arrival
		for range 60 {
			a := arrival{at: time.Duration(r.IntN(3000)) * time.Millisecond, prompt: prompt(r.IntN(4), 1+r.IntN(400)), out: 1 + r.IntN(100)}
			if r.IntN(4) == 0 {
				a.abortAt = a.at + time.Duration(r.IntN(2000))*time.Millisecond
			}
			load = append(load, a)
		}
		play(t, e, load)
		seen := map[int32]bool{}
		for b := e.cache.next[33]; b != 33; b = e.cache.next[b] {
			if seen[b] || e.cache.refs[b] != 0 {
				t.Fatalf("seed %d: block %d is twice in the free list, or in use", seed, b)
			}
			seen[b] = true
		}
		if len(seen) != 33 || e.cache.free != 33 {
			t.Fatalf("seed %d: %d of 33 blocks are free (count %d)", seed, len(seen), e.cache.free)
		}
	}
}

func TestPlan_errors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Options)
		want   string // start
		part   string
	}{
		{
			"type", func(o *Options) { o.GPU, o.DType = gpu(t, "t4"), "bfloat16" },
			"ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.", "Your Tesla T4 GPU has compute capability 7.5.",
		},
		{
			"weights", func(o *Options) { o.Model = model(t, "Llama-3.1-70B") },
			"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total capacity of 15.50 GiB of which", "",
		},
		{
			"nothing left", func(o *Options) { o.MemoryUtilization = 0.2 },
			"ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.", "",
		},
		{
			"longest sequence", func(o *Options) { o.MemoryUtilization, o.MaxModelLen = 0.28, 32768 },
			"ValueError: To serve at least one request with the model's max seq len (32768), (0.88 GiB KV cache is needed, which is larger than the available KV cache memory (", "the estimated maximum model length is ",
		},
		{
			"busy", func(o *Options) { o.BusyBytes = 10 << 30 },
			"ValueError: Free memory on device cuda:0 (5.50/15.50 GiB) on startup is less than desired GPU memory utilization (0.80, 12.40 GiB).", "",
		},
		{
			"sampler", func(o *Options) { o.MemoryUtilization, o.MaxSeqs, o.MaxBatchedTokens = 0.99, 1024, 2048 },
			"RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests.", "",
		},
		{
			"heads", func(o *Options) { o.GPUs = 8 },
			"ValueError: Total number of attention heads (12) must be divisible by tensor parallel size (8).", "",
		},
		{
			"context", func(o *Options) { o.MaxModelLen = 40000 },
			"ValueError: User-specified max_model_len (40000) is greater than the derived max_model_len (max_position_embeddings=32768", "",
		},
		{
			"whole prompts", func(o *Options) { o.NoChunkedPrefill, o.MaxBatchedTokens = true, 2048 },
			"ValueError: max_num_batched_tokens (2048) is smaller than max_model_len (4096).", "",
		},
		{
			"budget", func(o *Options) { o.MaxBatchedTokens = 100 },
			"ValueError: max_num_batched_tokens (100) must be greater than or equal to max_num_seqs (128).", "",
		},
	} {
		o := Options{Model: model(t, "Qwen/Qwen2.5-1.5B-Instruct"), GPU: gpu(t, "rtx-2000-ada"), MemoryUtilization: 0.8, MaxModelLen: 4096, MaxSeqs: 128}
		c.change(&o)
		_, err := Plan(o)
		var start *StartError
		if !errors.As(err, &start) || !strings.HasPrefix(start.Text, c.want) || !strings.Contains(start.Text, c.part) {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
	}
}

func TestPlan_defaults(t *testing.T) {
	for _, c := range []struct {
		gpu                string
		seqs, tokens       int
		dtype              string
		minTokens, maxCach int // capacity of the cache
	}{
		{"t4", 256, 2048, "float16", 300_000, 400_000},
		{"a100-80gb", 256, 2048, "bfloat16", 2_000_000, 3_000_000},
		{"h100", 1024, 8192, "bfloat16", 2_000_000, 3_000_000},
	} {
		got, err := Plan(Options{Model: model(t, "Qwen/Qwen2.5-1.5B-Instruct"), GPU: gpu(t, c.gpu)})
		if err != nil {
			t.Errorf("%s: %v", c.gpu, err)
			continue
		}
		if got.MaxSeqs != c.seqs || got.MaxBatchedTokens != c.tokens || got.DType != c.dtype || got.MaxModelLen != 32768 || got.MemoryUtilization != 0.92 {
			t.Errorf("%s: %+v", c.gpu, got)
		}
		if n := got.KVTokens(); n < c.minTokens || n > c.maxCach {
			t.Errorf("%s: room for %d tokens, want %d to %d", c.gpu, n, c.minTokens, c.maxCach)
		}
		if got.Fallback != (c.gpu == "t4") {
			t.Errorf("%s: fallback %v", c.gpu, got.Fallback)
		}
	}
}

func TestPlan_memoryIsMonotone(t *testing.T) {
	last := -1
	for _, u := range []float64{0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9} {
		c := config(t, func(o *Options) { o.MemoryUtilization = u })
		if c.Blocks <= last {
			t.Errorf("utilization %.2f has %d blocks, less has %d", u, c.Blocks, last)
		}
		last = c.Blocks
		if budget := u * float64(c.GPU.Memory()); float64(c.UsedBytes()) > budget {
			t.Errorf("utilization %.2f uses %d of %.0f bytes", u, c.UsedBytes(), budget)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	e := New(config(b, nil))
	for i := range 128 {
		e.Add(0, Request{Prompt: prompt(i, 100), MaxTokens: 3900})
	}
	var now time.Duration
	b.ReportAllocs()
	for b.Loop() {
		s, ok := e.Begin(now)
		if !ok {
			for i := range 128 {
				e.Add(now, Request{Prompt: prompt(i, 100), MaxTokens: 3900})
			}
			continue
		}
		now = s.End
		e.End()
	}
}

// TestReceived: a prompt whose cache comes from elsewhere costs one token's
// computing and all its blocks, and is found by the next one like it.
func TestReceived(t *testing.T) {
	e := New(config(t, nil))
	p := prompt(1, 1000)
	e.Add(0, Request{Prompt: p, MaxTokens: 1, Received: len(p)})
	step, ok := e.Begin(0)
	if !ok || step.Prefill != 1 {
		t.Fatalf("computes %d tokens of the prompt, want 1", step.Prefill)
	}
	if got, want := e.Stats().KVUsage*float64(e.cfg.Blocks), float64(blocksFor(len(p))); got < want-0.5 || got > want+0.5 {
		t.Errorf("%.1f blocks in use, want %v", got, want)
	}
	if out := e.End(); len(out) != 1 || out[0].Cached != 0 || out[0].Prompt != len(p) {
		t.Errorf("%+v", out)
	}
	e.Add(step.End, Request{Prompt: p, MaxTokens: 1})
	if step, _ := e.Begin(step.End); step.Prefill != len(p)-(len(p)-1)/BlockSize*BlockSize {
		t.Errorf("the same prompt computes %d tokens", step.Prefill)
	}
}

// TestDivisions: the same card under each way to divide it. By hand: an L4 has
// 22.5 GiB less the driver's half; the model's weights are w, its largest step
// takes a.
// TestKnown: a prompt that counts as known is counted as a hit, whole blocks of
// it, and is answered as fast as one.
func TestKnown(t *testing.T) {
	p := prompt(1, 1000)
	run := func(r Request) (time.Duration, Output, Stats) {
		e := New(config(t, nil))
		r.Prompt, r.MaxTokens = p, 1
		e.Add(0, r)
		e.Begin(0)
		out := e.End()
		if len(out) != 1 {
			t.Fatalf("%d tokens in one step", len(out))
		}
		return out[0].First, out[0], e.Stats()
	}
	cold, first, _ := run(Request{})
	warm, known, stats := run(Request{Known: len(p)})
	want := (len(p) - 1) / BlockSize * BlockSize
	if first.Cached != 0 || known.Cached != want || stats.PrefixHits != want || stats.PrefixQueries != len(p) {
		t.Errorf("%d and %d tokens cached, %d of %d by the counters, want %d", first.Cached, known.Cached, stats.PrefixHits, stats.PrefixQueries, want)
	}
	if warm >= cold/2 {
		t.Errorf("the first token after %v, and where the prompt is known after %v", cold, warm)
	}
}

// TestStretch: a step takes what it is stretched to, and what follows comes later
// by as much.
func TestStretch(t *testing.T) {
	plain, slow := config(t, nil), config(t, nil)
	slow.Stretch = func(busy, total time.Duration) time.Duration {
		if busy == 0 {
			return total
		}
		return total + time.Second
	}
	load := []arrival{{prompt: prompt(1, 64), out: 5}}
	a, b := play(t, New(plain), load)[0], play(t, New(slow), load)[0]
	if a.ttft() != b.ttft() || b.timing.Last-a.timing.Last != 4*time.Second {
		t.Errorf("first tokens after %v and %v, last ones at %v and %v", a.ttft(), b.ttft(), a.timing.Last, b.timing.Last)
	}
}

func TestDivisions(t *testing.T) {
	o := Options{Model: model(t, "Qwen/Qwen2.5-1.5B-Instruct"), GPU: gpu(t, "l4"), MemoryUtilization: 0.5, MaxModelLen: 4096, MaxSeqs: 64}
	plan := func(change func(*Options)) *Config {
		t.Helper()
		o := o
		change(&o)
		c, err := Plan(o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	total := float64(o.GPU.Memory() - DriverReserve)
	base := plan(func(*Options) {})
	weights, work := float64(base.WeightBytes), float64(base.WorkBytes)
	for _, c := range []struct {
		name string
		got  *Config
		want float64 // bytes of the cache
	}{
		{"of the total", base, total/2 - weights - work},
		{"static", plan(func(o *Options) { o.Division = Static }), total/2 - weights},
		{"of what is free", plan(func(o *Options) { o.Division = OfFree }), (total - weights - work) / 2},
		{"of what another process leaves", plan(func(o *Options) { o.Division, o.BusyBytes = OfFree, 4<<30 }), (total - 4<<30 - weights - work) / 2},
		{"fixed", plan(func(o *Options) { o.Division, o.Blocks = Fixed, 1000 }), 1000 * BlockSize * base.KVBytesPerToken()},
		{"bounded", plan(func(o *Options) { o.KVTokens = 8192 }), 8192 * base.KVBytesPerToken()},
	} {
		block := base.KVBytesPerToken() * BlockSize
		if got := float64(c.got.KVBytes); got > c.want || got < c.want-block {
			t.Errorf("%s: a cache of %.0f bytes, want %.0f less at most a block", c.name, got, c.want)
		}
	}
	if c := plan(func(o *Options) { o.ShrinkLen, o.KVTokens = true, 1024 }); c.MaxModelLen != 1024 {
		t.Errorf("with a cache of 1024 tokens the longest sequence is %d", c.MaxModelLen)
	}
	for _, c := range []struct {
		name   string
		cause  Cause
		change func(*Options)
	}{
		{"weights beyond a static share", NoCache, func(o *Options) { o.Division, o.MemoryUtilization = Static, 0.1 }},
		{"a static share that leaves nothing", NoSampler, func(o *Options) { o.Division, o.MemoryUtilization, o.MaxSeqs = Static, 0.95, 512 }},
		{"a fixed cache that does not fit", NoCache, func(o *Options) { o.Division, o.Blocks = Fixed, 1_000_000 }},
		{"a bound below the longest sequence", SmallCache, func(o *Options) { o.Division, o.KVTokens = OfFree, 1024 }},
		{"a step that does not fit", NoStep, func(o *Options) { o.Division, o.MaxBatchedTokens = OfFree, 1_000_000 }},
	} {
		o := o
		c.change(&o)
		_, err := Plan(o)
		start, ok := errors.AsType[*StartError](err)
		if !ok || start.Cause != c.cause || start.Text == "" || start.Want < start.Free && c.cause != NoCache {
			t.Errorf("%s: %+v", c.name, err)
		}
	}
}
