package gpu

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/gpustate"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

const (
	firstLook     = 250 * time.Millisecond // under load, so that a short trial has one
	maxBackoff    = 16                     // intervals
	maxRaw        = 16 << 20               // bytes of raw answers that are kept of one host
	snapshotEvery = 10                     // looks, and at least
	snapshotPause = 10 * time.Second
	snapshotLimit = 3 * time.Second
)

// Start takes the first look at every server. If there is nothing to see the
// session is one that does nothing.
func (c *Collector) Start(ctx context.Context, t collectors.Trial, sink collectors.Sink) (collectors.Session, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s := &session{
		config: c.config,
		trial:  t,
		sink:   sink,
		window: newWindow(max(5*c.config.Interval, 5*time.Second)),
	}
	ctx, s.cancel = context.WithCancel(ctx)
	var first []*watcher
	for _, target := range t.Targets {
		// A router or frontend needs no GPU, and may run on a machine whose GPU
		// has nothing to do with the trial.
		if cmp.Or(target.Tier, engine.TierEngine) == engine.TierEngine {
			first = append(first, &watcher{session: s, target: target, number: len(first)})
		}
	}
	var wg sync.WaitGroup
	for _, w := range first {
		wg.Go(func() { w.err = w.open(ctx) })
	}
	wg.Wait()
	var blind []*watcher
	seen := make(map[string]bool)
	for _, w := range first {
		fresh := false
		for _, r := range w.baseline {
			if r.Said == "" {
				fresh = fresh || r.UUID == "" || !seen[r.UUID]
				seen[r.UUID] = true
			}
		}
		switch {
		case w.err != nil:
			blind = append(blind, w)
		case fresh:
			s.watchers = append(s.watchers, w)
		default:
			w.close() // another replica on a machine that is watched already
		}
	}
	if len(s.watchers) == 0 {
		s.cancel()
		text := "no server of the trial is an engine"
		if len(blind) > 0 {
			text = blind[0].err.Error()
			if from, _ := wayNamed(c.config.Source); errors.Is(blind[0].err, host.ErrNotSupported) && !from.overHTTP {
				text = "no command can be run beside this server"
			}
		}
		sink.Note(result.Finding{Code: finding.GPUMetricsMissing, Text: "no GPU was watched: " + text})
		return nothing{}, nil
	}
	if len(blind) > 0 {
		s.note(finding.GPUMetricsPartial, "no GPU was watched of %d of %d servers, the first %s: %v", len(blind), len(first), blind[0].name(), blind[0].err)
	}
	for _, w := range s.watchers {
		wg.Go(func() { w.first(ctx) })
	}
	wg.Wait()
	for _, w := range s.watchers {
		s.loops.Go(func() { w.loop(ctx) })
		if sampler, ok := w.target.Host.(Sampler); ok && w.source.file == smiFile {
			s.loops.Go(func() { w.stream(ctx, sampler) })
		}
	}
	return s, nil
}

// nothing is the session if there is no GPU to be seen.
type nothing struct{}

func (nothing) Finish(context.Context) (result.Row, error) { return emptyRow(), nil }

type session struct {
	config   Config
	trial    collectors.Trial
	sink     collectors.Sink
	watchers []*watcher
	cancel   context.CancelFunc
	loops    sync.WaitGroup

	mu     sync.Mutex
	window *window
}

// begin says once that the load begins.
func (s *session) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.window.begun {
		s.window.begin(s.trial.Anchor.Since())
	}
}

// own returns the process ids of the deployment, as far as they are known here.
func (s *session) own() map[int]bool {
	own := make(map[int]bool)
	for _, t := range s.trial.Targets {
		if p, ok := t.Host.(host.Processor); ok {
			for _, pid := range p.PIDs() {
				own[pid] = true
			}
		}
	}
	return own
}

// ownSince is own, with what was so before.
func (s *session) ownSince(before map[int]bool) map[int]bool {
	own := s.own()
	maps.Copy(own, before)
	return own
}

func (s *session) note(code finding.Code, format string, args ...any) {
	s.sink.Note(result.Finding{Code: code, Text: fmt.Sprintf(format, args...)})
}

// A watcher looks at one host. It is owned by one goroutine at a time: Start,
// then loop, then, behind the session's loops, Finish; but for what is under the
// session's mutex.
type watcher struct {
	session  *session
	target   collectors.Target
	number   int
	source   *source
	baseline []gpustate.Reading
	before   struct {
		at  time.Duration
		out []byte
		own map[int]bool
	}
	tells   bool // its looks report processes
	err     error
	raws    []*raw
	rawSize int
	rawFull bool

	looks, failed int
	lastErr       error
	fresh         time.Time // of the stream's latest row; under the session's mutex
}

// A raw is what is kept of the answers of one source.
type raw struct {
	file string
	buf  bytes.Buffer
}

func (w *watcher) name() string { return fmt.Sprintf("%s-%d", w.target.Role, w.target.Replica) }

func (w *watcher) close() {
	if w.source != nil && w.source.close != nil {
		w.source.close()
	}
}

// open finds the source that sees a GPU, and takes the first look with it.
func (w *watcher) open(ctx context.Context) (err error) {
	for _, source := range w.session.config.candidates(w.target.Host, w.session.trial.Asked) {
		w.source = source
		failed := w.try(ctx, source)
		if failed == nil {
			return nil
		}
		w.close()
		// The reason of the first is what most readers can do something about,
		// unless it says only that it is not there.
		if err == nil || errors.Is(err, host.ErrNotSupported) && !errors.Is(failed, host.ErrNotSupported) {
			err = failed
		}
		if errors.Is(failed, context.DeadlineExceeded) || ctx.Err() != nil {
			break
		}
	}
	w.source = nil
	return err
}

func (w *watcher) try(ctx context.Context, source *source) error {
	ctx, cancel := w.bound(ctx, source, w.session.config.limit())
	defer cancel()
	look := source.look
	if source.open != nil {
		look = source.open
	}
	own := w.session.own()
	begun := w.session.trial.Anchor.Since()
	list, out, err := look(ctx)
	if err != nil {
		return err
	}
	if !gpustate.Seen(list) && len(list) > 0 {
		return fmt.Errorf("%s said %q", source.name, list[0].Said)
	}
	w.looks++
	w.baseline, w.before.own = list, own
	w.before.at, w.before.out = (begun+w.session.trial.Anchor.Since())/2, out
	return nil
}

func (w *watcher) bound(ctx context.Context, source *source, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s took longer than %v: %w", source.name, limit, context.DeadlineExceeded))
}

// first takes the look into account that open took, and the processes.
func (w *watcher) first(ctx context.Context) {
	w.keep(w.source, w.before.at, w.before.out)
	w.take(w.before.at, w.baseline, false, w.before.own, 0)
	w.before.out, w.before.own = nil, nil
	w.snapshot(ctx, true)
}

func (w *watcher) loop(ctx context.Context) {
	s := w.session
	if !s.trial.AwaitLoad(ctx) {
		return
	}
	s.begin()
	interval := s.config.Interval
	wait := min(interval, firstLook)
	backoff := 1
	shown := time.Now()
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		begun := time.Now()
		if err := w.look(ctx, true); err != nil {
			backoff = min(2*backoff, maxBackoff)
		} else {
			backoff = 1
		}
		if time.Since(shown) >= max(snapshotEvery*interval, snapshotPause) {
			w.snapshot(ctx, true)
			shown = time.Now()
		}
		wait = max(interval*time.Duration(backoff)-time.Since(begun), interval/10)
	}
}

// look takes one look, unless the host's own samples make that needless.
func (w *watcher) look(ctx context.Context, loaded bool) error {
	if loaded && w.streaming() {
		return nil
	}
	s := w.session
	runCtx, cancel := w.bound(ctx, w.source, s.config.limit())
	defer cancel()
	var own map[int]bool
	if w.tells {
		own = s.own()
	}
	begun := s.trial.Anchor.Since()
	list, out, err := w.source.look(runCtx)
	at := (begun + s.trial.Anchor.Since()) / 2
	if err != nil && loaded && ctx.Err() != nil {
		return err // Finish ended it, which is no failure
	}
	w.looks++
	if err != nil {
		w.failed++
		w.lastErr = err
		return err
	}
	w.keep(w.source, at, out)
	w.take(at, list, loaded, own, 0)
	return nil
}

// take takes readings into account and passes them on. own is the deployment's
// processes before the look: one that has ended since is no stranger. A GPU that
// is not in the list is missing if it was not seen for longer than patience.
func (w *watcher) take(at time.Duration, list []gpustate.Reading, loaded bool, own map[int]bool, patience time.Duration) {
	s := w.session
	if slices.ContainsFunc(list, func(r gpustate.Reading) bool { return r.PIDsKnown }) {
		w.tells = true
		own = s.ownSince(own)
	}
	s.mu.Lock()
	s.window.processes.observe(w.number, list, own)
	s.window.observe(w.number, at, list, loaded)
	s.window.markRead(w.number, at, patience)
	s.mu.Unlock()
	for _, r := range list {
		if r.Said != "" {
			continue // no value of it counts
		}
		labels := []string{fmt.Sprintf("gpu=%q", r.Index)}
		if r.Part != "" {
			labels = append(labels, fmt.Sprintf("part=%q", r.Part))
		}
		if r.UUID != "" {
			labels = append(labels, fmt.Sprintf("uuid=%q", r.UUID))
		}
		for quantity, v := range r.Values {
			s.sink.Sample(result.Sample{
				T: at, Source: result.FromGPU, Role: w.target.Role, Replica: w.target.Replica,
				Name: quantity, Labels: strings.Join(labels, ","), Value: v, Unit: gpustate.Quantities[quantity].Unit,
			})
		}
	}
}

// snapshot asks for the processes, where the source has them apart. One that
// does not answer is not asked again. values says that what else it tells is of
// use.
func (w *watcher) snapshot(ctx context.Context, values bool) {
	source := w.source.snapshot
	if source == nil {
		return
	}
	s := w.session
	runCtx, cancel := w.bound(ctx, source, min(s.config.limit(), snapshotLimit))
	defer cancel()
	begun := s.trial.Anchor.Since()
	before := s.own()
	list, out, err := source.look(runCtx)
	at := (begun + s.trial.Anchor.Since()) / 2
	if err != nil {
		if ctx.Err() == nil {
			w.source.snapshot = nil
		}
		return
	}
	w.keep(source, at, out)
	own := s.ownSince(before)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.window.processes.observe(w.number, list, own)
	if values {
		s.window.observe(w.number, at, list, s.window.begun)
		if slices.ContainsFunc(list, func(r gpustate.Reading) bool { return len(r.Values) > 0 }) {
			s.window.markRead(w.number, at, 0)
		}
	}
}

// keep puts an answer as it came into the file of its source: each line of CSV
// behind its time, and others as a whole behind a line with their time.
func (w *watcher) keep(source *source, at time.Duration, out []byte) {
	if w.rawSize+len(out) > maxRaw {
		w.rawFull = true
		return
	}
	var file *raw
	for _, r := range w.raws {
		if r.file == source.file {
			file = r
		}
	}
	if file == nil {
		file = &raw{file: source.file}
		w.raws = append(w.raws, file)
		if source.header != nil {
			file.buf.WriteString(source.header())
		}
	}
	size := file.buf.Len()
	if source.header == nil {
		fmt.Fprintf(&file.buf, "# t_us %d\n%s\n", at.Microseconds(), bytes.TrimRight(out, "\r\n"))
	} else {
		for line := range bytes.Lines(out) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				fmt.Fprintf(&file.buf, "%d, %s\n", at.Microseconds(), line)
			}
		}
	}
	w.rawSize += file.buf.Len() - size
}

// finish takes the last look.
func (w *watcher) finish(ctx context.Context) error {
	defer w.close()
	last := w.look(ctx, false)
	if last == nil {
		w.snapshot(ctx, false)
	}
	var errs []error
	if last != nil {
		errs = append(errs, fmt.Errorf("%s: %w", w.source.name, last))
	}
	for _, r := range w.raws {
		if err := w.session.sink.Artifact(layout.Raw(w.name(), r.file), &r.buf); err != nil {
			errs = append(errs, fmt.Errorf("keep what %s said: %w", w.source.name, err))
		}
	}
	w.err = last
	return errors.Join(errs...)
}

// Finish takes the last looks, which make the row.
func (s *session) Finish(ctx context.Context) (result.Row, error) {
	s.cancel()
	s.loops.Wait()
	s.begin() // where the load never did, all of it is at rest
	errs := make([]error, len(s.watchers))
	var wg sync.WaitGroup
	for i, w := range s.watchers {
		wg.Go(func() { errs[i] = w.finish(ctx) })
	}
	wg.Wait()
	bracketed := true
	for _, w := range s.watchers {
		bracketed = bracketed && w.err == nil
	}
	row := s.window.row(bracketed)
	s.findings(row)
	return row, errors.Join(errs...)
}

// throttledShare of the load is what a finding is worth.
const throttledShare = 0.01

func (s *session) findings(row result.Row) {
	looks, failed, full := 0, 0, false
	var lastErr error
	for _, w := range s.watchers {
		looks, failed, full = looks+w.looks, failed+w.failed, full || w.rawFull
		if w.lastErr != nil {
			lastErr = w.lastErr
		}
	}
	load := s.trial.Anchor.Since() - s.window.start
	broken := s.window.broken()
	for _, text := range s.window.losses() {
		if broken {
			text += "; the columns of the GPUs are null"
		}
		s.note(finding.GPUMetricsPartial, "%s", text)
	}
	if n := s.window.told.unread; n > 0 {
		s.note(finding.GPUMetricsPartial, "%d lines about the GPUs cannot be read, the first: %q", n, s.window.told.first)
	}
	ms, _ := row[col.GPUThrottledMs].(float64)
	switch {
	case failed > 0:
		s.note(finding.GPUMetricsPartial, "%d of %d looks at the GPUs failed, the last with: %v", failed, looks, lastErr)
	case s.window.misses() > 0:
		s.note(finding.GPUMetricsPartial, "a GPU was missing in %d looks at the GPUs, and came back", s.window.misses())
	case !broken && row[col.GPUEnergyJ] == nil && s.window.gaps() > 0:
		s.note(finding.GPUMetricsPartial, "the power of the GPUs is unknown for %d stretches, so energy is not stated", s.window.gaps())
	case full:
		s.note(finding.GPUMetricsPartial, "what the GPUs' tools say is kept up to %d MiB", maxRaw>>20)
	}
	if !broken && s.window.unused() {
		s.note(finding.GPUIdle, "no GPU changed under load, and none holds a model: the wrong GPU, or the wrong server?")
	}
	if n, _ := row[col.GPUForeignProcesses].(int64); n > 0 {
		s.note(finding.GPUForeign, "%d processes on the GPUs are not of this deployment", n)
	}
	if ms > throttledShare*float64(load.Milliseconds()) {
		s.note(finding.GPUThrottled, "the clocks of a GPU were held down for %.1f s of %.1f s: %v", ms/1e3, load.Seconds(), row[col.GPUThrottleReasons])
	}
}
