package sim

import (
	"fmt"
	"io"
	stdlog "log"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/sim/dialect"
)

// A logger writes lines in the shape of the engine's.
type logger struct {
	mu   sync.Mutex
	w    io.Writer
	line func(level dialect.Level, text string, now time.Time) string
}

func (l *logger) log(level dialect.Level, lines ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range lines {
		fmt.Fprintln(l.w, l.line(level, text, time.Now()))
	}
}

func (l *logger) info(lines ...string)           { l.log(dialect.Info, lines...) }
func (l *logger) infof(format string, a ...any)  { l.log(dialect.Info, fmt.Sprintf(format, a...)) }
func (l *logger) debugf(format string, a ...any) { l.log(dialect.Debug, fmt.Sprintf(format, a...)) }
func (l *logger) warnf(format string, a ...any)  { l.log(dialect.Warn, fmt.Sprintf(format, a...)) }
func (l *logger) errorf(format string, a ...any) { l.log(dialect.Wrong, fmt.Sprintf(format, a...)) }

// raw writes whole lines.
func (l *logger) raw(lines ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range lines {
		fmt.Fprintln(l.w, line)
	}
}

// std is for net/http's own complaints, which clients that go away cause.
func (l *logger) std() *stdlog.Logger { return stdlog.New(lineWriter{l}, "", 0) }

type lineWriter struct{ l *logger }

func (w lineWriter) Write(b []byte) (int, error) {
	w.l.warnf("%s", strings.TrimSpace(string(b)))
	return len(b), nil
}
