package server

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Faults are what goes wrong on purpose. The zero value is a server in good
// health.
type Faults struct {
	DieAtStart  *Death
	dieAfter    int // requests that have ended
	death       *Death
	unavailable int    // answers 503 to so many requests at first
	metrics     string // hang, garbage, huge, gone
	BusyBytes   int64

	// Of streams: one more than the number of chunks with text before it.
	every      int // only each n-th request
	hangAfter  int
	resetAfter int
	cutAfter   int // ends the response in good order, in the middle
	errorAfter int
	badAfter   int // malformed JSON
	longAfter  int // a line of 2 MiB
	trickle    time.Duration
	noDone     bool
	wrongUsage int // added to completion_tokens

	text []string
}

// A Death is how the process ends: an exit status, or a signal to itself.
type Death struct {
	Code   int
	Signal syscall.Signal
}

// A FaultKind is one fault as it is given and explained.
type FaultKind struct {
	Name, Doc string // "die-after=N:D"
	set       func(f *Faults, v string) error
}

// FaultKinds are all faults, for parsing and for help.
var FaultKinds = []FaultKind{
	{"die-at-start=D", "end before listening; D is an exit status, or kill, term, segv or abrt", func(f *Faults, v string) (err error) {
		f.DieAtStart, err = parseDeath(v)
		return err
	}},
	{"die-after=N:D", "end like that once N requests have ended", func(f *Faults, v string) (err error) {
		n, d, _ := strings.Cut(v, ":")
		if f.dieAfter, err = positive(n); err != nil {
			return err
		}
		f.death, err = parseDeath(d)
		return err
	}},
	{"unavailable=N", "answer 503 to the first N requests", func(f *Faults, v string) (err error) { f.unavailable, err = positive(v); return err }},
	{"metrics=KIND", "/metrics hangs (hang), is no text (garbage), is 50 MB (huge) or 404 (gone)", func(f *Faults, v string) error {
		switch v {
		case "hang", "garbage", "huge", "gone":
			f.metrics = v
			return nil
		}
		return fmt.Errorf("want hang, garbage, huge or gone, not %q", v)
	}},
	{"gpu-busy=GIB", "another process holds that much of each GPU", func(f *Faults, v string) error {
		g, err := strconv.ParseFloat(v, 64)
		f.BusyBytes = int64(g * (1 << 30))
		return err
	}},
	{"every=N", "the stream faults below hit only each N-th request", func(f *Faults, v string) (err error) { f.every, err = positive(v); return err }},
	{"hang-after=K", "after K chunks of text the stream is silent, and open", after(func(f *Faults) *int { return &f.hangAfter })},
	{"reset-after=K", "after K chunks the connection is reset (RST)", after(func(f *Faults) *int { return &f.resetAfter })},
	{"cut-after=K", "after K chunks the response ends, without finish_reason or [DONE]", after(func(f *Faults) *int { return &f.cutAfter })},
	{"error-after=K", "after K chunks an error object, then [DONE]", after(func(f *Faults) *int { return &f.errorAfter })},
	{"malformed-after=K", "after K chunks a data line that is no JSON", after(func(f *Faults) *int { return &f.badAfter })},
	{"long-line-after=K", "after K chunks a line of 2 MiB", after(func(f *Faults) *int { return &f.longAfter })},
	{"trickle=TIME", "streams come byte by byte, one in each TIME", func(f *Faults, v string) (err error) { f.trickle, err = time.ParseDuration(v); return err }},
	{"no-done", "streams end without [DONE]", func(f *Faults, v string) error { f.noDone = true; return nil }},
	{"wrong-usage=D", "completion_tokens are D too many", func(f *Faults, v string) (err error) { f.wrongUsage, err = strconv.Atoi(v); return err }},
}

// after makes the setter of a count of chunks. Counts are kept one higher, so
// that the zero value means never.
func after(field func(*Faults) *int) func(*Faults, string) error {
	return func(f *Faults, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			return fmt.Errorf("want a number of chunks, not %q", v)
		}
		*field(f) = n + 1
		return nil
	}
}

func positive(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("want a number of at least 1, not %q", v)
	}
	return n, nil
}

func parseDeath(v string) (*Death, error) {
	signals := map[string]syscall.Signal{"kill": syscall.SIGKILL, "term": syscall.SIGTERM, "segv": syscall.SIGSEGV, "abrt": syscall.SIGABRT}
	if s, ok := signals[strings.ToLower(v)]; ok {
		return &Death{Signal: s}, nil
	}
	code, err := strconv.Atoi(v)
	if err != nil || code < 0 || code > 255 {
		return nil, fmt.Errorf("want an exit status or kill, term, segv, abrt, not %q", v)
	}
	return &Death{Code: code}, nil
}

// String is part of flag.Value.
func (f *Faults) String() string {
	if f == nil {
		return ""
	}
	return strings.Join(f.text, ",")
}

// Set adds a list of faults; part of flag.Value.
func (f *Faults) Set(list string) error {
	for item := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(item, "=")
		found := false
		for _, k := range FaultKinds {
			kind, _, takes := strings.Cut(k.Name, "=")
			if kind != name {
				continue
			}
			found = true
			if takes && value == "" {
				return fmt.Errorf("fault %s wants a value", k.Name)
			}
			if err := k.set(f, value); err != nil {
				return fmt.Errorf("fault %s: %w", name, err)
			}
		}
		if !found {
			return fmt.Errorf("no fault %q", name)
		}
		f.text = append(f.text, item)
	}
	return nil
}

// hits says whether the n-th request, from 1, has the stream faults.
func (f *Faults) hits(n int) bool { return f.every == 0 || n%f.every == 0 }

// CheckFaults says what is wrong with a list of --fault values.
func CheckFaults(list []string) error {
	var errs []error
	for _, item := range list {
		errs = append(errs, (&Faults{}).Set(item))
	}
	return errors.Join(errs...)
}

func (d *Death) Error() string {
	if d.Signal != 0 {
		return "fault: signal " + d.Signal.String()
	}
	return fmt.Sprintf("fault: exit status %d", d.Code)
}
