// Package shard divides a load over several clients and puts their records together
// again, exactly.
//
// Each client makes the whole load and sends its part ([source.Shard]): request k of an
// open loop goes to client k mod N, slot s of a closed loop is at client s mod N, and a
// conversation stays at one client. So one client and four send the same requests.
//
// The records keep every time as it was measured: percentiles are those of all requests,
// never a mean of percentiles. Each client has a clock of its own. Its instants are moved
// by one offset onto the clock of the trial, which changes no latency.
//
// It has no clock and does no I/O.
package shard

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
)

// Most bounds the clients of one load.
const Most = 64

// Clients returns how many of the clients a load can be divided over: a closed loop has one
// slot for each at the least.
func Clients(c source.Config, clients int) int {
	if c.Pace == nil && c.Phase != result.Probe {
		clients = min(clients, c.Concurrency)
	}
	return max(1, clients)
}

// Of returns the part of a load that one of so many clients sends, counted from 0.
func Of(c source.Config, index, clients int) source.Config {
	c.Shard = source.Shard{Index: index, Of: clients}
	return c
}

// grain is what chunk times are whole multiples of ([result.Request.ChunkUS]).
const grain = time.Microsecond

// Offset returns what is added to instants of a client's clock, for an offset that was
// measured: whole microseconds, so that the chunk times stay exact.
func Offset(measured time.Duration) time.Duration { return measured.Round(grain) }

// Move adds offset to the instants of a request.
func Move(r *result.Request, offset time.Duration) {
	for _, at := range []*time.Duration{
		&r.Scheduled, &r.Sent, &r.FirstByte, &r.FirstToken, &r.FirstOutput, &r.LastToken, &r.End,
	} {
		if *at != result.Never {
			*at += offset
		}
	}
}

// Sort puts the records of all clients in one order: by when a request was due, then by
// when it was sent, then by its number.
func Sort(all []result.Request) {
	slices.SortFunc(all, func(a, b result.Request) int {
		return cmp.Or(cmp.Compare(a.Scheduled, b.Scheduled), cmp.Compare(a.Sent, b.Sent), cmp.Compare(a.N, b.N), cmp.Compare(a.Shard, b.Shard))
	})
}

// Check returns an error if the records cannot be those of so many clients: one is not of
// them, or two have the same number, which means that a request was sent twice.
func Check(all []result.Request, clients int) error {
	seen := make(map[int]int, len(all)) // shard by number
	for i := range all {
		r := &all[i]
		if r.Shard < 0 || r.Shard >= clients {
			return fmt.Errorf("request %d is of client %d, and there are %d", r.N, r.Shard, clients)
		}
		if other, ok := seen[r.N]; ok {
			return fmt.Errorf("request %d was sent twice, by clients %d and %d", r.N, other, r.Shard)
		}
		seen[r.N] = r.Shard
	}
	return nil
}
