package serving

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
	"sweep.dev/sweep/engine/failure"
	"sweep.dev/sweep/executor/serving/ready"
)

// tailBytes is how much of a log the classifier is given.
const tailBytes = 1 << 20

// A Limit is the cause with which a bounded step ends.
type Limit struct {
	Name  string
	After time.Duration
}

func (l Limit) Error() string { return fmt.Sprintf("%s: not done after %s", l.Name, l.After) }

// WithLimit returns ctx until a time is over; its cause is a [Limit] then.
func WithLimit(ctx context.Context, name string, after time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, after, Limit{name, after})
}

// A Failure is why a server could not be used.
type Failure struct {
	Class string
	Text  string
	Hint  string   // what to change; "" if that is not known
	Log   []string // the server's last lines
	Start bool     // it never became ready
}

func (f *Failure) giveUp(deaths int) *Failure {
	g := *f
	g.Text = fmt.Sprintf("the server died %d times; the last time: %s", deaths, f.Text)
	return &g
}

// failureOf finds the class of the end of a server: by what ended it, and by
// what its log says. key is the engine's name in the plan.
func failureOf(ctx context.Context, err error, dep backends.Deployment, logs []serverLog, p *engine.Profile, key string) *Failure {
	f := &Failure{Class: failure.ClassUnknown, Text: err.Error()}
	for _, log := range logs {
		f.Log = append(f.Log, log.lines...)
	}
	if dep != nil && dep.Err() != nil { // it may have ended while we were told something else
		err = dep.Err()
		f.Text = err.Error()
	}
	end := failure.End{}
	var exit *backends.Exit
	var wrong *ready.WrongModel
	var over Limit
	var known *backends.Failure
	switch {
	case errors.As(err, &known):
		f.Class, f.Hint = known.Class, known.Hint
		return f
	case errors.As(err, &exit):
		end = failure.End{Exited: true, Code: exit.Code, Signal: exit.Signal, OOMKilled: exit.OOMKilled}
	case errors.As(err, &wrong):
		end.WrongModel = wrong.Got
	case errors.As(context.Cause(ctx), &over), errors.As(err, &over):
		f.Text = over.Error()
		if !errors.Is(err, context.DeadlineExceeded) {
			f.Text += "; the last answer: " + err.Error()
		}
		end.TimedOut = true
	case errors.Is(err, backends.ErrCapacity):
		f.Class = "no_capacity"
		return f
	case errors.Is(err, backends.ErrSpec):
		f.Class = "spec"
		return f
	}
	if len(f.Log) == 0 { // it was never started, or said nothing: only its backend can tell why
		logs = []serverLog{{lines: strings.Split(f.Text, "\n")}}
	}
	end.Engine = key
	d, log := classify(p, logs, exit, end)
	if len(f.Log) > 0 {
		f.Log = log
	}
	f.Class, f.Hint = d.Class, d.Advice()
	if d.Class == failure.ClassSignal {
		f.Hint = "" // the text says it; the log's last line knows nothing of a signal
	} else if wrong == nil && !strings.Contains(f.Text, d.Line) {
		f.Text += ": " + d.Line
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
func classify(p *engine.Profile, logs []serverLog, exit *backends.Exit, end failure.End) (failure.Diagnosis, []string) {
	ordered := slices.Clone(logs)
	slices.SortStableFunc(ordered, func(a, b serverLog) int { return rank(a, exit) - rank(b, exit) })
	for _, log := range ordered {
		d := p.Classify(log.lines, end)
		if isCause(d.Class) {
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

// isCause reports whether a class is a cause, and not only how a server ended or that
// something else failed.
func isCause(class string) bool {
	return !slices.Contains([]string{failure.ClassUnknown, failure.ClassExit, failure.ClassSignal, failure.ClassTimeout, failure.ClassWrapper}, class)
}

// isDisk reports whether an error is our own disk's: no fault of a server, and no
// row could be kept either.
func isDisk(err error) bool {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// failureOf is [failureOf] for a launch of these roles. dep is nil if it is not up.
func (d *Servers) failureOf(ctx context.Context, err error, dep backends.Deployment, roles []backends.Role) *Failure {
	return failureOf(ctx, err, dep, d.logs(roles), d.profile, d.of.Server.Engine)
}

// logs returns the last lines of the logs of all roles. A log that cannot be read is
// no reason to lose the failure that it would explain.
func (d *Servers) logs(roles []backends.Role) []serverLog {
	var logs []serverLog
	for _, role := range roles {
		if role.LogPath == nil {
			continue
		}
		for n := range role.Replicas {
			lines := tailFile(role.LogPath(n))
			for i := range lines {
				lines[i] = d.config.Mask.Text(lines[i])
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
	lines, err := failure.Tail(f, failure.TailLines)
	if err != nil {
		return nil
	}
	return lines
}
