package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
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

// maxListed bounds the models of a server that a message names.
const maxListed = 20

func (e *wrongModel) Error() string {
	got, more := e.got, ""
	if n := len(got) - maxListed; n > 0 {
		got, more = got[:maxListed], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("the server serves %q%s, not %q", got, more, e.want)
}

// failureOf finds the class of the end of a server: by what ended it, and by
// what its log says. key is the engine's name in the plan.
func failureOf(ctx context.Context, err error, dep backends.Deployment, logs []serverLog, p *engine.Profile, key string) *failure {
	f := &failure{class: engine.ClassUnknown, text: err.Error()}
	for _, log := range logs {
		f.log = append(f.log, log.lines...)
	}
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
		end.WrongModel = wrong.got
	case errors.As(context.Cause(ctx), &over), errors.As(err, &over):
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
	if len(f.log) == 0 { // it was never started, or said nothing: only its backend can tell why
		logs = []serverLog{{lines: strings.Split(f.text, "\n")}}
	}
	end.Engine = key
	d, log := classify(p, logs, exit, end)
	if len(f.log) > 0 {
		f.log = log
	}
	f.class, f.hint = d.Class, d.Advice()
	if d.Class == engine.ClassSignal {
		f.hint = "" // the text says it; the log's last line knows nothing of a signal
	} else if wrong == nil && !strings.Contains(f.text, d.Line) {
		f.text += ": " + d.Line
	}
	return f
}

// A serverLog is the last lines of one replica of a role.
type serverLog struct {
	role    string
	replica int
	lines   []string
}

// classify finds the class of an end in the logs of all servers: first in that of
// the one that ended, then in those of the others in their start order, since a
// frontend fails of the worker behind it. The lines are those of the log that
// explains it.
func classify(p *engine.Profile, logs []serverLog, exit *backends.Exit, end engine.End) (engine.Diagnosis, []string) {
	ordered := slices.Clone(logs)
	slices.SortStableFunc(ordered, func(a, b serverLog) int { return rank(a, exit) - rank(b, exit) })
	for _, log := range ordered {
		d := p.Classify(log.lines, end)
		if told(d.Class) {
			return d, log.lines
		}
	}
	return p.Classify(ordered[0].lines, end), ordered[0].lines
}

func rank(l serverLog, exit *backends.Exit) int {
	if exit != nil && exit.Role == l.role && exit.Replica == l.replica {
		return 0
	}
	return 1
}

// told says whether a class is a cause, and not only how a server ended or that
// something else failed.
func told(class string) bool {
	return !slices.Contains([]string{engine.ClassUnknown, engine.ClassExit, engine.ClassSignal, engine.ClassTimeout, engine.ClassWrapper}, class)
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

// logs are the last lines of the logs of all roles. A log that cannot be read is
// no reason to lose the failure that it would explain.
func (r *run) logs(roles []backends.Role) []serverLog {
	var logs []serverLog
	for _, role := range roles {
		if role.LogPath == nil {
			continue
		}
		for n := range role.Replicas {
			lines := tailFile(role.LogPath(n))
			for i := range lines {
				lines[i] = r.mask.Text(lines[i])
			}
			logs = append(logs, serverLog{role.Name, n, lines})
		}
	}
	return logs
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
