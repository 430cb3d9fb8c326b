package ssh

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	gossh "golang.org/x/crypto/ssh"

	"sweep.dev/sweep/internal/effect"
)

// A watcher is a session of sw_watch. All units of a link share one: a server may
// allow no more than ten sessions to a connection.
type watcher struct {
	*session
	client  *gossh.Client
	answers *bufio.Reader
}

// An answer is what sw_watch says of a unit.
type answer struct {
	state string // up, exited or lost
	code  int    // where it has exited, as a shell has it
	oom   bool
	text  []byte // of its log, from the offset on
}

// maxLine bounds the line of an answer.
const maxLine = 300

// ask asks for the state of a unit, and for what its log has from an offset on, if
// that is not negative. After an errLost there is a new connection; one that is
// given up is another error.
func (l *link) ask(ctx context.Context, workdir, unit string, offset int64) (answer, error) {
	select {
	case l.asking <- struct{}{}:
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
	a, client, err := l.asked(ctx, workdir, unit, offset)
	<-l.asking
	if errors.Is(err, errLost) && client != nil && ctx.Err() == nil {
		if next := l.next(ctx, client); next != nil {
			return answer{}, next
		}
	}
	return a, err
}

// asked is ask for the caller that has the turn.
func (l *link) asked(ctx context.Context, workdir, unit string, offset int64) (answer, *gossh.Client, error) {
	w := l.watcher
	if w == nil {
		if _, _, err := l.current(ctx); err != nil {
			return answer{}, nil, err
		}
		var client *gossh.Client
		err := l.b.fx.Call(ctx, effect.SSHRead, func(ctx context.Context) error {
			s, on, err := l.session(ctx, "sw_watch "+folder(workdir))
			if client = on; err != nil {
				return lostOr(ctx, err)
			}
			w = &watcher{s, client, bufio.NewReaderSize(s.out, 64<<10)}
			return nil
		})
		if err != nil {
			if w != nil { // a fault: it was made all the same
				_ = w.Close()
			}
			return answer{}, client, err
		}
		l.watcher = w
	}
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	a, err := w.ask(unit, offset)
	if !stop() || err != nil {
		l.watcher = nil
		_ = w.Close()
	}
	return a, w.client, err
}

func (w *watcher) ask(unit string, offset int64) (answer, error) {
	if _, err := fmt.Fprintf(w.in, "%s %d\n", unit, offset); err != nil {
		return answer{}, fmt.Errorf("%w: %w", errLost, err)
	}
	line, err := w.answers.ReadSlice('\n')
	if err != nil {
		return answer{}, w.ended(err)
	}
	strange := fmt.Errorf("the host answers %.200q", line)
	fields := strings.Fields(string(line))
	if len(line) > maxLine || len(fields) < 4 || fields[0] != unit {
		return answer{}, strange
	}
	code, notCode := strconv.Atoi(fields[2])
	size, notSize := strconv.Atoi(fields[3])
	if notCode != nil || notSize != nil || size < 0 || size > 1<<20 || size > 0 && offset < 0 {
		return answer{}, strange
	}
	a := answer{state: fields[1], code: code, oom: len(fields) > 4 && fields[4] == "oom", text: make([]byte, size)}
	if _, err := io.ReadFull(w.answers, a.text); err != nil {
		return answer{}, w.ended(err)
	}
	return a, nil
}

// ended returns why the session gives no more answers.
func (w *watcher) ended(err error) error {
	_ = w.in.Close()
	if f := asFailure(exitOf(w.Wait(), &w.stderr)); f != nil {
		return f
	}
	return fmt.Errorf("%w: %w", errLost, err)
}
