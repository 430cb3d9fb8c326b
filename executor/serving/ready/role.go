package ready

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"time"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/serving/ask"
	"sweep.dev/sweep/internal/lines"
)

// Role returns when a replica of a role is so far that the next role may be
// started, or the deployment asked whether it serves. path is the replica's log, and
// step what is shown meanwhile.
func (c *Check) Role(ctx context.Context, ready engine.RoleReady, h host.Host, path, step string) error {
	last := &lastAnswer{of: c, step: step}
	if err := c.awaitRole(ctx, ready, h, path, last.show); err != nil {
		return fmt.Errorf("until its role is ready: %w", err)
	}
	return nil
}

func (c *Check) awaitRole(ctx context.Context, ready engine.RoleReady, h host.Host, path string, show func(error)) error {
	if ready.Line != "" {
		line := newAwaitedLine(path, ready.Line)
		if err := poll(ctx, line.seen, show); err != nil {
			return err
		}
	}
	if ready.Health != "" {
		api := ask.New(h, func(http.Header) {}, c.Mask, c.Asked)
		defer api.Close()
		err := poll(ctx, func() error {
			_, err := api.Get(ctx, ready.Health)
			return err
		}, show)
		if err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(ready.Wait):
		return nil
	}
}

// poll calls look until it gives no error, and show with each error. At the end
// of ctx the error is its cause and what look said last.
func poll(ctx context.Context, look func() error, show func(error)) error {
	for wait := readyPollMin; ; wait = min(wait*3/2, readyPollMax) {
		err := look()
		if err == nil {
			return nil
		}
		show(err)
		select {
		case <-ctx.Done():
			return &notYet{context.Cause(ctx), err}
		case <-time.After(wait):
		}
	}
}

// A notYet is a wait that ended before what was waited for: its text is what was
// seen last.
type notYet struct{ cause, last error }

func (e *notYet) Error() string   { return e.last.Error() }
func (e *notYet) Unwrap() []error { return []error{e.cause, e.last} }

// An awaitedLine looks for one line in a log that grows. It reads each byte once.
type awaitedLine struct {
	path string
	line lines.Watch
	err  error
	off  int64
}

func newAwaitedLine(path, expr string) *awaitedLine {
	l := &awaitedLine{path: path}
	l.line.Pattern, l.err = regexp.Compile(expr)
	return l
}

// seen returns nil once the line has been written.
func (l *awaitedLine) seen() error {
	if l.line.Found || l.err != nil {
		return l.err
	}
	f, err := os.Open(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("no log says %q yet", l.line.Pattern)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(l.off, io.SeekStart); err != nil {
		return err
	}
	n, err := io.Copy(&l.line, f)
	l.off += n
	if err == nil && !l.line.Found {
		err = fmt.Errorf("its log does not say %q yet", l.line.Pattern)
	}
	return err
}
