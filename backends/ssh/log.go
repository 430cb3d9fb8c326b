package ssh

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
)

// A follower copies a log of the host into a file here. The offset of the copy
// is the offset there, so that a lost connection loses and repeats nothing.
type follower struct {
	path  string
	ended chan struct{} // closed when nothing more will come

	mu     sync.Mutex
	file   *effect.File // nil once it is closed
	offset int64
	polled chan struct{}   // closed and replaced after each look
	wake   chan<- struct{} // asks for a look
	over   bool
}

func follow(fx *effect.Effects, path string) (*follower, error) {
	file, err := fx.Create(effect.LogCreate, path)
	if err != nil {
		return nil, fmt.Errorf("log of a server: %w", err)
	}
	return &follower{path: path, file: file, ended: make(chan struct{}), polled: make(chan struct{})}, nil
}

func (f *follower) isOpen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file != nil
}

func (f *follower) wakes(c chan<- struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wake = c
}

// end says that nothing more will come.
func (f *follower) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.over = true
		close(f.ended)
	}
}

func (f *follower) close() {
	f.end()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file != nil {
		_ = f.file.Close() // what was written is in the kernel's hands
		f.file = nil
	}
}

// at is how much has been copied.
func (f *follower) at() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.offset
}

func (f *follower) write(p []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return io.ErrClosedPipe
	}
	n, err := f.file.Write(p)
	f.offset += int64(n)
	return err
}

// looked tells those who wait that a look is done.
func (f *follower) looked() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.polled)
	f.polled = make(chan struct{})
}

// syncTimeout bounds sync: a log that is late is still a log.
const syncTimeout = 5 * time.Second

// sync returns when everything is here that the server had written before, or
// when that takes too long.
func (f *follower) sync(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	for range 2 { // the look that is under way may have been too early
		f.mu.Lock()
		polled, wake := f.polled, f.wake
		f.mu.Unlock()
		select {
		case wake <- struct{}{}:
		default: // asked for already, or nobody listens yet
		}
		select {
		case <-polled:
		case <-f.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// A watcher is a session of sw_watch.
type watcher struct {
	*session
	answers *bufio.Reader
	stop    func() bool
}

func (l *link) watcher(ctx context.Context, workdir, name string) (*watcher, error) {
	s, _, err := l.session(ctx, "sw_watch "+folder(workdir)+" "+quote(name))
	if err != nil {
		return nil, lostOr(ctx, err)
	}
	w := &watcher{session: s, answers: bufio.NewReaderSize(s.out, 64<<10)}
	w.stop = context.AfterFunc(ctx, func() { _ = s.Close() })
	return w, nil
}

func (w *watcher) close() {
	w.stop()
	_ = w.Close()
}

// maxLine bounds the line of an answer.
const maxLine = 200

// step takes over what is new in the log of replica n. exit is how it ended,
// once its log is complete; nil while it runs.
func (w *watcher) step(n int, r *replica) (exit *backends.Exit, err error) {
	if r.log != nil {
		defer r.log.looked()
	}
	for {
		offset := int64(-1)
		if r.log != nil {
			offset = r.log.at()
		}
		if _, err := fmt.Fprintf(w.in, "%d %d\n", n, offset); err != nil {
			return nil, fmt.Errorf("%w: %w", errLost, err)
		}
		line, err := w.answers.ReadSlice('\n')
		if err != nil {
			return nil, w.ended(err)
		}
		fields := strings.Fields(string(line))
		if len(line) > maxLine || len(fields) < 4 || fields[0] != strconv.Itoa(n) {
			return nil, fmt.Errorf("the host answers %.200q", line)
		}
		size, err := strconv.Atoi(fields[3])
		if err != nil || size < 0 || size > 1<<20 || size > 0 && r.log == nil {
			return nil, fmt.Errorf("the host answers %.200q", line)
		}
		if size > 0 {
			text := make([]byte, size)
			if _, err := io.ReadFull(w.answers, text); err != nil {
				return nil, w.ended(err)
			}
			if err := r.log.write(text); err != nil {
				return nil, fmt.Errorf("log of a server: %w", err)
			}
			continue // until there is nothing new
		}
		if fields[1] == "up" {
			return nil, nil
		}
		code, err := strconv.Atoi(fields[2])
		if err != nil {
			return nil, fmt.Errorf("the host answers %.200q", line)
		}
		return endOf(r, fields[1], code, len(fields) > 4 && fields[4] == "oom"), nil
	}
}

// ended is why the session gives no more answers.
func (w *watcher) ended(err error) error {
	_ = w.in.Close()
	if f := asFailure(exitOf(w.Wait(), &w.stderr)); f != nil {
		return f
	}
	return fmt.Errorf("%w: %w", errLost, err)
}

// endOf makes an Exit of what a shell says of its child. A process that ended
// without a word was killed, with the shell that waited for it.
func endOf(r *replica, state string, code int, oom bool) *backends.Exit {
	e := &backends.Exit{Role: r.role.Name, Replica: r.replica, Code: code, OOMKilled: oom}
	switch {
	case state != "exited":
		e.Code, e.Signal = -1, syscall.SIGKILL.String()
	case code > 128 && code <= 128+64:
		e.Code, e.Signal = -1, syscall.Signal(code-128).String()
	}
	return e
}
