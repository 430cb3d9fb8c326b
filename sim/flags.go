package sim

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/dialect"
	"sweep.dev/sweep/sim/fitted"
	"sweep.dev/sweep/sim/fleet"
	"sweep.dev/sweep/sim/server"
)

// flags is the command line.
type flags struct {
	engine     string
	release    string
	dialect    *dialect.Dialect
	settings   dialect.Settings
	context    int // of all slots together
	unified    bool
	kvTokens   int
	model      string
	served     []string
	gpu        string
	gpus       int
	host       string
	port       int
	dtype      string
	kvDType    string
	kvBytes    int64
	blocks     int
	util       float64
	maxLen     int
	maxSeqs    int
	maxBatched int
	prefix     bool
	chunked    bool

	apiKey          string
	promptDetails   bool
	forceUsage      bool
	disableLogStats bool
	logRequests     bool
	debug           bool // VLLM_LOGGING_LEVEL=DEBUG

	seed       uint64
	jitter     float64
	device     string
	fitted     string
	constants  core.Constants
	speed      float64
	timeScale  float64
	startDelay time.Duration
	requestLog string
	faults     server.Faults
	ignored    []string        // given, known to the engine, without effect here
	given      map[string]bool // by name

	inside *fleet.Inside // nil for a server on its own
}

// usageError is a mistake on the command line, in the words of an engine other
// than vLLM if there is one.
type usageError struct {
	msg     string
	dialect *dialect.Dialect
}

func (e usageError) Error() string { return e.msg }

func (f *flags) usage(msg string) error {
	e := usageError{msg: msg}
	if f.dialect.Name != "vllm" {
		e.dialect = f.dialect
	}
	return e
}

// parseFlags reads the command line. It returns flag.ErrHelp after printing
// help, and a usageError for a mistake.
func parseFlags(args []string, help io.Writer) (*flags, error) {
	f := &flags{}
	fs := flag.NewFlagSet("sweep sim", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	var served string
	var noPrefix, noChunked, noDetails, noLogRequests bool
	fs.StringVar(&f.engine, "engine", "vllm", "`engine` whose flags, HTTP, metrics and failures these are: "+strings.Join(dialect.Names(), ", "))
	fs.StringVar(&f.release, "engine-version", "", "`release` of the engine, see below; default the newest")
	fs.StringVar(&f.model, "model", "", "`model` to serve, by its name in the catalogue: "+strings.Join(modelNames(), ", "))
	fs.StringVar(&served, "served-model-name", "", "`name` that requests use; default the model's (several, separated by commas: any of them)")
	fs.StringVar(&f.gpu, "gpu", "rtx-2000-ada", "`GPU` to run on: "+strings.Join(catalog.GPUNames(), ", "))
	fs.IntVar(&f.gpus, "tensor-parallel-size", 1, "number of `GPUs` that share the model (also --gpu-count, -tp)")
	fs.StringVar(&f.host, "host", "127.0.0.1", "`address` to listen on")
	fs.IntVar(&f.port, "port", 8000, "`port` to listen on; 0 takes a free one, which the log names")
	fs.StringVar(&f.dtype, "dtype", "auto", "`type` of weights: auto, half, float16, bfloat16, float, float32")
	fs.StringVar(&f.kvDType, "kv-cache-dtype", "auto", "`type` of the KV cache: auto, fp8")
	fs.Int64Var(&f.kvBytes, "kv-cache-memory-bytes", 0, "size of the KV cache on each GPU in `bytes`; default what is left")
	fs.IntVar(&f.blocks, "num-gpu-blocks-override", 0, "`number` of blocks of the KV cache; default what fits")
	fs.Float64Var(&f.util, "gpu-memory-utilization", 0.92, "`share` of the GPU's memory to use, 0 to 1")
	fs.Var((*count)(&f.maxLen), "max-model-len", "longest sequence in `tokens`, also 4k (4,000) or 4K (4,096); default the model's own")
	fs.IntVar(&f.maxSeqs, "max-num-seqs", 0, "sequences in a step; default 256, 1024 on large GPUs")
	fs.Var((*count)(&f.maxBatched), "max-num-batched-tokens", "`tokens` in a step, also 8k or 8K; default 2048, 8192 on large GPUs")
	fs.BoolVar(&f.prefix, "enable-prefix-caching", true, "keep and find prefixes")
	fs.BoolVar(&noPrefix, "no-enable-prefix-caching", false, "do not")
	fs.BoolVar(&f.chunked, "enable-chunked-prefill", true, "split long prompts over steps")
	fs.BoolVar(&noChunked, "no-enable-chunked-prefill", false, "do not")
	fs.StringVar(&f.apiKey, "api-key", "", "`key` that requests under /v1 must bear; default what the variable VLLM_API_KEY has")
	fs.BoolVar(&f.promptDetails, "enable-prompt-tokens-details", true, "cached tokens in usage (vLLM: off)")
	fs.BoolVar(&noDetails, "no-enable-prompt-tokens-details", false, "do not")
	fs.BoolVar(&f.forceUsage, "enable-force-include-usage", false, "usage in every stream")
	fs.BoolVar(&f.disableLogStats, "disable-log-stats", false, "no vllm: metrics")
	fs.BoolVar(&f.logRequests, "enable-log-requests", false, "a line of the log for each request")
	fs.BoolVar(&noLogRequests, "no-enable-log-requests", false, "none")
	fs.Uint64Var(&f.seed, "seed", 0, "`seed` of texts, natural lengths and jitter")
	fs.Float64Var(&f.jitter, "jitter", core.Jitter, "standard deviation of the logarithm of a step's time")
	fs.StringVar(&f.device, "card", "", "`name` of the GPU, from which its UUID is made; default the port and the seed")
	fs.Float64Var(&f.speed, "card-speed", 1, "how fast the GPU is beside others of its kind, a `factor`")
	fs.StringVar(&f.fitted, "fitted", "", "`file` of sweep sim fit, whose rates are those of this GPU; default the data sheet's")
	fs.Float64Var(&f.timeScale, "time-scale", 1, "simulated seconds per real second, a `factor`")
	fs.DurationVar(&f.startDelay, "start-delay", 0, "`time` to load before it listens, for example 3s")
	fs.StringVar(&f.requestLog, "request-log", "", "append a JSON line to `file` when a request arrives and when it ends")
	fs.Var(&f.faults, "fault", "`name=value` of a fault, see below")

	fs.BoolVar(&f.settings.Metrics, "x-metrics", false, "")
	fs.BoolVar(&f.settings.Iterations, "x-iterations", false, "")
	fs.IntVar(&f.settings.Queue, "x-queue", 0, "")
	fs.IntVar(&f.settings.Concurrent, "x-concurrent", 0, "")
	fs.IntVar(&f.settings.InputTokens, "x-input-tokens", 0, "")
	fs.IntVar(&f.settings.Ping, "x-ping", 0, "")
	fs.IntVar(&f.kvTokens, "x-kv-tokens", 0, "")
	fs.IntVar(&f.context, "x-context", 0, "")
	fs.BoolVar(&f.unified, "x-unified", false, "")

	f.engine, f.release = spoken(args)
	d, err := dialect.New(f.engine, f.release)
	if err != nil {
		return nil, usageError{msg: err.Error()}
	}
	f.dialect = d
	args, positional, err := f.arrange(fs, args)
	if err != nil {
		return nil, err
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			printHelp(help, fs)
			return nil, flag.ErrHelp
		}
		return nil, usageError{msg: "error: " + err.Error()}
	}
	if f.model == "" && len(positional) > 0 {
		f.model = positional[0]
		positional = positional[1:]
	}
	if len(positional) > 0 {
		return nil, f.usage(d.Usage.Complain(positional))
	}
	f.given = make(map[string]bool)
	fs.Visit(func(g *flag.Flag) { f.given[g.Name] = true })
	if f.apiKey == "" {
		f.apiKey = os.Getenv("VLLM_API_KEY") // as vLLM does; never as a default, which --help would print
	}
	f.prefix = f.prefix && !noPrefix
	f.chunked = f.chunked && !noChunked
	f.promptDetails = f.promptDetails && !noDetails
	f.logRequests = f.logRequests && !noLogRequests
	f.debug = f.dialect.Name == "vllm" && os.Getenv("VLLM_LOGGING_LEVEL") == "DEBUG"
	f.served = strings.FieldsFunc(served, func(r rune) bool { return r == ',' || r == ' ' })
	if len(f.served) == 0 {
		f.served = []string{f.model}
	}
	f.byDefault()
	d.TimeScale = f.timeScale
	if err := f.check(); err != nil || f.fitted == "" {
		return f, err
	}
	profile, err := fitted.Read(f.fitted)
	if err != nil {
		return f, usageError{msg: "error: argument --fitted: " + err.Error()}
	}
	g, _ := catalog.GPUByName(f.gpu)
	f.constants = profile.On(g)
	return f, nil
}

// byDefault fills in what an engine other than vLLM has where it is not told.
func (f *flags) byDefault() {
	d := f.dialect
	set := func(name string, to func()) {
		if !f.given[name] {
			to()
		}
	}
	set("port", func() { f.port = d.Port })
	if d.Name == "vllm" {
		f.settings.Metrics = !f.disableLogStats
		return
	}
	set("gpu-memory-utilization", func() { f.util = d.Start.Share })
	set("enable-prompt-tokens-details", func() { f.promptDetails = d.API.CachedTokens })
	set("x-metrics", func() { f.settings.Metrics = d.API.Metrics })
	set("x-concurrent", func() { f.settings.Concurrent = d.API.Concurrent })
	set("x-ping", func() { f.settings.Ping = d.API.Ping })
	set("max-num-seqs", func() { f.maxSeqs = d.Start.Seqs })
	set("x-unified", func() { f.unified = !f.given["max-num-seqs"] })
}

func (f *flags) check() error {
	choice := func(name, v string, of ...string) error {
		if slices.Contains(of, v) {
			return nil
		}
		return usageError{msg: fmt.Sprintf("error: argument --%s: invalid choice: '%s' (choose from '%s')", name, v, strings.Join(of, "', '"))}
	}
	bounds := func(name string, ok bool, want string) error {
		if ok {
			return nil
		}
		return usageError{msg: fmt.Sprintf("error: argument --%s: must be %s", name, want)}
	}
	if f.model == "" {
		return usageError{msg: "error: the following arguments are required: --model"}
	}
	return errors.Join(
		choice("gpu", f.gpu, catalog.GPUNames()...),
		choice("dtype", f.dtype, "auto", "half", "float16", "bfloat16", "float", "float32"),
		choice("kv-cache-dtype", f.kvDType, "auto", "fp8"),
		bounds("gpu-memory-utilization", f.util > 0 && f.util <= 1, "above 0 and at most 1"),
		bounds("tensor-parallel-size", f.gpus >= 1, "at least 1"),
		bounds("max-model-len", f.maxLen >= 0, "at least 1"),
		bounds("max-num-seqs", f.maxSeqs >= 0, "at least 1"),
		bounds("max-num-batched-tokens", f.maxBatched >= 0, "at least 1"),
		bounds("num-gpu-blocks-override", f.blocks >= 0, "at least 1"),
		bounds("kv-cache-memory-bytes", f.kvBytes >= 0, "at least 1"),
		bounds("time-scale", f.timeScale > 0 && f.timeScale <= 1000, "above 0 and at most 1000"),
		bounds("card-speed", f.speed >= 0.01 && f.speed <= 100, "0.01 to 100"),
		bounds("jitter", f.jitter >= 0 && f.jitter <= 1, "0 to 1"),
		bounds("port", f.port >= 0 && f.port <= 65535, "a port number"),
	)
}

// options returns what the core is asked to start.
func (f *flags) options(g catalog.GPU, m catalog.Model) core.Options {
	if g.Bandwidth *= f.speed; f.speed != 1 {
		g.TFLOPS = maps.Clone(g.TFLOPS)
		for dtype := range g.TFLOPS {
			g.TFLOPS[dtype] *= f.speed
		}
	}
	o := core.Options{
		Model: m, GPU: g, GPUs: f.gpus, DType: f.dtype, KVDType: f.kvDType,
		MemoryUtilization: f.util, MaxModelLen: f.maxLen, MaxSeqs: f.maxSeqs, MaxBatchedTokens: f.maxBatched,
		NoPrefixCaching: !f.prefix, NoChunkedPrefill: !f.chunked,
		KVBytes: f.kvBytes, Blocks: f.blocks, KVTokens: f.kvTokens, BusyBytes: f.faults.BusyBytes,
		Seed: f.seed, Jitter: f.jitter, Constants: f.constants,
		Division: f.dialect.Start.Division, ShrinkLen: f.dialect.Start.Shrinks || f.dialect.Name != "vllm" && f.maxLen == 0,
	}
	if f.dialect.Name == "vllm" {
		return o
	}
	if o.MaxBatchedTokens > 0 {
		o.MaxBatchedTokens = max(o.MaxBatchedTokens, o.MaxSeqs) // a limit of prefills alone
	}
	if o.Division == core.Fixed {
		total := f.context
		if total == 0 {
			total = m.Context
		}
		o.MaxModelLen = total
		if !f.unified {
			o.MaxModelLen = total / max(1, o.MaxSeqs)
		}
		o.MaxModelLen = min(o.MaxModelLen, m.Context)
		o.Blocks = max(1, total/core.BlockSize)
	}
	return o
}

// Engines lists the engines whose dialect the simulator speaks, by the names of
// their profiles. Their servers are started as
//
//	sweep sim --engine NAME --model M --gpu G --host H --port P [flags]
//
// where the flags are the engine's own, as its profile renders a plan's
// arguments, and the simulator's: --gpu-count, --seed, --jitter, --time-scale,
// --start-delay, --request-log and --fault. Other names are refused in the
// engine's words.
func Engines() []string { return dialect.Names() }
