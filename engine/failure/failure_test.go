package failure_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/engine/failure"
)

// Texts as the engines print them, prefixes of their loggers included.
func TestClassify_texts(t *testing.T) {
	vllm, _ := engine.Lookup("vllm")
	llama, _ := engine.Lookup("llamacpp")
	tests := []struct {
		p     *engine.Profile
		class string
		hint  string // part of it
		line  string
	}{
		{vllm, "oom.cuda", "GPU", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 1.12 GiB is free."},
		{vllm, "oom.cuda", "GPU", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB"},
		{vllm, "oom.kv_startup", "KV cache", "(EngineCore_DP0 pid=271) ERROR 08-17 10:11:12 [core.py:700] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."},
		{vllm, "oom.max_len", "max-model-len to 68384", "ValueError: To serve at least one request with the model's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (8.35 GiB). Based on the available memory, the estimated maximum model length is 68384. Try increasing `gpu_memory_utilization`"},
		{vllm, "oom.max_len", "lower max-model-len", "ValueError: To serve at least one request with the models's max seq len (40960), 5.00 GiB KV cache is needed"},
		{vllm, "oom.max_len", "lower max-model-len", "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (12000)."},
		{vllm, "oom.gpu_busy", "another process", "ValueError: Free memory on device cuda:0 (10.2/79.1 GiB) on startup is less than desired GPU memory utilization (0.92, 72.8 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."},
		{vllm, "oom.gpu_busy", "another process", "AssertionError: Error in memory profiling. Initial free memory 10 GiB, current free memory 12 GiB."},
		{vllm, "oom.warmup", "max-num-seqs", "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine."},
		{vllm, "oom.warmup", "max-num-seqs", "ValueError: max_num_seqs (256) exceeds available Mamba cache blocks (211)"},
		{vllm, "oom.kv_startup", "raise mem-fraction-static", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.7"},
		{vllm, "oom.warmup", "graphs", "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 1 GiB"},
		{vllm, "oom.prefill", "prefill", "Prefill out of memory. Try to lower your batch size."},
		{vllm, "oom.decode", "at once", "Decode out of memory. Try to lower your batch size."},
		{vllm, "oom.decode", "at once", "Out of memory even after retracting all other requests in the decode batch. Aborting the last request."},
		{vllm, "oom.kv_startup", "KV cache", "Executor creation failed due to insufficient GPU memory. The following component could not be created: KV cache"},
		{vllm, "oom.cuda", "", "[TensorRT-LLM][ERROR] CUDA runtime error in cudaMallocAsync: out of memory"},
		{vllm, "oom.kv_startup", "", "Assertion failed: maxTokensInPagedKvCache (640) must be large enough to process at least 1 sequence"},
		{llama, "oom.cuda", "", "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 20480.00 MiB on device 0: cudaMalloc failed: out of memory"},
		{llama, "oom.cuda", "", "llama_model_load: error loading model: unable to allocate CUDA0 buffer"},
		{llama, "oom.kv_startup", "", "llama_kv_cache_init: failed to allocate buffer for kv cache"},
		{llama, "oom.host", "quantisation", "alloc_tensor_range: failed to allocate CPU buffer of size 81604378624"},
		{llama, "model.format", "GGUF", "gguf_init_from_file_impl: failed to read magic"},
		{llama, "model", "further up", "llama_model_load_from_file_impl: failed to load model"},
		{llama, "args", "arguments", "error: invalid argument: --max-num-seqs"},
		{vllm, "shm", "shared memory", "RuntimeError: unable to open shared memory object </torch_1> in read-write mode"},
		{vllm, "shm", "shared memory", "OSError: [Errno 28] No space left on device: '/dev/shm/psm_1234'"},
		{vllm, "disk", "full", "OSError: [Errno 28] No space left on device: '/data/hub'"},
		{vllm, "oom.host", "not the GPU", "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 5242880000 bytes."},
		{vllm, "driver", "too old", "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8"},
		{vllm, "driver", "too old", "RuntimeError: CUDA error: no kernel image is available for execution on the device"},
		{vllm, "driver", "too old", "Error 804: forward compatibility was attempted on non supported HW"},
		{vllm, "auth", "HF_TOKEN", "Cannot access gated repo for url https://huggingface.co/meta-llama/Llama-3.1-8B/resolve/main/config.json."},
		{vllm, "auth", "HF_TOKEN", "huggingface_hub.errors.HfHubHTTPError: 401 Client Error: Unauthorized for url"},
		{vllm, "model", "no model", "OSError: qwen/nope is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'"},
		{vllm, "args", "arguments", "vllm: error: unrecognized arguments: --max-num-seq 4"},
		{vllm, "args", "arguments", "api_server.py: error: argument --max-model-len: invalid int value: 'x'"},
		{vllm, "config", "cannot do", "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has compute capability 7.5."},
		{vllm, "config", "cannot do", "Total number of attention heads (14) must be divisible by tensor parallel size (4)."},
		{vllm, "config", "cannot do", "User-specified max_model_len (99999) is greater than the derived max_model_len (max_position_embeddings=32768)"},
		{vllm, "port", "listens", "OSError: [Errno 98] Address already in use"},
		{vllm, "wrapper", "further up", "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"},
		{vllm, "wrapper", "further up", "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."},
	}
	for _, tt := range tests {
		log := []string{"INFO starting", tt.line, "  at exit", ""}
		got := tt.p.Classify(log, failure.End{Exited: true, Code: 1})
		if got.Class != tt.class || !strings.Contains(got.Advice(), tt.hint) {
			t.Errorf("%s\n got %q, hint %q\nwant %q, hint with %q", tt.line, got.Class, got.Advice(), tt.class, tt.hint)
		}
		if want := failure.Shorten(tt.line); got.Line != want {
			t.Errorf("line: got %q, want %q", got.Line, want)
		}
	}
}

// The root cause stands far above the wrapper, and is coloured.
func TestClassify_causeBeforeWrapper(t *testing.T) {
	p, _ := engine.Lookup("vllm")
	log := []string{"\x1b[31mERROR\x1b[0m torch.OutOfMemoryError: CUDA out\x1b[1m of\x1b[0m memory. Tried to allocate 2.00 GiB."}
	for i := range 249 {
		log = append(log, fmt.Sprintf("  File \"x.py\", line %d, in f", i))
	}
	log = append(log, "RuntimeError: Engine core initialization failed. See root cause above.")
	got := p.Classify(log, failure.End{Exited: true, Code: 1})
	if got.Class != "oom.cuda" || strings.Contains(got.Line, "\x1b") {
		t.Errorf("got %+v", got)
	}
}

// A general cause is raised again as an exact one: the exact one wins although
// it comes later.
func TestClassify_exactBeforeGeneral(t *testing.T) {
	p, _ := engine.Lookup("vllm")
	got := p.Classify([]string{
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.",
		"The above exception was the direct cause of the following exception:",
		"RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests.",
	}, failure.End{Exited: true, Code: 1})
	if got.Class != "oom.warmup" {
		t.Errorf("got %+v", got)
	}
}

func TestClassify_ends(t *testing.T) {
	p, _ := engine.Lookup("vllm")
	oom := []string{"torch.OutOfMemoryError: CUDA out of memory."}
	quiet := []string{"INFO loading weights", ""}
	tests := []struct {
		name string
		log  []string
		end  failure.End
		want string
		hint string
	}{
		{"the kernel is believed before the log", oom, failure.End{Exited: true, Signal: "killed", OOMKilled: true}, failure.ClassOOMHost, "memory of the machine"},
		{"killed by somebody", quiet, failure.End{Exited: true, Code: -1, Signal: "killed"}, failure.ClassSignal, "killed"},
		{"exit", quiet, failure.End{Exited: true, Code: 3}, failure.ClassExit, "status 3"},
		{"exit with status 0 is an end too", quiet, failure.End{Exited: true}, failure.ClassExit, "status 0"},
		{"the log explains a time-out", oom, failure.End{TimedOut: true}, "oom.cuda", "GPU"},
		{"time-out", quiet, failure.End{TimedOut: true}, failure.ClassTimeout, "timeouts.ready"},
		{"wrong model", oom, failure.End{WrongModel: []string{"tiny"}}, failure.ClassWrongModel, `"tiny"`},
		{"wrong model of several", oom, failure.End{WrongModel: []string{"tiny", "small"}}, failure.ClassWrongModel, "served_model_name: one of tiny, small"},
		{"nothing is known", nil, failure.End{}, failure.ClassUnknown, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := p.Classify(tt.log, tt.end)
			if got.Class != tt.want || !strings.Contains(got.Advice(), tt.hint) {
				t.Errorf("got %+v, want class %q, hint with %q", got, tt.want, tt.hint)
			}
		})
	}
	if got := p.Classify(quiet, failure.End{Exited: true, Code: 3}); got.Line != "INFO loading weights" {
		t.Errorf("the last line that says something: got %q", got.Line)
	}
}

func TestClassify_bounded(t *testing.T) {
	p, _ := engine.Lookup("vllm")
	got := p.Classify([]string{strings.Repeat("ä\xff", 1<<20)}, failure.End{Exited: true, Code: 1})
	if len(got.Line) > 500 {
		t.Errorf("a line of %d bytes", len(got.Line))
	}
	if !strings.HasSuffix(got.Line, "…") || strings.ToValidUTF8(got.Line, "") != got.Line {
		t.Errorf("the line was not cut well: %q", got.Line)
	}
}

func TestTail(t *testing.T) {
	long := strings.Repeat("x", 3*failure.MaxLine)
	tests := []struct {
		name, in string
		n        int
		want     []string
	}{
		{"fewer than asked", "a\nb\n", 5, []string{"a", "b"}},
		{"the last ones, in order", "a\nb\nc\nd\ne\n", 3, []string{"c", "d", "e"}},
		{"no final newline", "a\nb", 5, []string{"a", "b"}},
		{"CRLF", "a\r\nb\r\n", 5, []string{"a", "b"}},
		{"a long line is cut and counts once", "a\n" + long + "\nb\n", 2, []string{long[:failure.MaxLine], "b"}},
		{"nothing", "", 5, nil},
		{"none asked", "a\n", 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := failure.Tail(iotest.OneByteReader(strings.NewReader(tt.in)), tt.n)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("(-want +got):\n%s", cmp.Diff(tt.want, got))
			}
		})
	}
	broken := io.MultiReader(strings.NewReader("a\nb\n"), iotest.ErrReader(errors.New("gone")))
	got, err := failure.Tail(broken, 5)
	if err == nil || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("beside an error: got %q, %v", got, err)
	}
}

func TestFailures_table(t *testing.T) {
	for _, p := range failure.Common() {
		if p.Class == "" {
			t.Errorf("%s: no class", p.Match)
		}
		if p.Hint == "" {
			t.Errorf("%s: no hint", p.Class)
		}
	}
}

func FuzzClassify(f *testing.F) {
	f.Add("torch.OutOfMemoryError\nEngineDeadError", 1, "killed")
	f.Add("max seq len (1) estimated maximum model length is 2", 0, "")
	p, _ := engine.Lookup("llamacpp")
	f.Fuzz(func(t *testing.T, log string, code int, signal string) {
		tail, err := failure.Tail(strings.NewReader(log), failure.TailLines)
		if err != nil {
			t.Fatal(err)
		}
		if d := p.Classify(tail, failure.End{Exited: true, Code: code, Signal: signal}); d.Class == "" || len(d.Line) > 500 {
			t.Errorf("%+v", d)
		}
	})
}
