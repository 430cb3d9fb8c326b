package load

import (
	"context"
	"time"

	"sweep.dev/sweep/result"
)

// A Job is one request to send.
type Job struct {
	// N and Shard name the request within its trial, the warm-up included. N
	// alone is unique too: shards divide the numbers of the whole load.
	N     int
	Shard int
	Slot  int // the closed-loop slot, from 0 in each shard
	Turn  int
	Phase result.Phase // Warmup, or "" for a measured request

	// At is the offset from the driver's start at which to send, in an open
	// loop; in a closed loop it is the think time after the slot's previous
	// request ended.
	At time.Duration

	Prompt    Prompt
	MaxTokens int
	// Seed of the request's own sampling, where the plan gives one.
	Seed *uint64
	// Deadline bounds the request from its send; 0 means none.
	Deadline time.Duration
}

// A Prompt is what is asked.
type Prompt struct {
	System string
	// Turns are user and assistant messages by turns, the user's first and last.
	Turns []string
	// Target is the number of input tokens that the prompt was made for;
	// result.Unknown where nobody said.
	Target int
}

// A Source says what each slot sends next: schedule and prompts, seeded, with
// no clock and no I/O, so that the same plan and seed give the same load. It is
// called from one goroutine at a time. Sources are split into shards before
// they are made, never while they run.
type Source interface {
	// Loop says how the driver must use this source.
	Loop() Loop
	// Next returns what slot sends next; prev is the slot's last request, nil
	// at first. In an open loop there is one slot, 0, prev is always nil, and
	// jobs come in the order of At. False ends the slot.
	Next(slot int, prev *result.Request) (Job, bool)
}

// Loop is the shape of a source.
type Loop struct {
	Open  bool
	Slots int // closed loop: requests in flight at once; 1 in an open loop
	// MaxInFlight bounds an open loop; 0 is the driver's own limit. A job that
	// would pass it waits, and its lateness is in its Sent - Scheduled.
	MaxInFlight int
}

// A Recorder takes the requests of a trial as they end. Record is called by
// one goroutine at a time and must not block.
type Recorder interface{ Record(result.Request) }

// A Driver sends what a source says and records what came back.
type Driver interface {
	// Run returns when the source has ended, or when ctx is done: then it
	// sends nothing new and lets requests in flight end by drain; what is left
	// after that is cancelled and recorded as such. Every job that it took from the source
	// is recorded exactly once. The error is the driver's own; a failed
	// request is no error.
	Run(ctx context.Context, src Source, rec Recorder, opts Options) (Health, error)
}

// Options of one run of a driver.
type Options struct {
	Anchor result.Anchor // the trial's clock
	Drain  time.Duration // how long requests in flight may go on once ctx is done
	// RequestID is the prefix of each request's X-Request-Id header, which
	// becomes <RequestID>-s<shard>-n<n>: an engine's log can be held against
	// the rows. "" sends none.
	RequestID string
	// Progress, if not nil, is called about four times a second, by one
	// goroutine at a time, and once more at the end.
	Progress func(Progress)
}

// Progress is what a person wants to see while a trial runs.
type Progress struct {
	Sent         int `json:"sent"`
	Done         int `json:"done"`
	Failed       int `json:"failed"`
	InFlight     int `json:"in_flight"`
	OutputTokens int `json:"output_tokens"`
}

// Health is what the client knows of itself after a run.
type Health struct {
	CPU         float64       // share of the CPUs it may use, 0 to 1
	MaxGap      time.Duration // longest time by which its own 50 ms ticker was late: a stopped or starved process
	StampKind   string        // how chunks were stamped: "user"
	NetworkPath string

	// Chunks counts the events with a choice that were received, and Coalesced
	// those of them that came out of the same read as an earlier one, whose
	// stamp they share.
	Chunks, Coalesced int
	// ColdDials counts the connections that a request had to wait for because
	// none was open: their time is in its Sent - Scheduled.
	ColdDials int
}
