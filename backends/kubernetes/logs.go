package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/stack"
	"sweep.dev/sweep/backends/kubernetes/stack/logs"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// How the logs of a stack are followed.
const (
	// logsBefore is how long before the launch they begin: for the clocks of the nodes,
	// and for what the stack does meanwhile.
	logsBefore = time.Minute
	// quiet is for how long no line comes from a stack whose lines are all here.
	quiet = 250 * time.Millisecond
	// longestQuiet bounds the wait for that, as a stack may print all the time.
	longestQuiet = 1500 * time.Millisecond
)

// A logbook keeps the logs of a stack's containers in the folder of the launch.
type logbook struct {
	dir   string
	stop  context.CancelFunc
	ended chan struct{}
	lines atomic.Int64 // that came

	mu    sync.Mutex // of what follows
	err   error      // why they are not followed any more
	files map[string]backends.Log
}

var _ backends.Logged = (*deployment)(nil)

// follow begins to keep the logs of the stack, if the launch has a folder for them, until
// close.
func (d *deployment) follow(ctx context.Context, s *stack.Stack) {
	dir := logDir(d.spec.Roles)
	if dir == "" {
		return
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	b := &logbook{dir: dir, stop: stop, ended: make(chan struct{}), files: map[string]backends.Log{}}
	d.logs = b
	keep := logs.NewFiles(d.b.fx, dir)
	options := logs.Options{Since: time.Now().Add(-logsBefore)}
	go func() {
		defer close(b.ended)
		err := logs.Follow(ctx, d.api, s, options, func(l logs.Line) error {
			b.add(&l)
			return keep.Add(l)
		})
		if cerr := keep.Close(); err == nil {
			err = cerr
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.err = err
	}()
}

// logDir returns the folder that the logs of a launch are in, or "".
func logDir(roles []backends.Role) string {
	for _, r := range roles {
		if r.LogPath != nil {
			return filepath.Dir(r.LogPath(0))
		}
	}
	return ""
}

// add notes the file of a line.
func (b *logbook) add(l *logs.Line) {
	b.lines.Add(1)
	name := logs.FileName(l)
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.files[name]; !known {
		b.files[name] = backends.Log{
			Path: filepath.Join(b.dir, name), Role: l.From.Role, Pod: l.From.Pod, Container: l.From.Name, Previous: l.Previous,
		}
	}
}

// close ends the following, and waits for that.
func (b *logbook) close() {
	if b == nil {
		return
	}
	b.stop()
	<-b.ended
}

// Logs implements [backends.Logged].
func (d *deployment) Logs() (all []backends.Log) {
	if d.logs == nil {
		return nil
	}
	d.logs.mu.Lock()
	defer d.logs.mu.Unlock()
	for _, l := range d.logs.files {
		if _, err := os.Stat(l.Path); err == nil {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b backends.Log) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// CatchUp implements [backends.Logged]: it waits until no line has come for a moment.
func (d *deployment) CatchUp(ctx context.Context) {
	b := d.logs
	if b == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, longestQuiet)
	defer cancel()
	for before := int64(-1); ; {
		now := b.lines.Load()
		if now == before {
			return
		}
		before = now
		select {
		case <-ctx.Done():
			return
		case <-b.ended:
			return
		case <-time.After(quiet):
		}
	}
}

// finding says why the logs are not kept, if they are not.
func (b *logbook) finding() (f result.Finding, broken bool) {
	if b == nil {
		return f, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		return f, false
	}
	text := fmt.Sprintf("the logs of the stack are not kept: %v", b.err)
	if _, denied := errors.AsType[*kubeapi.Denied](b.err); denied {
		text += ": ask for the Role that sweep probe --kube --print-role prints"
	}
	return result.Finding{Code: finding.LogsUnread, Text: text}, true
}
