package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
)

const (
	tailBytes = 1 << 20 // of a log that the classifier is given
	keptLines = 25      // of it in result.json
)

// A limit is the cause with which a bounded step ends.
type limit struct {
	name string
	d    time.Duration
}

func (l limit) Error() string { return fmt.Sprintf("%s: not done after %s", l.name, l.d) }

// A failure is why a server could not be used.
type failure struct {
	class string
	text  string
	hint  string
	log   []string // the server's last lines
	start bool     // it never became ready
}

func (f *failure) giveUp(deaths int) *failure {
	g := *f
	g.text = fmt.Sprintf("the server died %d times; the last time: %s", deaths, f.text)
	return &g
}

// A wrongModel is a server that answers, but for another model.
type wrongModel struct {
	want string
	got  []string
}

func (e *wrongModel) Error() string {
	return fmt.Sprintf("the server serves %q, not %q", e.got, e.want)
}

// endOf is why a deployment ended, after its Done.
func endOf(dep backends.Deployment) error {
	if err := dep.Err(); err != nil {
		return err
	}
	return errors.New("the server ended and its backend does not say why")
}

// failureOf finds the class of the end of a server: by what ended it, and by
// what its log says.
func failureOf(ctx context.Context, err error, dep backends.Deployment, log []string, p *engine.Profile) *failure {
	f := &failure{class: engine.ClassUnknown, text: err.Error(), log: log}
	if dep != nil && dep.Err() != nil { // it may have ended while we were told something else
		err = dep.Err()
		f.text = err.Error()
	}
	end := engine.End{}
	var exit *backends.Exit
	var wrong *wrongModel
	var over limit
	var known *backends.Failure
	switch {
	case errors.As(err, &known):
		f.class, f.hint = known.Class, known.Hint
		return f
	case errors.As(err, &exit):
		end = engine.End{Exited: true, Code: exit.Code, Signal: exit.Signal, OOMKilled: exit.OOMKilled}
	case errors.As(err, &wrong):
		end.WrongModel = strings.Join(wrong.got, ", ")
	case errors.As(context.Cause(ctx), &over):
		f.text = over.Error()
		if !errors.Is(err, context.DeadlineExceeded) {
			f.text += "; the last answer: " + err.Error()
		}
		end.TimedOut = true
	case errors.Is(err, backends.ErrCapacity):
		f.class = "no_capacity"
		return f
	case errors.Is(err, backends.ErrSpec):
		f.class = "spec"
		return f
	}
	d := p.Classify(log, end)
	f.class, f.hint = d.Class, d.Hint
	if d.Class == engine.ClassSignal {
		f.hint = "" // the text says it; the log's last line knows nothing of a signal
	} else if d.Line != "" && wrong == nil {
		f.text += ": " + d.Line
	}
	return f
}

// isDisk says whether an error is our own disk's: no fault of a server, and no
// row could be kept either.
func isDisk(err error) bool {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// tail reads the last lines of logs. A log that cannot be read is no reason to
// lose the failure that it would explain.
func (r *run) tail(paths []string) []string {
	var lines []string
	for _, path := range paths {
		lines = append(lines, tailFile(path)...)
	}
	for i := range lines {
		lines[i] = r.mask.Text(lines[i])
	}
	return lines
}

func tailFile(path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return nil
		}
	}
	lines, err := engine.Tail(f, engine.TailLines)
	if err != nil {
		return nil
	}
	return lines
}

func lastLines(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }
