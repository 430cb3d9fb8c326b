package worker

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/shard"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
)

const (
	// readyWithin bounds how long a client takes to make its part of a load.
	readyWithin = 2 * time.Minute
	// silence is how long a client may say nothing, which speaks four times a second,
	// until it counts as lost. One that is stopped for less goes on, and its stall is
	// judged.
	silence = 10 * time.Second
	// lead is how long before its beginning a run is told to the clients, at the least,
	// and leadTrips how many round trips.
	lead      = 100 * time.Millisecond
	leadTrips = 10
)

// errSilent is why a client is lost that is still connected.
var errSilent = fmt.Errorf("it said nothing for %v", silence)

// A Group is the clients that send a load together, at one target. Its runs may overlap.
type Group struct {
	peers []*peer
	runs  atomic.Int64
}

// Join registers with clients that nobody has registered with. Close must follow.
func Join(ctx context.Context, t Target, at []Address) (*Group, error) {
	if len(at) == 0 || len(at) > shard.Most {
		return nil, fmt.Errorf("%d clients are not between 1 and %d", len(at), shard.Most)
	}
	g := &Group{}
	for i, a := range at {
		g.peers = append(g.peers, newPeer(a, i))
	}
	if err := g.each(len(at), func(p *peer) error { return p.register(ctx, &t) }); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// Close closes the connections to the clients, which end by their lease or their input.
func (g *Group) Close() {
	for _, p := range g.peers {
		p.close()
	}
}

// each calls f for the first n clients side by side, and joins the errors.
func (g *Group) each(n int, f func(*peer) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i, p := range g.peers[:n] {
		all.Go(func() { errs[i] = f(p) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// A Load is what the clients send together.
type Load struct {
	Source source.Config // of the whole load
	Most   int           // requests at most; 0 is all
	// Rounds are the bounds (Most) of what was sent before of the same warm-up by time:
	// each client goes on behind its parts.
	Rounds []int
	// Begun, if not nil, hears the moment of the trial at which the load begins.
	Begun func(time.Duration)
	// Enough, once it is closed, ends the sending; requests in flight go on to their end.
	Enough <-chan struct{}
}

// Run has the clients send a load, as [load.Driver] does. Records come as clients send
// them, a fraction of a second after the requests ended. If a client is lost, the others
// give up what is in flight: what is there is no measurement. That is no error but in
// Health's Shards.
func (g *Group) Run(ctx context.Context, l Load, rec load.Recorder, opts load.Options) (load.Health, error) {
	if l.Source.Prompts.Rest != nil {
		return load.Health{}, errors.New("prompts that stay in their file cannot be sent to clients")
	}
	n := shard.Clients(l.Source, len(g.peers))
	r := &joint{group: g, load: l, rec: rec, opts: opts, number: int(g.runs.Add(1)), parts: make([]*part, n)}
	for i, p := range g.peers[:n] {
		r.parts[i] = &part{peer: p, joint: r, ready: make(chan struct{})}
	}
	return r.run(ctx)
}

// A joint run is one load of all clients.
type joint struct {
	group  *Group
	load   Load
	rec    load.Recorder
	opts   load.Options
	number int
	parts  []*part

	mu sync.Mutex // of rec, and of the parts' meters
}

// A part is one client in a joint run.
type part struct {
	peer  *peer
	joint *joint
	ready chan struct{}

	before, after offset
	meter         load.Progress
	received      int
	end           *ending // nil: it did not come to its end
	sum           string  // of the records as they came
	lost          string
	err           error // the client lives, and refuses
}

func (r *joint) now() time.Duration { return r.opts.Anchor.Since() }

func (r *joint) run(ctx context.Context) (load.Health, error) {
	// What talks to the clients outlives ctx: they drain, and their records come.
	talk, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	r.each(func(p *part) error {
		var err error
		p.before, err = p.peer.probe(talk, r.now)
		p.after = p.before
		return err
	})
	over, end := context.WithCancel(talk)
	defer end()
	var streams, background sync.WaitGroup
	for _, p := range r.parts {
		streams.Go(func() { p.follow(talk) })
	}
	background.Go(func() { r.supervise(ctx, over) })
	background.Go(func() { r.report(over) })
	for _, p := range r.parts {
		background.Go(func() { p.hold(over) })
	}
	r.begin(ctx, talk)
	streams.Wait()
	end()
	background.Wait()
	r.each(func(p *part) error {
		var err error
		p.after, err = p.peer.probe(talk, r.now)
		return err
	})
	if r.opts.Progress != nil {
		r.opts.Progress(r.progress())
	}
	return r.health(), r.err()
}

// each does something with each client that is not lost; an error loses it.
func (r *joint) each(f func(*part) error) {
	var all sync.WaitGroup
	for _, p := range r.parts {
		if p.failed() {
			continue
		}
		all.Go(func() {
			if err := f(p); err != nil {
				p.fail(err)
			}
		})
	}
	all.Wait()
}

// begin waits until all clients are ready, and tells them when to begin.
func (r *joint) begin(ctx, talk context.Context) {
	for _, p := range r.parts {
		<-p.ready
	}
	if r.failed() || ctx.Err() != nil {
		return // the supervisor ends it
	}
	ahead := lead
	for _, p := range r.parts {
		ahead = max(ahead, 2*leadTrips*p.before.Error)
	}
	at := r.now() + ahead
	if r.load.Begun != nil {
		r.load.Begun(at)
	}
	r.each(func(p *part) error {
		return p.peer.ask(talk, http.MethodPost, pathBegin, beginning{Run: r.number, At: at - shard.Offset(p.before.By)}, &struct{}{})
	})
}

// supervise ends the run before its time: for the context, because it is enough, or
// because a client is lost. It says so again and again, as a client may not have made its
// run yet.
func (r *joint) supervise(ctx, over context.Context) {
	done, enough := ctx.Done(), r.load.Enough
	var order *stop
	look := time.NewTicker(flushEvery)
	defer look.Stop()
	for {
		select {
		case <-over.Done():
			return
		case <-enough:
			enough, order = nil, &stop{Run: r.number}
		case <-done:
			done, order = nil, &stop{Run: r.number, Now: true}
		case <-look.C:
			if r.failed() {
				order = &stop{Run: r.number, Now: true}
			}
		}
		if order == nil {
			continue
		}
		r.each(func(p *part) error {
			// A run that has ended is not there any more, and a client that is lost is
			// found lost by its stream.
			_ = p.peer.ask(over, http.MethodPost, pathStop, order, &struct{}{})
			return nil
		})
	}
}

// report reports the progress of all clients together.
func (r *joint) report(over context.Context) {
	if r.opts.Progress == nil {
		return
	}
	t := time.NewTicker(flushEvery)
	defer t.Stop()
	for {
		select {
		case <-over.Done():
			return
		case <-t.C:
			r.opts.Progress(r.progress())
		}
	}
}

func (r *joint) progress() (sum load.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.parts {
		sum.Sent += p.meter.Sent
		sum.Done += p.meter.Done
		sum.Failed += p.meter.Failed
		sum.InFlight += p.meter.InFlight
		sum.OutputTokens += p.meter.OutputTokens
	}
	return sum
}

func (r *joint) failed() bool { return slices.ContainsFunc(r.parts, (*part).failed) }

// err returns that of the clients that live and could not do what they were asked.
func (r *joint) err() error {
	var errs []error
	for _, p := range r.parts {
		if p.err != nil {
			errs = append(errs, fmt.Errorf("client %d: %w", p.peer.index, p.err))
		} else if p.end != nil && p.end.Error != "" {
			errs = append(errs, fmt.Errorf("client %d: %s", p.peer.index, p.end.Error))
		}
	}
	return errors.Join(errs...)
}

func (p *part) failed() bool {
	p.joint.mu.Lock()
	defer p.joint.mu.Unlock()
	return p.lost != "" || p.err != nil || p.end != nil && p.end.Error != ""
}

// hold keeps the lease of a client while it sends. One that does not answer is found lost by its
// stream.
func (p *part) hold(ctx context.Context) {
	if p.peer.about.Lease <= 0 {
		return
	}
	t := time.NewTicker(p.peer.about.Lease / 4)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			_ = p.peer.ask(ctx, http.MethodGet, pathClock, nil, &reading{})
		}
	}
}

// fail takes in that a client is lost, or refuses.
func (p *part) fail(err error) {
	refused, lost := error(nil), ""
	if _, ok := errors.AsType[*refusal](err); ok {
		refused = err
	} else {
		lost = p.peer.lost(err)
	}
	p.joint.mu.Lock()
	defer p.joint.mu.Unlock()
	if p.lost == "" && p.err == nil {
		p.lost, p.err = lost, refused
	}
}

// follow gives a client its order, and takes its records until it ends.
func (p *part) follow(ctx context.Context) {
	hear := sync.OnceFunc(func() { close(p.ready) })
	defer hear()
	if p.failed() {
		return
	}
	if err := p.stream(ctx, hear); err != nil {
		p.fail(err)
	}
}

func (p *part) stream(ctx context.Context, ready func()) error {
	o, err := p.order()
	if err != nil {
		return &refusal{err.Error()}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(readyWithin, func() { cancel(errSilent) })
	defer watch.Stop()
	told := func(err error) error {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	resp, err := p.peer.request(ctx, http.MethodPost, pathRun, &o)
	if err != nil {
		return told(err)
	}
	defer resp.Body.Close()
	in, sum := bufio.NewReaderSize(resp.Body, maxLine), sha256.New()
	for {
		f, err := readFrame(in, sum)
		if err != nil {
			return told(err)
		}
		watch.Reset(silence)
		if f.Kind == kindEnd {
			p.finish(f.End, hex.EncodeToString(sum.Sum(nil)))
			return p.complete()
		}
		if f.Kind == kindReady {
			ready()
		}
		p.take(f)
	}
}

// order returns the client's part of the load.
func (p *part) order() (order, error) {
	r, i := p.joint, p.peer.index
	c := shard.Of(r.load.Source, i, len(r.parts))
	for _, n := range r.load.Rounds {
		c.WarmupSent += c.Shard.Part(n)
	}
	o, err := newOrder(c)
	o.Run, o.RequestID, o.Drain = r.number, r.opts.RequestID, r.opts.Drain
	if r.load.Most > 0 {
		// A bound of 0 means no bound, so a client with no share is told none.
		if o.Most = c.Shard.Part(r.load.Most); o.Most == 0 {
			o.Most = none
		}
	}
	return o, err
}

// take takes in a frame that is not the last.
func (p *part) take(f *frame) {
	p.joint.mu.Lock()
	defer p.joint.mu.Unlock()
	if f.Progress != nil {
		p.meter = *f.Progress
	}
	by := shard.Offset(p.before.By)
	for i := range f.batch {
		shard.Move(&f.batch[i], by)
		p.joint.rec.Record(f.batch[i])
	}
	p.received += len(f.batch)
}

func (p *part) finish(e *ending, sum string) {
	p.joint.mu.Lock()
	defer p.joint.mu.Unlock()
	p.end, p.sum = e, sum
}

// complete returns an error if records of the client are missing or changed.
func (p *part) complete() error {
	switch {
	case p.end == nil:
		return errors.New("its end says nothing")
	case p.end.Ended != "":
		return errors.New(p.end.Ended)
	case p.end.Requests != p.received:
		return fmt.Errorf("it recorded %d requests, and %d came here", p.end.Requests, p.received)
	case p.end.SHA256 != p.sum:
		return fmt.Errorf("its records have the digest %s, and what came here %s", p.end.SHA256, p.sum)
	}
	return nil
}

// health returns what all clients know of themselves.
func (r *joint) health() load.Health {
	var all []load.Health
	var about []registered
	var shards []load.ShardHealth
	for _, p := range r.parts {
		s := load.ShardHealth{
			Shard: p.peer.index, Lost: p.lost, Requests: p.received, SHA256: p.sum,
			Offset: shard.Offset(p.before.By), OffsetError: p.before.Error, Wall: p.before.Wall,
			Drift: p.after.By - p.before.By, DriftError: p.after.Error + p.before.Error,
		}
		if e := p.end; e != nil {
			s.Late, s.Throttled, s.MaxGap, s.CPU = e.Late, e.Throttled, e.Health.MaxGap, e.Health.CPU
			for i := range e.Health.ClockSteps {
				e.Health.ClockSteps[i].At += s.Offset
			}
			all, about = append(all, e.Health), append(about, p.peer.about)
		}
		shards = append(shards, s)
	}
	h := together(all, len(about) > 0 && sameHost(about))
	h.Shards = shards
	return h
}

// together returns what several clients know, as one: sums of what they counted, and the worst
// of the rest. Clients that share a machine have its CPUs together.
func together(all []load.Health, shared bool) (h load.Health) {
	kernel, user := 0, 0
	for i := range all {
		o := &all[i]
		h.Client, h.NetworkPath = o.Client, o.NetworkPath
		switch o.StampKind {
		case result.StampKernel:
			kernel++
		case result.StampUser:
			user++
		case "":
		default:
			kernel, user = kernel+1, user+1
		}
		if shared {
			h.CPU = min(1, h.CPU+o.CPU)
		} else {
			h.CPU = max(h.CPU, o.CPU)
		}
		h.MaxGap, h.Loop, h.StampError = max(h.MaxGap, o.MaxGap), max(h.Loop, o.Loop), max(h.StampError, o.StampError)
		h.Chunks, h.Reads, h.Coalesced = h.Chunks+o.Chunks, h.Reads+o.Reads, h.Coalesced+o.Coalesced
		h.ColdDials, h.Reopened, h.Retransmits = h.ColdDials+o.ColdDials, h.Reopened+o.Reopened, h.Retransmits+o.Retransmits
		h.Lag.Merge(o.Lag)
		h.RTT.Merge(o.RTT)
		h.ClockSteps = append(h.ClockSteps, o.ClockSteps...)
	}
	h.StampKind = load.StampKind(kernel, user)
	return h
}
