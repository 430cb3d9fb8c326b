package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sweep.dev/sweep/sim/core"
)

// Faults are the simulated faults of a server. The zero value has none.
type Faults struct {
	DieAtStart  *Death
	dieAfter    int // requests that have ended
	death       *Death
	unavailable int    // answers 503 to so many requests at first
	metrics     string // hang, garbage, huge, gone
	BusyBytes   int64
	restart     int // after so many requests

	// Of the engine, in simulated time that it was busy.
	pause     time.Duration // longer is a step
	pauseEach time.Duration
	spike     time.Duration // longer is a step
	spikeEach int           // steps
	compile   time.Duration // longer is the first step of its size
	quiet     bool          // nothing is logged of it
	leak      float64       // share by which steps get longer in a minute
	hot       time.Duration // until clocks fall
	slower    float64       // by how much; 0 is never

	every     int // only each n-th request has what follows
	warm      bool
	slowRead  int // bytes a second
	earlyStop int // tokens

	// Of streams: one more than the number of chunks with text before it.
	stallAfter int
	hangAfter  int
	resetAfter int
	cutAfter   int // ends the response in good order, in the middle
	errorAfter int
	badAfter   int // malformed JSON
	longAfter  int // a line of 2 MiB
	trickle    time.Duration
	stall      time.Duration
	coalesce   int // chunks in a write
	merge      int // tokens in a chunk
	reasoning  int // chunks
	roleFirst  bool
	noDone     bool
	noUsage    bool
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
	{"restart=N", "start time and counters begin anew once N requests have ended, as behind the port of another process", func(f *Faults, v string) (err error) { f.restart, err = positive(v); return err }},
	{"throttle=TIME:F", "after TIME of work the GPU is hot: it says so, and steps take F times as long", func(f *Faults, v string) (err error) {
		t, factor, _ := strings.Cut(v, ":")
		if f.hot, err = duration(t, 0); err != nil {
			return err
		}
		f.slower, err = number(factor, 1)
		return err
	}},
	{"leak=SHARE", "steps get longer by SHARE of what they take in each minute of work", func(f *Faults, v string) (err error) { f.leak, err = number(v, 0); return err }},
	{"stall-all=TIME:PERIOD", "the engine stands still for TIME once in each PERIOD of work", func(f *Faults, v string) (err error) {
		t, period, _ := strings.Cut(v, ":")
		if f.pause, err = duration(t, 1); err != nil {
			return err
		}
		f.pauseEach, err = duration(period, 1)
		return err
	}},
	{"spike=TIME:N", "each N-th step takes TIME longer", func(f *Faults, v string) (err error) {
		t, n, _ := strings.Cut(v, ":")
		if f.spike, err = duration(t, 1); err != nil {
			return err
		}
		f.spikeEach, err = positive(n)
		return err
	}},
	{"compile=TIME", "the first step of each size of a batch compiles a kernel for TIME, two or three times that for some, and logs it; with compile=TIME:quiet it does not", func(f *Faults, v string) (err error) {
		t, how, _ := strings.Cut(v, ":")
		if f.quiet = how == "quiet"; how != "" && !f.quiet {
			return fmt.Errorf("want quiet, not %q", how)
		}
		f.compile, err = duration(t, 1)
		return err
	}},
	{"every=N", "the faults below hit only each N-th request", func(f *Faults, v string) (err error) { f.every, err = positive(v); return err }},
	{"warm-cache", "prompts count as found in the prefix cache, and are answered as fast", func(f *Faults, v string) error { f.warm = true; return nil }},
	{"slow-read=BYTES", "requests are read with so many bytes a second", func(f *Faults, v string) (err error) { f.slowRead, err = positive(v); return err }},
	{"early-stop=K", "the answer stops after K tokens, though more were asked for", func(f *Faults, v string) (err error) { f.earlyStop, err = positive(v); return err }},
	{"role-first", "a stream's chunk with the role comes at once, before any token", func(f *Faults, v string) error { f.roleFirst = true; return nil }},
	{"reasoning=N", "the first N chunks of a chat are reasoning", func(f *Faults, v string) (err error) { f.reasoning, err = positive(v); return err }},
	{"chunk-tokens=N", "a chunk has N tokens", func(f *Faults, v string) (err error) { f.merge, err = positive(v); return err }},
	{"coalesce=N", "N chunks come in one write", func(f *Faults, v string) (err error) { f.coalesce, err = positive(v); return err }},
	{"stall=K:TIME", "after K chunks of text the stream is silent for TIME; what was computed meanwhile then comes at once", func(f *Faults, v string) (err error) {
		k, t, _ := strings.Cut(v, ":")
		if err := after(func(f *Faults) *int { return &f.stallAfter })(f, k); err != nil {
			return err
		}
		f.stall, err = duration(t, 1)
		return err
	}},
	{"hang-after=K", "after K chunks of text the stream is silent, and open", after(func(f *Faults) *int { return &f.hangAfter })},
	{"reset-after=K", "after K chunks the connection is reset (RST)", after(func(f *Faults) *int { return &f.resetAfter })},
	{"cut-after=K", "after K chunks the response ends, without finish_reason or [DONE]", after(func(f *Faults) *int { return &f.cutAfter })},
	{"error-after=K", "after K chunks an error object, then [DONE]", after(func(f *Faults) *int { return &f.errorAfter })},
	{"malformed-after=K", "after K chunks a data line that is no JSON", after(func(f *Faults) *int { return &f.badAfter })},
	{"long-line-after=K", "after K chunks a line of 2 MiB", after(func(f *Faults) *int { return &f.longAfter })},
	{"trickle=TIME", "streams come byte by byte, one in each TIME", func(f *Faults, v string) (err error) { f.trickle, err = duration(v, 1); return err }},
	{"no-usage", "no token counts, though they were asked for", func(f *Faults, v string) error { f.noUsage = true; return nil }},
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

func duration(v string, least time.Duration) (time.Duration, error) {
	t, err := time.ParseDuration(v)
	if err != nil || t < least {
		return 0, fmt.Errorf("want a time like 500ms, not %q", v)
	}
	return t, nil
}

// number returns a finite one, also written 50%.
func number(v string, least float64) (float64, error) {
	text, percent := strings.CutSuffix(v, "%")
	x, err := strconv.ParseFloat(text, 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x >= least && x <= 1e6) {
		return 0, fmt.Errorf("want a number of at least %v, not %q", least, v)
	}
	return x, nil
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

// A size is what an engine has kernels for: the sequences that decode, and the tokens of
// prompts, each rounded up to a power of two.
type size struct{ decode, prefill int }

func sizeOf(s core.Step) size { return size{bits.Len(uint(s.Decode)), bits.Len(uint(s.Prefill))} }

// Stretch returns how the faults change the length of a step; nil if they do not. compiled gets
// the number of each kernel, once it is compiled.
func (f *Faults) Stretch(compiled func(n int)) func(busy time.Duration, step core.Step) time.Duration {
	if f.leak == 0 && f.slower == 0 && f.pause == 0 && f.spike == 0 && f.compile == 0 {
		return nil
	}
	steps, known, under := 0, map[size]bool{}, false
	return func(busy time.Duration, step core.Step) time.Duration {
		long := float64(step.Total) * (1 + f.leak*busy.Minutes())
		if f.hotAt(busy) {
			long *= f.slower
		}
		out := time.Duration(long)
		if f.pause > 0 && (busy+out)/f.pauseEach > busy/f.pauseEach {
			out += f.pause
		}
		if steps++; f.spike > 0 && steps%f.spikeEach == 0 {
			out += f.spike
		}
		if under && !f.quiet {
			compiled(len(known))
		}
		if under = f.compile > 0 && !known[sizeOf(step)]; under {
			known[sizeOf(step)] = true
			out += f.compile * time.Duration(1+len(known)%3)
		}
		return out
	}
}

// hotAt reports whether the GPU's clocks are held down once it was busy for so long.
func (f *Faults) hotAt(busy time.Duration) bool { return f.slower > 0 && busy >= f.hot }

// alter makes of a request what the engine is given.
func (f *Faults) alter(j *job) {
	if !f.hits(j.n) {
		return
	}
	if f.noUsage {
		j.reply.Usage, j.reply.Continuous = false, false
	}
	if f.warm {
		j.req.Known = j.prompt
	}
	if k := f.earlyStop; k > 0 && k < j.maxTokens && (j.answer.StopAt == 0 || k < j.answer.StopAt) {
		j.answer.StopAt, j.answer.Stop, j.reply.StopString = k, "", ""
		j.req.StopAt = k
	}
}

// A slowReader reads at most rate bytes a second.
type slowReader struct {
	io.ReadCloser
	ctx  context.Context
	rate int
}

func (r slowReader) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b[:min(len(b), max(1, r.rate/20))])
	select {
	case <-time.After(time.Duration(n) * time.Second / time.Duration(r.rate)):
	case <-r.ctx.Done():
		return n, r.ctx.Err()
	}
	return n, err
}

// hits reports whether the n-th request, from 1, has the faults of single ones.
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
