package gpu

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/gpustate"
)

// A Sampler is a host that samples its GPUs itself, which is cheaper than a run
// of nvidia-smi for each look; found by type assertion.
type Sampler interface {
	// Samples are lines of nvidia-smi --query-gpu=... --format=csv,noheader,nounits,
	// one each second for each GPU, from a byte offset on, without end: timestamp,
	// index, uuid, name, utilization.gpu, utilization.memory, memory.used,
	// memory.total, power.draw, temperature.gpu, clocks.sm, clocks.mem. The
	// context bounds the whole reading. ErrNotSupported if there are none.
	Samples(ctx context.Context, offset int64) (io.ReadCloser, error)
}

const (
	streamTick  = time.Second
	staleTicks  = 3 // without a row, after which looks are taken again
	maxLine     = 64 << 10
	maxReopened = 5 // times that a stream is opened again
)

// streaming reports whether rows of the stream arrive.
func (w *watcher) streaming() bool {
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	return !w.fresh.IsZero() && time.Since(w.fresh) < staleTicks*streamTick
}

// stream reads the host's own samples until ctx is done. One that breaks off is
// opened again; meanwhile the loop takes its looks.
func (w *watcher) stream(ctx context.Context, sampler Sampler) {
	c := new(clock)
	for n := range maxReopened {
		if n > 0 && !sleep(ctx, streamTick<<n) {
			return
		}
		r, err := sampler.Samples(ctx, 0)
		if err == nil {
			err = w.read(ctx, r, c)
			_ = r.Close() // it was only read
		}
		if errors.Is(err, host.ErrNotSupported) || ctx.Err() != nil {
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// A clock turns the stamps of another machine into the trial's time, by the
// shortest way that one of them took here. Those that a pod kept are old.
type clock struct {
	known  bool
	offset time.Duration
	latest time.Time
}

// at returns when a row was made, and false if it was seen before.
func (c *clock) at(stamp time.Time, received time.Duration) (time.Duration, bool) {
	if !stamp.After(c.latest) && c.known && c.latest.Sub(stamp) > streamTick/2 {
		return 0, false
	}
	// Zones and dates cancel out.
	way := received - time.Duration(stamp.Unix())*time.Second - time.Duration(stamp.Nanosecond())
	if !c.known || way < c.offset {
		c.offset, c.known = way, true
	}
	if stamp.After(c.latest) {
		c.latest = stamp
	}
	return time.Duration(stamp.Unix())*time.Second + time.Duration(stamp.Nanosecond()) + c.offset, true
}

func (w *watcher) read(ctx context.Context, r io.Reader, c *clock) error {
	buf := make([]byte, maxLine)
	var rest []byte
	for {
		n, err := r.Read(buf)
		received := w.session.trial.Anchor.Since()
		rest = append(rest, buf[:n]...)
		// The text behind the last newline is not complete.
		end := bytes.LastIndexByte(rest, '\n') + 1
		w.rows(string(rest[:end]), received, c)
		rest = append([]byte(nil), rest[end:]...)
		if len(rest) > maxLine {
			return gpustate.ErrAnswer
		}
		if err != nil {
			return err
		}
		// One answer a tick is as much as there is news.
		if !sleep(ctx, min(streamTick, w.session.config.Interval)) {
			return ctx.Err()
		}
	}
}

// rows takes complete lines of the stream into account. The newest comes first
// for the clock: it took the shortest way.
func (w *watcher) rows(lines string, received time.Duration, c *clock) {
	type row struct {
		r     gpustate.Reading
		stamp time.Time
	}
	var rows []row
	for line := range strings.Lines(lines) {
		r, text, ok := gpustate.ParseRow(line)
		stamp, err := time.Parse("2006/01/02 15:04:05.000", text)
		switch {
		case ok && err == nil:
			rows = append(rows, row{r, stamp})
		case r.Lost && len(rows) > 0:
			rows = append(rows, row{r, rows[len(rows)-1].stamp}) // it has no stamp of its own
		}
	}
	if len(rows) == 0 {
		return
	}
	if newest := rows[len(rows)-1]; !c.known {
		c.at(newest.stamp, received)
		c.latest = time.Time{}
	}
	s := w.session
	for _, row := range rows {
		at, isNew := c.at(row.stamp, received)
		if !isNew || at < w.before.at {
			continue
		}
		s.mu.Lock()
		loaded := s.window.begun && at >= s.window.start
		w.fresh = time.Now()
		s.mu.Unlock()
		w.take(at, []gpustate.Reading{row.r}, loaded, nil, staleTicks*streamTick)
	}
}
