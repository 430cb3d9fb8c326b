package epoll

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/stamp"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

const (
	// maxInFlight bounds an open loop where the source does not. There are
	// 28,000 ports for one server address.
	maxInFlight = 10_000
	// chunksPerLoop is what one loop carries below 70 % of a core, in chunks a
	// second, and chunksPerStream is assumed for a stream whose rate is not known
	// yet: it is faster than people read.
	chunksPerLoop   = 60_000
	chunksPerStream = 100
	// manyStreams is from how many streams on the garbage of their preparation, a few
	// kilobytes each, is collected before the load.
	manyStreams = 256
)

func supported() error { return nil }

// A run is one Run of a driver.
type run struct {
	driver *Driver
	ctx    context.Context // once done, nothing new is sent
	base   context.Context // of what others do for the loops: done when the drain is over
	opts   load.Options
	clock  *stamp.Clock
	open   bool
	limit  int64 // requests in flight of an open loop

	loops   []*loop
	helpers sync.WaitGroup
	dialing chan struct{} // bounds the dials at once

	mu  sync.Mutex // of src and rec
	src load.Source
	rec load.Recorder

	drained  atomic.Bool
	inFlight atomic.Int64
	meter    load.Meter
}

// Run implements [load.Driver]. Its errors are [ErrUnsuitable], before a job is
// taken from the source, and that the system lets it have too few files.
func (d *Driver) Run(ctx context.Context, src load.Source, rec load.Recorder, opts load.Options) (load.Health, error) {
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	shape := src.Loop()
	r := &run{
		driver: d, ctx: ctx, base: base, opts: opts, src: src, rec: rec, open: shape.Open,
		clock: stamp.NewClock(opts.Anchor), dialing: make(chan struct{}, wire.DialsAtOnce),
	}
	streams := shape.Slots
	if r.open {
		r.limit = int64(shape.MaxInFlight)
		if r.limit <= 0 {
			r.limit = maxInFlight
		}
		streams = int(r.limit)
	}
	if err := raiseFiles(streams); err != nil {
		return load.Health{}, err
	}
	// The first connection says whether this driver will do. If there is
	// none yet, each request will find that out itself.
	first := -1
	if ctx.Err() == nil {
		fd, err := d.dial(ctx)
		if errors.Is(err, ErrUnsuitable) {
			return load.Health{}, err
		}
		first = fd
	}
	if err := r.makeLoops(streams); err != nil {
		if first >= 0 {
			_ = unix.Close(first)
		}
		return load.Health{}, err
	}
	defer r.close()
	restore := addProcessors(len(r.loops))
	defer restore()

	if r.open {
		r.prepareOpen(first)
	} else {
		r.prepareClosed(first, shape.Slots)
	}
	return r.measure(cancel), nil
}

// measure runs the loops to their ends.
func (r *run) measure(cancel context.CancelCauseFunc) load.Health {
	over, end := context.WithCancel(context.Background())
	var background, loops sync.WaitGroup
	background.Go(func() { r.drain(over, cancel) })
	background.Go(func() { r.meter.Report(over, r.opts.Progress) })
	watch := load.StartWatch()
	start := r.opts.Start(r.ctx)
	for _, l := range r.loops {
		loops.Go(func() { l.main(start) })
	}
	loops.Wait()
	h := watch.Stop()
	end()
	cancel(nil)
	background.Wait()
	r.helpers.Wait()
	r.clock.Check()
	r.health(&h)
	if r.opts.Progress != nil {
		r.opts.Progress(r.meter.Progress())
	}
	return h
}

func (r *run) health(h *load.Health) {
	h.Client, h.NetworkPath = "fast", r.driver.cfg.NetworkPath
	h.ClockSteps = r.clock.Steps()
	kernel, user := 0, 0
	for _, l := range r.loops {
		h.Chunks += l.chunks
		h.Reads += l.reads
		h.Coalesced += l.coalesced
		h.StampError = max(h.StampError, l.stampError)
		h.Lag.Merge(l.lag)
		h.RTT.Merge(l.rtt)
		h.Loop = max(h.Loop, l.busyShare)
		h.ColdDials += l.cold
		h.Reopened += l.reopened
		h.Retransmits += l.retransmits
		kernel += l.kernel
		user += l.user
	}
	h.StampKind = load.StampKind(kernel, user)
}

func (r *run) makeLoops(streams int) error {
	n := min(runtime.NumCPU()-1, (streams*chunksPerStream+chunksPerLoop-1)/chunksPerLoop)
	if r.driver.loops > 0 {
		n = r.driver.loops
	}
	for range max(1, n) {
		l, err := newLoop(r)
		if err != nil {
			r.close()
			return fmt.Errorf("event loop: %w", err)
		}
		r.loops = append(r.loops, l)
	}
	return nil
}

// close closes all connections that are still open.
func (r *run) close() {
	for _, l := range r.loops {
		l.close()
	}
}

// prepareClosed makes the slots, their first requests and their connections, so
// that all of them start together.
func (r *run) prepareClosed(first, slots int) {
	n := len(r.loops)
	pages := make([][]slot, n)
	for i := range pages {
		pages[i] = make([]slot, (slots-i+n-1)/n)
	}
	busy := make([]*slot, 0, slots)
	for i := range slots {
		if r.ctx.Err() != nil {
			break
		}
		job, ok := r.src.Next(i, nil)
		if !ok {
			continue
		}
		l := r.loops[i%n]
		s := l.adopt(&pages[i%n][i/n])
		s.place = i
		l.assign(s, &job, job.At)
		s.out = bytes.Clone(l.encode(&job))
		s.state = waiting
		l.live++
		busy = append(busy, s)
	}
	next := 0
	give := func(fd int) {
		if next == len(busy) {
			_ = unix.Close(fd)
			return
		}
		s := busy[next]
		next++
		s.loop.connect(s, fd)
	}
	missing := len(busy)
	if first >= 0 {
		give(first)
		missing--
	}
	r.driver.fill(r.ctx, missing, give)
	// Garbage of the preparation must not be collected during the load, nor count as
	// the memory of its streams. That of a few streams is not worth a collection,
	// which costs more CPU than a short load.
	if len(busy) >= manyStreams {
		debug.FreeOSMemory()
	}
}

// prepareOpen opens the connections that each loop begins with, and has the
// first request ready before the clock of the schedule starts.
func (r *run) prepareOpen(first int) {
	give := func(l *loop, fd int) {
		s := l.adopt(new(slot))
		l.connect(s, fd)
		l.rest(s)
	}
	for i, l := range r.loops {
		l.spares = wire.SpareOpen
		missing := wire.SpareOpen
		if i == 0 && first >= 0 {
			give(l, first)
			missing--
		}
		r.driver.fill(r.ctx, missing, func(fd int) { give(l, fd) })
	}
	for _, l := range r.loops {
		l.fetch(0)
	}
}

// drain ends what is still in flight once the run's context has been done for
// as long as the options allow.
func (r *run) drain(over context.Context, cancel context.CancelCauseFunc) {
	select {
	case <-over.Done():
		return
	case <-r.ctx.Done():
	}
	r.wake()
	t := time.NewTimer(r.opts.Drain)
	defer t.Stop()
	select {
	case <-over.Done():
	case <-t.C:
		r.drained.Store(true)
		cancel(wire.ErrDrained)
		r.wake()
	}
}

func (r *run) wake() {
	for _, l := range r.loops {
		l.poller.notify()
	}
}

// record gives a request to the recorder, and asks for what slot sends after it
// if next says so.
func (r *run) record(q *result.Request, slot int, next bool) (job load.Job, ok bool) {
	if q.End == result.Never {
		q.End = r.clock.Now()
	}
	r.meter.Done.Add(1)
	if q.Status == result.Failed {
		r.meter.Failed.Add(1)
	}
	next = next && r.ctx.Err() == nil
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rec.Record(*q)
	if !next {
		return load.Job{}, false
	}
	return r.src.Next(slot, q)
}

// encode writes a request as net/http would, into the loop's buffer: it is good
// until the next one.
func (l *loop) encode(job *load.Job) []byte {
	d := l.run.driver
	clear(l.header)
	l.header["Accept"] = []string{d.cfg.Accept()}
	l.header["Content-Type"] = []string{"application/json"}
	l.header["User-Agent"] = []string{"sweep"}
	d.cfg.RequestHeader(l.header, job, l.run.opts.RequestID)
	body := d.encoder.Encode(job)
	req := http.Request{
		Method: http.MethodPost, URL: d.url, Host: d.url.Host, Header: l.header,
		ProtoMajor: 1, ProtoMinor: 1, Close: d.cfg.FreshConnections,
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}
	l.request.Reset()
	// A buffer takes all, and a URL that was parsed has a host.
	_ = req.Write(&l.request)
	return l.request.Bytes()
}

// raiseFiles sees to it that so many connections can be open at once.
func raiseFiles(streams int) error {
	// Beside ours: what the program has open, and dials under way.
	need := uint64(streams + 256)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil //nolint:nilerr // who is not told the limit may still be within it
	}
	if limit.Cur >= need {
		return nil
	}
	if limit.Max < uint64(streams+64) {
		return fmt.Errorf("%d requests at once need as many open files, and the system allows %d (ulimit -n)", streams, limit.Max)
	}
	limit.Cur = min(limit.Max, need)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("%d requests at once need as many open files: %w", streams, err)
	}
	return nil
}

// processors guards GOMAXPROCS, which belongs to the whole process, between the
// look at it and the change.
var processors = &sync.Mutex{}

// addProcessors gives the runtime n more processors, until the returned
// function is called. A loop keeps its own while it waits in a raw system call:
// what else runs in the process must not have to wait for it.
func addProcessors(n int) (restore func()) {
	add := func(n int) {
		processors.Lock()
		defer processors.Unlock()
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
	}
	// One more, so that if there is one CPU the collector of garbage does
	// not take turns with the rest of the program.
	add(n + 1)
	return func() { add(-n - 1) }
}
