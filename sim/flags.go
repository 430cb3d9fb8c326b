package sim

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/catalog"
	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/fleet"
	"sweep.dev/sweep/sim/server"
)

// flags is the command line.
type flags struct {
	engine     string
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

	seed       uint64
	jitter     float64
	timeScale  float64
	startDelay time.Duration
	requestLog string
	faults     server.Faults
	ignored    []string // given, known to vLLM, without effect here

	wrap fleet.Wrap // nil for a server on its own
}

// withoutEffect are flags of the real engine that change nothing that is
// simulated; true: the flag takes a value. The others have a --no- form too.
var withoutEffect = map[string]bool{
	"trust-remote-code": false, "enforce-eager": false, "async-scheduling": false,
	"disable-log-requests": false, "enable-log-requests": false, "disable-uvicorn-access-log": false,
	"tokenizer": true, "tokenizer-mode": true, "revision": true, "tokenizer-revision": true,
	"download-dir": true, "load-format": true, "generation-config": true, "swap-space": true,
	"uvicorn-log-level": true, "chat-template": true, "disable-access-log-for-endpoints": true,
	"distributed-executor-backend": true, "compilation-config": true,
}

// usageError is a mistake on the command line.
type usageError struct{ msg string }

func (e usageError) Error() string { return e.msg }

// help begins and ends the text of --help; the flags stand between.
const (
	helpHead = `Usage: sweep sim [flags] [MODEL]

Runs a simulated inference engine: an OpenAI server in vLLM's dialect in front of
a GPU that is only arithmetic. Its answers mean nothing; its timing, its metrics
and its failures are those of the GPU and the model that it is given.
  $ sweep sim --model Qwen/Qwen2.5-1.5B-Instruct --gpu rtx-2000-ada --port 8000
  $ curl -s localhost:8000/v1/chat/completions -d '{"messages":[{"role":"user","content":"Hi"}],"max_tokens":8}'
  $ curl -s localhost:8000/metrics                       # in vLLM's names
  $ curl -s 'localhost:8000/sim/nvidia-smi?query=index,name,memory.used,utilization.gpu'

Flags have the names of vllm serve, with dashes or underscores:
`
	helpFaults = `
Faults for tests, as --fault NAME=VALUE, more than once or separated by commas:
`
	helpTail = `
EXIT STATUS
  0      stopped by a signal, or by the end of its context
  1      the engine failed to start; its last lines say why, in vLLM's words
  2      usage: unrecognized arguments, invalid values
  other  asked for with --fault
`
)

// parseFlags reads the command line. It returns flag.ErrHelp after printing
// help, and a usageError for a mistake.
func parseFlags(args []string, help io.Writer) (*flags, error) {
	f := &flags{}
	fs := flag.NewFlagSet("sweep sim", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	var served string
	var noPrefix, noChunked, noDetails bool
	fs.StringVar(&f.engine, "engine", "vllm", "`dialect` of HTTP, metrics and failures: vllm")
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
	fs.Uint64Var(&f.seed, "seed", 0, "`seed` of texts, natural lengths and jitter")
	fs.Float64Var(&f.jitter, "jitter", 0.01, "standard deviation of the logarithm of a step's time")
	fs.Float64Var(&f.timeScale, "time-scale", 1, "simulated seconds per real second, a `factor`")
	fs.DurationVar(&f.startDelay, "start-delay", 0, "`time` to load before it listens, for example 3s")
	fs.StringVar(&f.requestLog, "request-log", "", "append a JSON line to `file` when a request arrives and when it ends")
	fs.Var(&f.faults, "fault", "`name=value` of a fault, see below")

	args, positional, err := arrange(fs, args, &f.ignored)
	if err != nil {
		return nil, err
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			printHelp(help, fs)
			return nil, flag.ErrHelp
		}
		return nil, usageError{"error: " + err.Error()}
	}
	if f.model == "" && len(positional) > 0 {
		f.model = positional[0]
		positional = positional[1:]
	}
	if len(positional) > 0 {
		return nil, usageError{"error: unrecognized arguments: " + strings.Join(positional, " ")}
	}
	if f.apiKey == "" {
		f.apiKey = os.Getenv("VLLM_API_KEY") // as vLLM does; never as a default, which --help would print
	}
	f.prefix = f.prefix && !noPrefix
	f.chunked = f.chunked && !noChunked
	f.promptDetails = f.promptDetails && !noDetails
	f.served = strings.FieldsFunc(served, func(r rune) bool { return r == ',' || r == ' ' })
	if len(f.served) == 0 {
		f.served = []string{f.model}
	}
	return f, f.check()
}

// arrange turns a command line of vLLM into one for package flag: names with
// dashes, "--no-x" and short forms known, flags without effect taken out, the
// positional arguments apart. Unknown arguments fail together, in argparse's
// words.
func arrange(fs *flag.FlagSet, args []string, ignored *[]string) (known, positional []string, err error) {
	alias := map[string]string{"gpu-count": "tensor-parallel-size", "tp": "tensor-parallel-size", "h": "help"}
	var unknown []string
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			positional = append(positional, args...)
			break
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			positional = append(positional, arg)
			continue
		}
		name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		name = strings.ReplaceAll(name, "_", "-")
		if a, ok := alias[name]; ok {
			name = a
		}
		takes, silent := withoutEffect[name]
		if positive, no := strings.CutPrefix(name, "no-"); no && !silent {
			takesValue, known := withoutEffect[positive]
			silent = known && !takesValue
		}
		def := fs.Lookup(name)
		switch {
		case name == "help":
			return []string{"-help"}, nil, nil
		case def != nil:
			b, ok := def.Value.(interface{ IsBoolFlag() bool })
			takes = !ok || !b.IsBoolFlag()
		case !silent:
			unknown = append(unknown, arg)
			for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				unknown = append(unknown, args[0])
				args = args[1:]
			}
			continue
		}
		if takes && !has {
			if len(args) == 0 {
				return nil, nil, usageError{"error: argument --" + name + ": expected one argument"}
			}
			value, args, has = args[0], args[1:], true
		}
		if name == "served-model-name" {
			for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				value += "," + args[0]
				args = args[1:]
			}
		}
		if silent {
			*ignored = append(*ignored, "--"+name)
			continue
		}
		if has {
			known = append(known, "-"+name+"="+value)
		} else {
			known = append(known, "-"+name)
		}
	}
	if len(unknown) > 0 {
		return nil, nil, usageError{"error: unrecognized arguments: " + strings.Join(unknown, " ")}
	}
	return known, positional, nil
}

func (f *flags) check() error {
	choice := func(name, v string, of ...string) error {
		if slices.Contains(of, v) {
			return nil
		}
		return usageError{fmt.Sprintf("error: argument --%s: invalid choice: '%s' (choose from '%s')", name, v, strings.Join(of, "', '"))}
	}
	bounds := func(name string, ok bool, want string) error {
		if ok {
			return nil
		}
		return usageError{fmt.Sprintf("error: argument --%s: must be %s", name, want)}
	}
	if f.model == "" {
		return usageError{"error: the following arguments are required: --model"}
	}
	return errors.Join(
		choice("engine", f.engine, "vllm"),
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
		bounds("jitter", f.jitter >= 0 && f.jitter <= 1, "0 to 1"),
		bounds("port", f.port >= 0 && f.port <= 65535, "a port number"),
	)
}

// options is what the core is asked to start.
func (f *flags) options(g catalog.GPU, m catalog.Model) core.Options {
	return core.Options{
		Model: m, GPU: g, GPUs: f.gpus, DType: f.dtype, KVDType: f.kvDType,
		MemoryUtilization: f.util, MaxModelLen: f.maxLen, MaxSeqs: f.maxSeqs, MaxBatchedTokens: f.maxBatched,
		NoPrefixCaching: !f.prefix, NoChunkedPrefill: !f.chunked,
		KVBytes: f.kvBytes, Blocks: f.blocks, BusyBytes: f.faults.BusyBytes,
		Seed: f.seed, Jitter: f.jitter,
	}
}

func printHelp(w io.Writer, fs *flag.FlagSet) {
	fmt.Fprint(w, helpHead)
	fs.VisitAll(func(d *flag.Flag) {
		if strings.HasPrefix(d.Name, "no-") {
			return
		}
		value, usage := flag.UnquoteUsage(d)
		name := "--" + d.Name
		if b, ok := d.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
			if fs.Lookup("no-"+d.Name) != nil {
				name = "--[no-]" + d.Name
			}
			value = ""
		}
		if value != "" {
			name += " " + strings.ToUpper(value)
		}
		if d.DefValue != "" && d.DefValue != "0" && d.DefValue != "false" && d.DefValue != "0s" {
			usage += " (default " + d.DefValue + ")"
		}
		fmt.Fprintf(w, "  %s\n        %s\n", name, usage)
	})
	fmt.Fprint(w, helpFaults)
	for _, k := range server.FaultKinds {
		fmt.Fprintf(w, "  %-22s %s\n", k.Name, k.Doc)
	}
	fmt.Fprint(w, helpTail)
}

func modelNames() []string {
	var names []string
	for _, m := range catalog.Models() {
		names = append(names, m.Name)
	}
	return names
}
