package core

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sweep.dev/sweep/engine/catalog"
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

// config returns the server of most tests: a small model on a small card.
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

// prompt returns n tokens that no other seed has.
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

// TestStretch: a step takes what it is stretched to, and what follows comes later
// by as much.
func TestStretch(t *testing.T) {
	plain, slow := config(t, nil), config(t, nil)
	slow.Stretch = func(busy time.Duration, step Step) time.Duration {
		if busy == 0 {
			return step.Total
		}
		return step.Total + time.Second
	}
	load := []arrival{{prompt: prompt(1, 64), out: 5}}
	a, b := play(t, New(plain), load)[0], play(t, New(slow), load)[0]
	if a.ttft() != b.ttft() || b.timing.Last-a.timing.Last != 4*time.Second {
		t.Errorf("first tokens after %v and %v, last ones at %v and %v", a.ttft(), b.ttft(), a.timing.Last, b.timing.Last)
	}
}
