package core

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"sweep.dev/sweep/engine/catalog"
)

// Constants of the memory plan.
const (
	// BlockSize is the tokens of one block of the KV cache.
	BlockSize = 16
	// ContextBytes is what the driver's context, communication buffers and
	// captured graphs take on each GPU: 0.5 to 1.5 GiB in published start-up
	// logs.
	ContextBytes = 700 << 20
	// DriverReserve is what the driver keeps of each GPU: nvidia-smi's
	// memory.reserved is 479 MiB on an H100 and 609 MiB on an L40S.
	DriverReserve = 512 << 20
	// SamplerCopies is how many single-precision copies of the logits the
	// sampler holds at once: logits, sorted, probabilities.
	SamplerCopies = 3
)

// A Division is how an engine divides a GPU's memory between the KV cache and
// everything else.
type Division int

// The divisions that engines know.
const (
	// OfTotal gives the cache what a share of the whole memory leaves beside
	// weights and activations (vLLM).
	OfTotal Division = iota
	// Static is a share of the whole memory for weights and cache; activations
	// take what is beside it (SGLang).
	Static
	// OfFree gives the cache a share of what is free once the weights are
	// loaded and a step was tried (TensorRT-LLM, TGI).
	OfFree
	// Fixed is a cache of as many tokens as was asked for (llama.cpp).
	Fixed
)

// Options are the start options of an engine; zero values take vLLM's
// defaults, which depend on the card.
type Options struct {
	Model catalog.Model
	GPU   catalog.GPU
	GPUs  int // tensor parallel size; 0 is 1

	DType   string // auto, half, float16, bfloat16, float, float32; "" is auto
	KVDType string // auto or fp8; "" is auto

	// Division is how the memory is divided, MemoryUtilization the share that it
	// speaks of; 0 is 0.92.
	Division          Division
	MemoryUtilization float64
	MaxModelLen       int // 0 is the model's own
	MaxSeqs           int
	MaxBatchedTokens  int
	NoPrefixCaching   bool
	NoChunkedPrefill  bool

	// ShrinkLen starts an engine whose cache holds less than one longest
	// sequence: it then takes shorter ones.
	ShrinkLen bool

	KVBytes int64 // size of the KV cache on each GPU instead of what is free
	Blocks  int   // number of blocks instead of what fits
	// KVTokens bounds the cache; 0 is no bound.
	KVTokens int
	// BusyBytes is what another process holds of each GPU.
	BusyBytes int64

	Seed uint64
	// Jitter is the standard deviation of the logarithm of a step's time.
	Jitter float64
	// Constants of the time of a step; the zero value is [Chosen].
	Constants Constants
}

// A Config is an engine that starts: options with every default filled in, and
// the memory that is left for the cache.
type Config struct {
	Machine
	MaxModelLen      int
	MaxSeqs          int
	MaxBatchedTokens int
	PrefixCaching    bool
	ChunkedPrefill   bool

	MemoryUtilization float64
	WeightBytes       int64 // on each GPU
	WorkBytes         int64 // activations, context
	KVBytes           int64 // cache, on each GPU
	Blocks            int
	// Fallback says that the model's own type is not supported and float16 was
	// taken.
	Fallback bool

	Seed   uint64
	Jitter float64
	// Stretch returns how long a step takes that would take its total, on a GPU that has
	// been busy for so long: for simulated faults. If it is nil, a step takes its total.
	Stretch func(busy time.Duration, step Step) time.Duration
}

// KVTokens returns the capacity of the cache in tokens.
func (c *Config) KVTokens() int { return c.Blocks * BlockSize }

// UsedBytes returns the memory in bytes that the engine uses of each GPU once it is started.
func (c *Config) UsedBytes() int64 { return c.WeightBytes + c.WorkBytes + c.KVBytes }

// A Cause is what kept an engine from starting.
type Cause int

// The causes.
const (
	Other      Cause = iota
	NoSupport        // the GPU cannot do the type
	Uneven           // the heads cannot be split
	TooLong          // more than the model's own context
	BadBatch         // limits that contradict each other
	Busy             // another process holds the memory
	NoWeights        // the weights do not fit
	NoStep           // one largest step does not fit beside them
	NoCache          // nothing is left for the cache
	SmallCache       // the cache does not hold one longest sequence
	NoSampler        // the largest batch does not fit
	NoModel          // there is no such model
)

// A StartError is why an engine did not start. Text is vLLM's exception,
// "ValueError: ..."; other engines word the rest.
type StartError struct {
	Text  string
	Cause Cause
	// Want bytes did not fit into Free bytes of each GPU, of Total.
	Want, Free, Total float64
	Tokens            int // of the cache, or of the longest sequence where the cache has none
	Step              int // tokens of the largest step
}

func (e *StartError) Error() string { return e.Text }

func startError(cause Cause, format string, a ...any) *StartError {
	return &StartError{Cause: cause, Text: fmt.Sprintf(format, a...)}
}

// sized adds the figures.
func (e *StartError) sized(want, free, total float64, tokens int) *StartError {
	e.Want, e.Free, e.Total, e.Tokens = want, free, total, tokens
	return e
}

// Plan decides whether an engine starts. A *StartError says why not, with the
// text of vLLM 0.32.
func Plan(o Options) (*Config, error) {
	c := &Config{
		Machine:           Machine{GPU: o.GPU, GPUs: max(o.GPUs, 1), Model: o.Model, Constants: o.Constants},
		MaxModelLen:       o.MaxModelLen,
		MaxSeqs:           o.MaxSeqs,
		MaxBatchedTokens:  o.MaxBatchedTokens,
		PrefixCaching:     !o.NoPrefixCaching,
		ChunkedPrefill:    !o.NoChunkedPrefill,
		MemoryUtilization: o.MemoryUtilization,
		Seed:              o.Seed,
		Jitter:            o.Jitter,
	}
	if c.MemoryUtilization == 0 {
		c.MemoryUtilization = 0.92
	}
	for _, check := range []func(*Options) error{c.planType, c.planLimits, c.planMemory} {
		if err := check(&o); err != nil {
			if start, ok := errors.AsType[*StartError](err); ok {
				start.Step = c.MaxBatchedTokens
			}
			return nil, err
		}
	}
	return c, nil
}

func (c *Config) planType(o *Options) error {
	switch o.DType {
	case "", "auto":
		c.DType = o.Model.DType
		if !o.GPU.Supports(c.DType) {
			c.DType, c.Fallback = "float16", true
		}
	case "half":
		c.DType = "float16"
	case "float":
		c.DType = "float32"
	default:
		c.DType = o.DType
	}
	if !o.GPU.Supports(c.DType) {
		return startError(NoSupport, "ValueError: %s is only supported on GPUs with compute capability of at least 8.0. Your %s GPU has compute capability %s. You can use float16 instead by explicitly setting the `dtype` flag in CLI, for example: --dtype=half.",
			strings.ToUpper(c.DType[:1])+c.DType[1:], o.GPU.Product, o.GPU.ComputeCapability)
	}
	c.KVElem = c.elem()
	if o.KVDType == "fp8" {
		c.KVElem = 1
	}
	if o.Model.Heads%c.GPUs != 0 {
		return startError(Uneven, "ValueError: Total number of attention heads (%d) must be divisible by tensor parallel size (%d).", o.Model.Heads, c.GPUs)
	}
	return nil
}

// planLimits fills in vLLM's defaults: they depend on the card, because a
// large one has room for more sequences.
func (c *Config) planLimits(o *Options) error {
	if c.MaxModelLen == 0 {
		c.MaxModelLen = o.Model.Context
	}
	if c.MaxModelLen > o.Model.Context {
		return startError(TooLong, "ValueError: User-specified max_model_len (%d) is greater than the derived max_model_len (max_position_embeddings=%d or model_max_length=None in model's config.json). To allow overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with extreme caution. If the model uses relative position encoding (RoPE), positions exceeding derived_max_model_len lead to nan.",
			c.MaxModelLen, o.Model.Context)
	}
	seqs, tokens := 256, 2048
	if o.GPU.MemoryMiB >= 70<<10 && !strings.HasPrefix(o.GPU.Name, "a100") {
		seqs, tokens = 1024, 8192
	}
	if c.MaxBatchedTokens == 0 {
		c.MaxBatchedTokens = tokens
		if !c.ChunkedPrefill {
			c.MaxBatchedTokens = max(tokens, c.MaxModelLen)
		}
		c.MaxBatchedTokens = max(c.MaxBatchedTokens, c.MaxSeqs)
	}
	if c.MaxSeqs == 0 {
		c.MaxSeqs = min(seqs, c.MaxBatchedTokens)
	}
	if !c.ChunkedPrefill && c.MaxBatchedTokens < c.MaxModelLen {
		return startError(BadBatch, "ValueError: max_num_batched_tokens (%d) is smaller than max_model_len (%d). This effectively limits the maximum sequence length to max_num_batched_tokens and makes vLLM reject longer sequences. Please increase max_num_batched_tokens or decrease max_model_len.",
			c.MaxBatchedTokens, c.MaxModelLen)
	}
	if c.MaxBatchedTokens < c.MaxSeqs {
		return startError(BadBatch, "ValueError: max_num_batched_tokens (%d) must be greater than or equal to max_num_seqs (%d).", c.MaxBatchedTokens, c.MaxSeqs)
	}
	return nil
}

const gib = 1 << 30

func inGiB(n float64) float64 { return n / gib }

// planMemory follows the engine's own order: look at what is free, load the
// weights, profile one largest step, give the rest to the cache, warm up the
// sampler.
func (c *Config) planMemory(o *Options) error {
	total := float64(o.GPU.Memory() - DriverReserve)
	budget := total * c.MemoryUtilization
	free := total - float64(o.BusyBytes)
	if o.Division == OfTotal && free < budget {
		return startError(Busy, "ValueError: Free memory on device cuda:0 (%.2f/%.2f GiB) on startup is less than desired GPU memory utilization (%.2f, %.2f GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
			inGiB(free), inGiB(total), c.MemoryUtilization, inGiB(budget)).sized(budget, free, total, 0)
	}

	weights := c.Machine.WeightBytes()
	if weights+ContextBytes > free {
		return outOfMemory(NoWeights, o.GPU, weights, free)
	}
	c.WeightBytes = int64(weights)

	// One largest step: its tokens hold the hidden state a few times over and
	// the feed-forward layer's two inputs. Everything else is reused.
	activations := float64(c.MaxBatchedTokens) * float64(4*o.Model.Hidden+2*o.Model.Intermediate/c.GPUs) * c.elem()
	if weights+activations+ContextBytes > free {
		return outOfMemory(NoStep, o.GPU, weights+activations, free)
	}
	c.WorkBytes = int64(activations + ContextBytes)
	rest := free - weights - float64(c.WorkBytes)

	perToken := c.KVBytesPerToken()
	blockBytes := perToken * BlockSize
	var available float64
	switch {
	case o.KVBytes > 0:
		available = float64(o.KVBytes)
		if available > rest {
			return outOfMemory(NoCache, o.GPU, weights+float64(c.WorkBytes)+available, free)
		}
	case o.Division == Static:
		available = min(budget, free) - weights
	case o.Division == OfFree:
		available = rest * c.MemoryUtilization
	case o.Division == Fixed:
		available = float64(o.Blocks) * blockBytes
	default:
		available = budget - weights - float64(c.WorkBytes)
	}
	if available < blockBytes {
		return startError(NoCache, "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine. See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details.").
			sized(blockBytes, max(available, 0), total, c.MaxModelLen)
	}
	c.Blocks = int(available / blockBytes)
	if o.KVTokens > 0 {
		c.Blocks = max(1, min(c.Blocks, o.KVTokens/BlockSize))
		available = min(available, float64(c.Blocks)*blockBytes)
	}
	if o.Blocks > 0 {
		c.Blocks = o.Blocks
		available = float64(o.Blocks) * blockBytes
	}
	if o.Division == Fixed && available > rest {
		return startError(NoCache, "the KV cache does not fit").sized(available, rest, total, c.KVTokens())
	}
	if err := c.planLongest(o, available, total); err != nil {
		return err
	}
	c.KVBytes = int64(float64(c.Blocks) * blockBytes)

	sampler := float64(c.MaxSeqs) * float64(o.Model.Vocab) * 4 * SamplerCopies
	left := free - weights - float64(c.WorkBytes) - float64(c.KVBytes) + activations
	if o.Division == Static {
		left = min(left, rest-float64(c.KVBytes)+ContextBytes) // graphs keep their activations
	}
	if sampler > left {
		return startError(NoSampler, "RuntimeError: CUDA out of memory occurred when warming up sampler with %d dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.", c.MaxSeqs).
			sized(sampler, max(left, 0), total, c.KVTokens())
	}
	return nil
}

// planLongest holds the cache against one longest sequence.
func (c *Config) planLongest(o *Options, available, total float64) error {
	need := math.Ceil(float64(c.MaxModelLen)/BlockSize) * c.KVBytesPerToken() * BlockSize
	switch {
	case need <= float64(c.Blocks)*c.KVBytesPerToken()*BlockSize:
		return nil
	case o.ShrinkLen:
		c.MaxModelLen = c.KVTokens()
		return nil
	}
	return startError(SmallCache, "ValueError: To serve at least one request with the model's max seq len (%d), (%.2f GiB KV cache is needed, which is larger than the available KV cache memory (%.2f GiB). Based on the available memory, the estimated maximum model length is %d. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine. See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details.",
		c.MaxModelLen, inGiB(need), inGiB(available), c.KVTokens()).sized(need, available, total, c.KVTokens())
}

// outOfMemory returns the allocator's own message: the allocation that failed is
// the last one of those that make up want.
func outOfMemory(cause Cause, g catalog.GPU, want, free float64) error {
	total := float64(g.Memory() - DriverReserve)
	const chunk = 256 << 20
	left := math.Mod(math.Max(free-ContextBytes, 0), chunk)
	return startError(cause, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %.2f MiB. GPU 0 has a total capacity of %.2f GiB of which %.2f MiB is free. Including non-PyTorch memory, this process has %.2f GiB memory in use. Of the allocated memory %.2f GiB is allocated by PyTorch, and 13.11 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)",
		math.Min(chunk, want)/(1<<20), inGiB(total), left/(1<<20), inGiB(free-left), inGiB(math.Max(free-left-ContextBytes, 0))).
		sized(want, free, total, 0)
}
