package dialect

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"sweep.dev/sweep/sim/core"
)

// Start is how an engine starts on a GPU, and what its log says.
type Start struct {
	Division core.Division
	Share    float64 // of the memory, where it is not told
	Seqs     int     // sequences in a step, where it is not told; 0 goes by the card
	Shrinks  bool    // it starts with a cache for less than one longest sequence

	// Line makes a line of the log.
	Line func(level Level, text string, now time.Time) string
	// Hello comes first, Loaded once the memory is divided, Ready when it
	// serves at url. Fail is the end of a log of one that does not start, as
	// whole lines.
	Hello  func(d *Dialect) []string
	Loaded func(s *State) []string
	Ready  func(s *State, url string) []string
	Fail   func(f *Failure) []string
	// Report is what it did in the last seconds.
	Report func(p *Progress) string
	// Taken says that its address is in use, with the address.
	Taken string
	Bye   string
}

// A Level of a line of a log.
type Level string

// The levels.
const (
	Debug Level = "DEBUG"
	Info  Level = "INFO"
	Warn  Level = "WARNING"
	Wrong Level = "ERROR"
)

// A Failure is a start that failed.
type Failure struct {
	*core.StartError
	Model string
	Share float64 // of the memory that was asked for
	Seqs  int
	Now   time.Time
}

// A Progress is what an engine did since the last one.
type Progress struct {
	core.Stats
	PromptRate, OutputRate float64 // tokens a second
	HitRate                float64 // 0 to 1
	Timer                  string
	MaxTokens              int // of the cache
}

func gib(n float64) float64 { return n / (1 << 30) }

// thousands prints 123456 as 123,456.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func pythonLine(level Level, text string, now time.Time) string {
	return fmt.Sprintf("%s %s [sim] %s", level, now.Format("01-02 15:04:05"), text)
}

func vllmHello(d *Dialect) []string {
	return []string{"vLLM API server version " + d.Version()}
}

func vllmLoaded(s *State) []string {
	c := &s.Core
	return []string{
		fmt.Sprintf("Model loading took %.4f GiB memory", gib(float64(c.WeightBytes))),
		fmt.Sprintf("Available KV cache memory: %.2f GiB", gib(float64(c.KVBytes))),
		fmt.Sprintf("GPU KV cache size: %s tokens", thousands(c.KVTokens())),
		fmt.Sprintf("Maximum concurrency for %s tokens per request: %.2fx", thousands(c.MaxModelLen), float64(c.KVTokens())/float64(c.MaxModelLen)),
	}
}

func vllmReady(_ *State, url string) []string {
	return []string{"Starting vLLM API server 0 on " + url, "Application startup complete."}
}

// vllmFail returns the cause with its traceback, and far below it the API server's
// exception, which only wraps it.
func vllmFail(f *Failure) []string {
	core := fmt.Sprintf("(EngineCore pid=%d) ERROR %s [core.py:1104] ", os.Getpid(), f.Now.Format("01-02 15:04:05"))
	var lines []string
	for _, s := range []string{
		"EngineCore failed to start.",
		"Traceback (most recent call last):",
		`  File "vllm/v1/engine/core.py", line 1095, in run_engine_core`,
		"    engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)",
		f.Text,
	} {
		lines = append(lines, core+s)
	}
	api := fmt.Sprintf("(APIServer pid=%d) ", os.Getpid())
	lines = append(lines, api+"Traceback (most recent call last):")
	for _, frame := range []string{"cli/main.py", "cli/serve.py", "openai/api_server.py", "v1/engine/async_llm.py", "v1/engine/core_client.py", "v1/engine/utils.py"} {
		lines = append(lines, fmt.Sprintf("%s  File \"vllm/entrypoints/%s\", line 1, in <simulated>", api, frame))
	}
	return append(lines, api+"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}")
}

func vllmReport(p *Progress) string {
	return fmt.Sprintf("Engine 000: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs, Waiting: %d reqs, GPU KV cache usage: %.1f%%, Prefix cache hit rate: %.1f%%, timer error: %s",
		p.PromptRate, p.OutputRate, p.Running, p.Waiting, 100*p.KVUsage, 100*p.HitRate, p.Timer)
}
