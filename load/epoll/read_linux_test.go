package epoll

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Stamps are of the wall clock, which may be set: a read is never received before the one
// before it, nor after it returned.
func TestMark_wallClockSet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	defer b.end()
	for _, by := range []time.Duration{-time.Hour, 0, time.Hour} {
		before, now := b.slot.last, b.loop.clock.Now()
		m := b.loop.mark(b.slot, time.Now().Add(by).UnixNano(), now)
		if m.At < before || m.At > now || m.After != before {
			t.Errorf("set by %v: received at %v, after %v; want %v to %v", by, m.At, m.After, before, now)
		}
	}
}

// What follows an answer is of nothing that was asked: its connection is not used again.
func TestStream_bytesBehindIt(t *testing.T) {
	t.Parallel()
	const event = `data: {"choices":[{"index":0,"text":"a","finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	for behind, kept := range map[string]bool{"": true, "x": false} {
		b := newBench(t)
		b.loop.take(b.slot, []byte(chunked(event, 300)+behind), b.loop.mark(b.slot, 0, b.loop.clock.Now()))
		if len(b.rows) != 1 || b.slot.fd >= 0 != kept {
			t.Errorf("%q behind it: %d rows, connection %d, kept %v; want %v", behind, len(b.rows), b.slot.fd, b.slot.fd >= 0, kept)
		}
		b.end()
	}
}

// end closes what a bench has open.
func (b *bench) end() {
	_ = unix.Close(b.peer)
	b.loop.run.helpers.Wait()
	b.loop.close()
}
