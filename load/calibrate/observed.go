package calibrate

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/nullserver"
	"sweep.dev/sweep/result"
)

// observed is what one load left.
type observed struct {
	anchor result.Anchor
	rows   rows
	health load.Health
	watch  *cpuWatch

	received []time.Duration // of all chunks with content, in order; made when it is asked for
}

// times returns the receive times of a stream's chunks with content: between the
// role and the finish, each of which is an event of its own.
func (o *observed) times(r *result.Request) []time.Duration {
	var list []time.Duration
	us := r.Sent.Microseconds()
	for i, d := range r.ChunkUS {
		us += int64(d)
		if i >= r.FirstTokenChunk && r.FirstTokenChunk >= 0 {
			list = append(list, time.Duration(us)*time.Microsecond)
		}
	}
	if n := len(list); n > 0 && r.FinishReason != "" {
		list = list[:n-1]
	}
	return list
}

// errors holds the receive times of the streams whose text was kept against
// the times in it. Receive times are kept in whole microseconds, cut off: half
// of one stands for what is missing.
func (o *observed) errors() ([]time.Duration, error) {
	zero := nullserver.Clock(o.anchor.Start)
	var list []time.Duration
	for i := range o.rows {
		r := &o.rows[i]
		if r.Answer == "" {
			continue
		}
		sent, err := nullserver.Stamps(r.Answer)
		if err != nil {
			return nil, err
		}
		times := o.times(r)
		if len(sent) != len(times) && r.Status == result.Completed {
			return nil, fmt.Errorf("stream %d: %d chunks were recorded, and %d are in its text", r.N, len(times), len(sent))
		}
		for k, at := range times[:min(len(times), len(sent))] {
			list = append(list, max(0, at+time.Microsecond/2-time.Duration(sent[k]-zero)))
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no chunk can be held against its send time: %s", o.complaint())
	}
	return list, nil
}

// steady is from when all streams have begun until the first of them ends.
func (o *observed) steady() (from, to time.Duration) {
	to = 1<<63 - 1
	for i := range o.rows {
		if r := &o.rows[i]; r.FirstToken != result.Never {
			from, to = max(from, r.FirstToken), min(to, r.LastToken)
		}
	}
	return from, max(from, to)
}

func (o *observed) all() []time.Duration {
	if o.received == nil {
		for i := range o.rows {
			o.received = append(o.received, o.times(&o.rows[i])...)
		}
		slices.Sort(o.received)
	}
	return o.received
}

// count returns how many chunks came from from to to.
func (o *observed) count(from, to time.Duration) int {
	i, _ := slices.BinarySearch(o.all(), from)
	k, _ := slices.BinarySearch(o.all(), to)
	return max(0, k-i)
}

// A step is what was seen of one stretch of a load.
type step struct {
	n         int
	rate      float64 // chunks per second
	coalesced int
	cpu       float64 // CPUs in use
}

// step looks at a stretch. Chunks of a stream that came out of one read have
// the same receive time; the server leaves microseconds between any two.
func (o *observed) step(from, to time.Duration) step {
	s := step{n: o.count(from, to)}
	if s.n == 0 {
		return s
	}
	for i := range o.rows {
		r := &o.rows[i]
		us := r.Sent.Microseconds()
		for k, d := range r.ChunkUS {
			us += int64(d)
			if at := time.Duration(us) * time.Microsecond; d == 0 && k > r.FirstTokenChunk && at >= from && at < to {
				s.coalesced++
			}
		}
	}
	s.rate = float64(s.n) / (to - from).Seconds()
	if cpu, ok := o.watch.cpu(from, to); ok {
		s.cpu = cpu.Seconds() / (to - from).Seconds()
	}
	return s
}

// complaint returns what the first stream that failed says.
func (o *observed) complaint() string {
	for _, r := range o.rows {
		if r.Error != "" {
			return r.ErrorClass + " " + r.Error
		}
	}
	return fmt.Sprintf("%d streams ended", len(o.rows))
}

// A cpuWatch notes how much CPU this process has used, now and then.
type cpuWatch struct {
	anchor result.Anchor
	looks  []look
	done   chan struct{}
	wg     sync.WaitGroup
}

type look struct{ at, used time.Duration }

const lookEvery = 10 * time.Millisecond

func watch(a result.Anchor) *cpuWatch {
	w := &cpuWatch{anchor: a, done: make(chan struct{})}
	w.wg.Go(func() {
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		for {
			w.looks = append(w.looks, look{a.Since(), load.CPUTime()})
			select {
			case <-w.done:
				return
			case <-t.C:
			}
		}
	})
	return w
}

func (w *cpuWatch) stop() {
	close(w.done)
	w.wg.Wait()
}

// cpu returns what was used from from to to, by the looks next to them. It is not
// known if there are none.
func (w *cpuWatch) cpu(from, to time.Duration) (time.Duration, bool) {
	nearest := func(at time.Duration) int {
		i, _ := slices.BinarySearchFunc(w.looks, at, func(l look, at time.Duration) int { return int(l.at - at) })
		return min(i, len(w.looks)-1)
	}
	if len(w.looks) == 0 {
		return 0, false
	}
	a, b := w.looks[nearest(from)], w.looks[nearest(to)]
	if b.at <= a.at || b.used <= a.used {
		return 0, false
	}
	share := float64(to-from) / float64(b.at-a.at)
	return time.Duration(share * float64(b.used-a.used)), true
}
