package sim

import (
	"fmt"
	"io"
	stdlog "log"
	"os"
	"strings"
	"sync"
	"time"
)

// A logger writes lines in the shape of vLLM's.
type logger struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *logger) line(level, format string, a ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "%s %s [sim] %s\n", level, time.Now().Format("01-02 15:04:05"), fmt.Sprintf(format, a...))
}

func (l *logger) info(format string, a ...any)  { l.line("INFO", format, a...) }
func (l *logger) warn(format string, a ...any)  { l.line("WARNING", format, a...) }
func (l *logger) error(format string, a ...any) { l.line("ERROR", format, a...) }

// failure writes the end of an engine as vLLM does: the cause with its
// traceback, and far below it the API server's exception, which only wraps it.
func (l *logger) failure(cause string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	core := fmt.Sprintf("(EngineCore pid=%d) ERROR %s [core.py:1104] ", os.Getpid(), time.Now().Format("01-02 15:04:05"))
	for _, s := range []string{
		"EngineCore failed to start.",
		"Traceback (most recent call last):",
		`  File "vllm/v1/engine/core.py", line 1095, in run_engine_core`,
		"    engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)",
		cause,
	} {
		fmt.Fprintf(l.w, "%s%s\n", core, s)
	}
	api := fmt.Sprintf("(APIServer pid=%d) ", os.Getpid())
	fmt.Fprint(l.w, api, "Traceback (most recent call last):\n")
	for _, frame := range []string{"cli/main.py", "cli/serve.py", "openai/api_server.py", "v1/engine/async_llm.py", "v1/engine/core_client.py", "v1/engine/utils.py"} {
		fmt.Fprintf(l.w, "%s  File \"vllm/entrypoints/%s\", line 1, in <simulated>\n", api, frame)
	}
	fmt.Fprint(l.w, api, "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n")
}

// std is for net/http's own complaints, which clients that go away cause.
func (l *logger) std() *stdlog.Logger { return stdlog.New(lineWriter{l}, "", 0) }

type lineWriter struct{ l *logger }

func (w lineWriter) Write(b []byte) (int, error) {
	w.l.warn("%s", strings.TrimSpace(string(b)))
	return len(b), nil
}
