package worker

import (
	"context"
	"time"
)

// probes is how many round trips a clock is asked by, of which the fastest counts.
const probes = 12

// An offset is what a client's instants and those of the trial differ by.
type offset struct {
	By    time.Duration // added to the client's instants it makes the trial's
	Error time.Duration // of By, at most: half of the round trip
	Wall  time.Duration // by how much the client's wall clock is ahead of ours
}

// A look is one answer of a client's clock, and our own clock before and after it.
type look struct {
	from, to time.Duration // of the trial's clock
	wall     int64         // ours, at from
	theirs   reading
}

// offset takes the answer as read in the middle of the round trip. It was read within it,
// so that is wrong by half of it at most.
func (l *look) offset() offset {
	half := (l.to - l.from) / 2
	return offset{
		By: l.from + half - l.theirs.Mono, Error: half,
		Wall: time.Duration(l.theirs.Wall - l.wall - int64(half)),
	}
}

// tightest returns the offset of the fastest round trip of several.
func tightest(looks []look) offset {
	best := looks[0]
	for _, l := range looks[1:] {
		if l.to-l.from < best.to-best.from {
			best = l
		}
	}
	return best.offset()
}

// probe asks a client's clock.
func (c *peer) probe(ctx context.Context, now func() time.Duration) (offset, error) {
	looks := make([]look, 0, probes)
	for range probes {
		l := look{wall: time.Now().UnixNano(), from: now()}
		if err := c.ask(ctx, "GET", pathClock, nil, &l.theirs); err != nil {
			return offset{}, err
		}
		l.to = now()
		looks = append(looks, l)
	}
	return tightest(looks), nil
}
