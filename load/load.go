package load

import (
	"context"
	"time"

	"sweep.dev/sweep/result"
)

// MaxConcurrency bounds the requests in flight at once.
const MaxConcurrency = 65_536

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
	// request ended, or the pause after its failure if that is longer.
	At time.Duration
	// Paused is the part of At, beyond the think time, by which a closed loop's
	// slot waits because its previous request failed.
	Paused time.Duration

	Prompt    Prompt
	MaxTokens int
	// Seed of the request's own sampling, where the plan gives one.
	Seed *uint64
	// Deadline bounds the request from its send; 0 means none.
	Deadline time.Duration
	// CancelAfter gives the request up that long after its send, on purpose; 0
	// does not. It is recorded as Cancelled and Planned.
	CancelAfter time.Duration
	// Headers of this request alone, over those of all.
	Headers []Header
	// KeepAnswer asks for the text of the answer, for the next turn of a
	// conversation. It costs an allocation per chunk.
	KeepAnswer bool
}

// A Header is one field of a request's head.
type Header struct{ Name, Value string }

// A Prompt is what is asked.
type Prompt struct {
	System string
	// Turns are user and assistant messages by turns, the user's first and last.
	Turns []string
	// Target is the number of input tokens that the prompt was made for;
	// result.Unknown if none was asked for.
	Target int
}

// A Source says what each slot sends next: schedule and prompts, seeded, with
// no clock and no I/O, so that the same plan and seed give the same load. Only given
// prompts that are too many for the memory are read from their file. It is
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
	// Begin, if not nil, is called once, when connections are open and the first requests
	// are ready. It returns the offset from the anchor at which the schedule begins, and may
	// wait until that is known. Nil begins at once.
	Begin func(context.Context) time.Duration
	// Progress, if not nil, is called about four times a second, by one
	// goroutine at a time, and once more at the end.
	Progress func(Progress)
}

// Start waits until the schedule of a run may begin and returns when it does. Drivers
// call it once.
func (o *Options) Start(ctx context.Context) time.Duration {
	if o.Begin == nil {
		return o.Anchor.Since()
	}
	return o.Begin(ctx)
}

// Progress is the state of a trial for a display while it runs.
type Progress struct {
	Sent         int `json:"sent"`
	Done         int `json:"done"`
	Failed       int `json:"failed"`
	InFlight     int `json:"in_flight"`
	OutputTokens int `json:"output_tokens"`
	// TTFTP95MS is the 95th percentile of the time to first token, in milliseconds, of
	// the last requests that completed; nil if none has. A driver leaves it nil.
	TTFTP95MS *float64 `json:"p95_ttft_ms,omitempty"`
}

// Health holds the client's figures on itself after a run: the evidence on which its
// numbers are judged. A driver fills in the fields that it can measure.
type Health struct {
	Client      string // which driver: "std", "fast"
	StampKind   string // see [StampKind]
	NetworkPath string

	CPU    float64       // share of the CPUs it may use, 0 to 1
	MaxGap time.Duration // longest time by which its own 50 ms ticker was late: a stopped or starved process
	// Loop is the largest share of the time in which an event loop was busy, 0
	// to 1; 0 if there is none.
	Loop float64

	// Chunks counts the events with a choice that were received, Reads the reads
	// that brought some, and Coalesced the chunks with a token that came out of
	// the same read as the one before.
	Chunks, Reads, Coalesced int
	// Lag is how long after the kernel's stamp of its last segment a read
	// returned: the error that a client without kernel stamps would make. Empty
	// if there are no such stamps.
	Lag Durations
	// StampError bounds by how much a coalesced chunk's time may be too late.
	StampError time.Duration
	// RTT is the round trip of the connections in use, as TCP estimates it,
	// before and during the load. Empty if it cannot be asked for.
	RTT Durations

	// ColdDials counts the connections that a request had to wait for because
	// none was open: their time is in its Sent - Scheduled. Reopened counts those
	// of them that took the place of one that the server had closed.
	ColdDials, Reopened int
	// Retransmits counts the segments that TCP had to send again.
	Retransmits int
	// ClockSteps are the moments at which the wall clock jumped against the
	// monotonic one, by more than 50 us.
	ClockSteps []ClockStep
	// Shards is what is known of each of the clients that sent a load together; nil if
	// this process sent it alone.
	Shards []ShardHealth
}

// A ShardHealth is how one of several clients took part in a run.
type ShardHealth struct {
	Shard int `json:"shard"`
	// Lost says why the client did not come to its end: its part of the load is missing.
	// "" if it did.
	Lost     string `json:"lost,omitempty"`
	Requests int    `json:"requests"` // that it recorded, and all of which came here
	// SHA256 is the digest of the records as the client sent them, in hex.
	SHA256 string `json:"sha256,omitempty"`

	// Offset is what was added to its instants to have them on the trial's clock, known
	// to within OffsetError; both are measured before the load. Drift is by how much it
	// had changed after it, and DriftError the error of that.
	Offset      time.Duration `json:"offset_ns"`
	OffsetError time.Duration `json:"offset_error_ns"`
	Drift       time.Duration `json:"drift_ns"`
	DriftError  time.Duration `json:"drift_error_ns"`
	// Wall is by how much its wall clock is ahead of this machine's.
	Wall time.Duration `json:"wall_ns"`

	// Late is how long after the agreed moment its schedule began.
	Late time.Duration `json:"late_ns"`
	// Throttled counts the periods in which the kernel held the client's cgroup back at
	// its CPU limit (nr_throttled of cpu.stat); nil if the kernel does not say.
	Throttled *int          `json:"throttled_periods"`
	MaxGap    time.Duration `json:"max_stall_ns"`
	CPU       float64       `json:"cpu"`
}

// A ClockStep is one jump of the wall clock.
type ClockStep struct {
	At time.Duration // offset from the trial's anchor at which it was seen
	By time.Duration
}

// StampKind names how so many answers were stamped: [result.StampKernel],
// [result.StampUser], "mixed", or "" if there were none.
func StampKind(kernel, user int) string {
	switch {
	case kernel == 0 && user == 0:
		return ""
	case user == 0:
		return result.StampKernel
	case kernel == 0:
		return result.StampUser
	}
	return "mixed"
}
