package ssh

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	gossh "golang.org/x/crypto/ssh"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/effect"
)

// library is what every session begins with.
//
//go:embed host.sh
var library string

// greeting is the last line of library's output: text before it is a login shell's
// own.
const greeting = "\nsweep-on-ssh\n"

const (
	maxGreeting = 64 << 10
	maxErrors   = 4 << 10
)

// How host.sh exits.
const (
	exitSpec  = 90
	exitPort  = 91
	exitTaken = 92
	exitAlive = 93
	exitNone  = 95
)

var (
	errLate = fmt.Errorf("ssh channel: %w", os.ErrDeadlineExceeded)
	// errLost is a session whose result is unknown.
	errLost = errors.New("the connection was lost in between")
)

// A failure is a script that has ended with a status.
type failure struct {
	status int
	said   string // on stderr, the last of it
}

func (f *failure) Error() string {
	if f.said == "" {
		return fmt.Sprintf("status %d", f.status)
	}
	return f.said
}

// Unwrap makes a mistake in what was asked for a [backends.ErrSpec].
func (f *failure) Unwrap() error {
	if f.status == exitSpec {
		return backends.ErrSpec
	}
	return nil
}

// A session is one shell on the host that runs library and one call.
type session struct {
	*gossh.Session
	in     io.WriteCloser
	out    io.Reader // behind the greeting
	stderr tail
}

// session starts one. call is the script's last lines. The caller closes it.
func (l *link) session(ctx context.Context, call string) (*session, *gossh.Client, error) {
	client, gone, err := l.current(ctx)
	if err != nil {
		return nil, nil, err
	}
	type made struct {
		s   *session
		err error
	}
	done := make(chan made, 1)
	go func() { // ends with the client; the library may leak its own goroutine
		s, err := begin(client, call)
		done <- made{s, err}
	}()
	select {
	case m := <-done:
		return m.s, client, m.err
	case <-gone:
		err = errLost
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	go func() {
		if m := <-done; m.s != nil {
			_ = m.s.Close()
		}
	}()
	return nil, client, err
}

func begin(client *gossh.Client, call string) (_ *session, err error) {
	inner, err := client.NewSession()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = inner.Close()
		}
	}()
	s := &session{Session: inner}
	if s.in, err = inner.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := inner.StdoutPipe()
	if err != nil {
		return nil, err
	}
	inner.Stderr = &s.stderr
	// The same in every login shell there is.
	if err := inner.Start("exec /bin/sh"); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(s.in, library+call+"\n"); err != nil {
		return nil, err
	}
	s.out, err = greeted(out)
	if err != nil {
		_ = s.in.Close()
		var exit *gossh.ExitError
		if wait := inner.Wait(); errors.Is(err, io.EOF) && !errors.As(wait, &exit) {
			return nil, fmt.Errorf("%w: %w", errLost, wait)
		}
		return nil, fmt.Errorf("this login has no shell: %w %s", err, s.stderr.String())
	}
	return s, nil
}

// greeted reads up to the greeting.
func greeted(out io.Reader) (io.Reader, error) {
	var seen []byte
	buf := make([]byte, 4<<10)
	for {
		n, err := out.Read(buf)
		seen = append(seen, buf[:n]...)
		if _, rest, ok := bytes.Cut(seen, []byte(greeting)); ok {
			return io.MultiReader(bytes.NewReader(rest), out), nil
		}
		if err == nil && len(seen) > maxGreeting {
			err = errNoShell
		}
		if err != nil {
			return nil, fmt.Errorf("it says %.200q: %w", seen, err)
		}
	}
}

var errNoShell = errors.New("no greeting")

// run runs a call to its end and returns its stdout. A failure is a [*failure];
// a session that was cut off is errLost, and may have done anything.
func (l *link) run(ctx context.Context, call string, hold bool) (out []byte, client *gossh.Client, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	select {
	case l.running <- struct{}{}:
		defer func() { <-l.running }()
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	s, client, err := l.session(ctx, call)
	if err != nil {
		return nil, client, lostOr(ctx, err)
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if !hold {
		_ = s.in.Close()
	}
	out, err = io.ReadAll(io.LimitReader(s.out, host.MaxOutput+1))
	if err == nil && len(out) > host.MaxOutput {
		cancel(host.ErrTooLong)
		return out[:host.MaxOutput], client, host.ErrTooLong
	}
	if wait := s.Wait(); err == nil {
		err = wait
	}
	if ctx.Err() != nil && err != nil {
		return out, client, context.Cause(ctx)
	}
	return out, client, exitOf(err, &s.stderr)
}

// exitOf returns nil for a session that ended well, a [*failure] for one that ended
// with a status, and errLost for everything else.
func exitOf(wait error, stderr *tail) error {
	var exit *gossh.ExitError
	switch {
	case wait == nil:
		return nil
	case errors.As(wait, &exit) && exit.Signal() == "":
		return &failure{exit.ExitStatus(), stderr.String()}
	default:
		return fmt.Errorf("%w: %w", errLost, wait)
	}
}

// lostOr returns why a session could not be begun.
func lostOr(ctx context.Context, err error) error {
	var refused *gossh.OpenChannelError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &refused), errors.Is(err, errNoShell), errors.Is(err, io.EOF) && !errors.Is(err, errLost):
		return err
	default:
		return fmt.Errorf("%w: %w", errLost, err)
	}
}

// read runs a call that only looks, again where the connection was lost.
func (l *link) read(ctx context.Context, call string) ([]byte, error) {
	return l.repeat(ctx, effect.SSHRead, call)
}

// repeat runs a call that may be run twice.
func (l *link) repeat(ctx context.Context, point effect.Point, call string) (out []byte, err error) {
	for {
		var client *gossh.Client
		err = l.b.fx.Call(ctx, point, func(ctx context.Context) (err error) {
			out, client, err = l.run(ctx, call, false)
			return err
		})
		if !errors.Is(err, errLost) || client == nil {
			break
		}
		if err = l.next(ctx, client); err != nil {
			break
		}
	}
	if err != nil {
		return out, fmt.Errorf("%s: %w", l.b.address(), err)
	}
	return out, nil
}

// once runs a call that must not be run twice. After an errLost its result is
// unknown; there is a new connection then, or err also says why not.
func (l *link) once(ctx context.Context, call string) ([]byte, error) {
	out, client, err := l.run(ctx, call, false)
	if errors.Is(err, errLost) && client != nil {
		return nil, errors.Join(err, l.next(ctx, client))
	}
	return out, err
}

// asFailure returns the failure that err is, or nil.
func asFailure(err error) *failure {
	var f *failure
	errors.As(err, &f)
	return f
}

// A tail keeps the last of what is written to it. It may be written to and
// read concurrently.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - maxErrors; over > 0 {
		t.kept = t.kept[over:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}
