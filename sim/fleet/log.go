package fleet

import (
	"fmt"
	"io"
	stdlog "log"
	"strings"
	"sync"
	"time"
)

// A logger writes lines in the shape of Dynamo's.
type logger struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *logger) line(level, target, format string, a ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "%s %5s %s: %s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), level, target, fmt.Sprintf(format, a...))
}

func (l *logger) info(target, format string, a ...any)  { l.line("INFO", target, format, a...) }
func (l *logger) warn(target, format string, a ...any)  { l.line("WARN", target, format, a...) }
func (l *logger) error(target, format string, a ...any) { l.line("ERROR", target, format, a...) }

// std is for net/http's own complaints, which clients that go away cause.
func (l *logger) std() *stdlog.Logger { return stdlog.New(lineWriter{l}, "", 0) }

type lineWriter struct{ l *logger }

func (w lineWriter) Write(b []byte) (int, error) {
	w.l.warn("http", "%s", strings.TrimSpace(string(b)))
	return len(b), nil
}
