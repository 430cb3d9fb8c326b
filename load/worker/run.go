package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/client"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
)

const (
	// flushEvery is how often a client sends what it has recorded, and that it lives.
	flushEvery = 250 * time.Millisecond
	// maxBatch bounds the memory of the records of one batch, about, in bytes: a batch ends
	// with the request that passes it.
	maxBatch = 1 << 20
	// maxWaiting bounds that of records that the coordinator has not taken.
	maxWaiting = 1 << 30
)

// errBehind ends a run whose coordinator does not read.
var errBehind = errors.New("the coordinator does not take the records: it is too slow, or the network between is")

// A run is one order of a client that is carried out.
type run struct {
	server *server
	order  *order
	src    load.Source
	driver client.Driver
	begun  chan time.Duration // when it is to begin, by this client's clock
	cancel context.CancelFunc
	left   int         // requests that it may still send; below 0 is any number
	over   atomic.Bool // nothing more is sent

	stop chan struct{} // closed by end(true)
	once sync.Once
	late time.Duration

	mu       sync.Mutex // of what follows
	waiting  []result.Request
	bytes    int // that waiting takes
	recorded int
	meter    load.Progress
	fault    error

	writing sync.Mutex // of what follows
	out     http.ResponseWriter
	sum     hash.Hash
}

func newRun(s *server, o *order, target Target) (*run, error) {
	src, err := source.New(o.load())
	if err != nil {
		return nil, err
	}
	d, err := client.New(target.config(), target.Client)
	if err != nil {
		return nil, err
	}
	n := &run{
		server: s, order: o, src: src, driver: d, left: -1,
		begun: make(chan time.Duration, 1), stop: make(chan struct{}), sum: sha256.New(),
	}
	if o.Most != 0 {
		n.left = max(0, o.Most)
	}
	return n, nil
}

// end has the run send nothing more, and give up what is in flight if now is set.
func (n *run) end(now bool) {
	n.over.Store(true)
	if now {
		n.once.Do(func() { close(n.stop) })
	}
}

// main carries the order out and answers to w.
func (n *run) main(ctx context.Context, w http.ResponseWriter) {
	ctx, n.cancel = context.WithCancel(ctx)
	defer n.cancel()
	n.out = w
	// Rows of a second are sent while the next is measured.
	_ = http.NewResponseController(w).EnableFullDuplex()

	over, stop := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() { n.flusher(over) })
	background.Go(func() {
		select {
		case <-n.stop:
			n.cancel()
		case <-over.Done():
		}
	})
	before, counts := procfs.Throttled("/")
	health, err := n.driver.Run(ctx, n, n, load.Options{
		Anchor: n.server.anchor, Drain: n.order.Drain, RequestID: n.order.RequestID,
		Begin: n.begin, Progress: n.progress,
	})
	e := &ending{Health: health, Late: n.late}
	if after, ok := procfs.Throttled("/"); counts && ok {
		e.Throttled = new(after - before)
	}
	stop()
	background.Wait()
	n.flush()
	n.report()
	n.mu.Lock()
	e.Requests = n.recorded
	err = errors.Join(err, n.fault)
	n.mu.Unlock()
	if err != nil {
		e.Error = err.Error()
	}
	if n.server.ctx.Err() != nil {
		e.Ended = "it was told to end in the middle of its load"
	}
	e.SHA256 = hex.EncodeToString(n.sum.Sum(nil))
	n.send(&frame{Kind: kindEnd, End: e}, nil)
}

// Loop implements [load.Source].
func (n *run) Loop() load.Loop { return n.src.Loop() }

// Next implements [load.Source]. Drivers call it one at a time.
func (n *run) Next(slot int, prev *result.Request) (load.Job, bool) {
	if n.over.Load() || n.left == 0 {
		return load.Job{}, false
	}
	job, ok := n.src.Next(slot, prev)
	if ok && n.left > 0 {
		n.left--
	}
	return job, ok
}

// Record implements [load.Recorder].
func (n *run) Record(q result.Request) {
	q.Answer = "" // the source has had it, and no row has
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = append(n.waiting, q)
	n.recorded++
	n.bytes += size(&q)
	if n.bytes > maxWaiting && n.fault == nil {
		n.fault = errBehind
		n.cancel()
	}
}

// size returns about the memory of a record.
func size(q *result.Request) int {
	return int(unsafe.Sizeof(*q)) + 4*(len(q.ChunkUS)+len(q.ChunkTokens)) + len(q.Error)
}

func (n *run) progress(p load.Progress) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.meter = p
}

// begin tells that all is ready, and waits to hear when to begin.
func (n *run) begin(ctx context.Context) time.Duration {
	n.send(&frame{Kind: kindReady}, nil)
	select {
	case <-ctx.Done():
		return n.server.anchor.Since()
	case at := <-n.begun:
		if n.server.begin != nil {
			n.server.begin()
		}
		// A moment that has passed stays the schedule's: the lag of its requests shows it.
		n.late = max(0, n.server.anchor.Since()-at)
		return at
	}
}

// flusher sends what was recorded until the context is done.
func (n *run) flusher(ctx context.Context) {
	t := time.NewTicker(flushEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			n.flush()
			n.report()
		}
	}
}

// report sends how far the run is.
func (n *run) report() {
	n.mu.Lock()
	p := n.meter
	n.mu.Unlock()
	n.send(&frame{Kind: kindProgress, Progress: &p}, nil)
}

// flush sends all records that wait, in batches.
func (n *run) flush() {
	n.mu.Lock()
	all := n.waiting
	n.waiting, n.bytes = nil, 0
	n.mu.Unlock()
	for len(all) > 0 {
		end, bytes := 0, 0
		for end < len(all) && bytes < maxBatch {
			bytes += size(&all[end])
			end++
		}
		payload, err := encode(all[:end])
		if err != nil {
			n.fail(err)
			return
		}
		all = all[end:]
		digest := sha256.Sum256(payload)
		n.send(&frame{Kind: kindRecords, Bytes: len(payload), SHA256: hex.EncodeToString(digest[:])}, payload)
	}
}

// send writes a frame. A coordinator that is gone ends the run.
func (n *run) send(f *frame, payload []byte) {
	n.writing.Lock()
	defer n.writing.Unlock()
	_, _ = n.sum.Write(payload) // a digest takes everything
	err := f.write(n.out, payload)
	if err == nil {
		err = http.NewResponseController(n.out).Flush()
	}
	if err != nil {
		n.fail(err)
	}
}

func (n *run) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = errors.Join(n.fault, err)
	n.cancel()
}
