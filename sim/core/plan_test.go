package core

import (
	"errors"
	"strings"
	"testing"
)

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

// TestDivisions: the same card under each way to divide it. By hand: an L4 has
// 22.5 GiB less the driver's half; the model's weights are w, its largest step
// takes a.
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
