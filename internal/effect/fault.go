package effect

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// A Phase is the side of an operation that a fault is on.
type Phase string

// The phases.
const (
	Before Phase = "before"
	After  Phase = "after"
)

// A Fault is the error of an operation that was made to fail.
type Fault struct {
	Point Point
	Phase Phase
	Err   error // the errno
}

func (f *Fault) Error() string {
	return fmt.Sprintf("fault %s %s: %v", f.Phase, f.Point, f.Err)
}

// Unwrap returns the errno, so that errors.Is(err, syscall.ENOSPC) holds.
func (f *Fault) Unwrap() error { return f.Err }

// anyOp is the name that counts every operation.
const anyOp Point = "op"

// A fault is one rule of a specification.
type fault struct {
	point  Point // or anyOp
	phase  Phase
	action string // kill, stop, panic, err, delay
	errno  syscall.Errno
	delay  time.Duration

	n      uint64 // the hit that it strikes
	onward bool   // and every later one
	hits   atomic.Uint64
}

func parseFaults(spec string) ([]*fault, error) {
	if strings.TrimSpace(spec) == "" {
		return nil, nil
	}
	var faults []*fault
	for rule := range strings.SplitSeq(spec, ",") {
		f, err := parseFault(strings.TrimSpace(rule))
		if err != nil {
			return nil, fmt.Errorf("fault %q: %w", rule, err)
		}
		faults = append(faults, f)
	}
	return faults, nil
}

func parseFault(rule string) (*fault, error) {
	rule, count, counted := strings.Cut(rule, "@")
	f := &fault{phase: Before, n: 1}
	if counted {
		digits, onward := strings.CutSuffix(count, "+")
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("want a count from 1 after @, got %q", count)
		}
		f.n, f.onward = n, onward
	}
	parts := strings.Split(rule, ":")
	if len(parts) == 3 {
		f.phase = Phase(parts[1])
		if f.phase != Before && f.phase != After {
			return nil, fmt.Errorf("want before or after, got %q", parts[1])
		}
		parts = []string{parts[0], parts[2]}
	}
	if len(parts) != 2 {
		return nil, fmt.Errorf("want POINT[:before|after]:ACTION[@N]")
	}
	f.point = Point(parts[0])
	if f.point != anyOp && !slices.Contains(Points(), f.point) {
		return nil, fmt.Errorf("no point has the name %q", f.point)
	}
	return f, f.parseAction(parts[1])
}

func (f *fault) parseAction(text string) (err error) {
	action, value, _ := strings.Cut(text, "=")
	f.action = action
	switch {
	case slices.Contains([]string{"kill", "stop", "panic"}, text):
	case action == "err":
		f.errno = map[string]syscall.Errno{
			"ENOSPC": syscall.ENOSPC, "EIO": syscall.EIO, "EDQUOT": syscall.EDQUOT,
			"EACCES": syscall.EACCES, "EROFS": syscall.EROFS,
		}[value]
		if f.errno == 0 {
			return fmt.Errorf("no error has the name %q", value)
		}
	case action == "delay":
		if f.delay, err = time.ParseDuration(value); err != nil || f.delay <= 0 {
			return fmt.Errorf("want a positive duration, got %q", value)
		}
	default:
		return fmt.Errorf("want kill, stop, panic, err=NAME or delay=TIME, got %q", text)
	}
	return nil
}

// hit counts the arrival at p and acts where a rule says so. op is the number
// of the operation within this process.
func (e *Effects) hit(ctx context.Context, p Point, phase Phase, op uint64) *Fault {
	for _, f := range e.faults {
		if f.phase != phase {
			continue
		}
		var n uint64
		switch f.point {
		case anyOp:
			n = op
		case p:
			n = f.hits.Add(1)
		default:
			continue
		}
		if n < f.n || n > f.n && !f.onward {
			continue
		}
		if fault := f.strike(ctx, p); fault != nil {
			return fault
		}
	}
	return nil
}

func (f *fault) strike(ctx context.Context, p Point) *Fault {
	switch f.action {
	case "kill":
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {} // the signal may reach another thread first: nothing may happen here any more
	case "stop":
		stopHere()
	case "panic":
		panic(fmt.Sprintf("fault %s %s: panic", f.phase, p))
	case "err":
		return &Fault{Point: p, Phase: f.phase, Err: f.errno}
	case "delay":
		select {
		case <-time.After(f.delay):
		case <-ctx.Done():
		}
	}
	return nil
}
