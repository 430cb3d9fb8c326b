package source

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/result"
)

// Limits of a source. They keep a slip in a plan from filling the memory; no
// single machine gets through as many requests in a trial.
const (
	MaxRequests    = 5_000_000
	MaxConcurrency = load.MaxConcurrency
	MaxRate        = arrivals.MaxRate
)

// The first numbers of requests that are no part of the load. They are above all
// others, since it is not known beforehand how many there will be.
const (
	FirstProbe       = 1 << 40
	firstTimedWarmup = 1 << 41
)

// Config is the load of one trial of one cell. The same values always
// make the same load: ids, prompts, arrival times.
type Config struct {
	// Phase is what of the load the source makes: the measured requests by default.
	//
	// Warmup is the requests before them: a closed loop of single requests with the
	// same kind of prompts, none of which the trial itself sends. Those before a trace
	// have its mean lengths. It ends at once if neither WarmupRequests nor
	// WarmupDuration is set.
	//
	// Probe is the requests of Probe beside them: an open loop that ends when the
	// load's own schedule does, or else after MaxRequests; the caller ends it with the
	// load. Their numbers begin at FirstProbe. It ends at once if Probe is not set.
	Phase result.Phase

	// Seed and Trial, with the amount of load, seed everything that is drawn by
	// chance, the same for all cells. The words of prompts are seeded by Cell too: no
	// prompt of one trial of one cell is made again for another.
	Seed  uint64
	Cell  string
	Trial int
	// Attempt is the try at this trial, from 1 (0 is 1). It changes the marker
	// at the start of each synthetic prompt and nothing else, so that a server
	// that outlived an earlier attempt knows none of them.
	Attempt int
	// Salt changes the same markers from run to run, for a server that outlives
	// the run. 0 for a server of the run's own.
	Salt uint64
	// Uncleared says that the server's prefix cache holds what was asked before
	// this trial: other entries of the prompts, the template, the system message.
	Uncleared bool

	// Concurrency makes a closed loop: so many slots, each of which sends its
	// next request when its last one has ended and ThinkTime has passed.
	Concurrency  int
	ThinkTime    time.Duration
	Conversation Conversation

	// Ramp is how long the load takes to be what it is meant to be, as far as that is
	// known beforehand. The slots of a closed loop begin evenly spread over it; at 0
	// all begin at once. In an open loop the requests that are due before its end
	// come on top of Requests, at most as many again; those of given prompts that may
	// not be used again do not, as their number must be known beforehand.
	Ramp time.Duration

	// Pace makes an open loop: requests are sent when they are due, even if earlier
	// ones are not answered yet. The load ends with it, if it has an end. A row of a
	// [trace.Replay] with lengths says how long a synthetic prompt is, and what is
	// asked for within MaxTokens.
	Pace arrivals.Pace
	// MaxInFlight bounds an open loop; 0 leaves it to the driver.
	MaxInFlight int

	// Requests, RequestsPerWorker (closed loop only) and Duration bound the
	// load: at least one of them must be set, unless Pace has an end, and the first that is reached ends it. Duration ends the sending: a slot sends nothing at or after that
	// time since the load began, and requests in flight go on to their end.
	// No context is needed for it.
	Requests          int
	RequestsPerWorker int
	Duration          time.Duration
	// WarmupRequests are sent before, by the source of that phase. Their ids
	// come first: the measured requests are numbered from WarmupRequests on.
	// WarmupDuration bounds them too; without WarmupRequests it alone does.
	WarmupRequests int
	WarmupDuration time.Duration
	// WarmupSlots is the concurrency of the warm-up of an open loop, which has none
	// of its own; 0 is 8. Shards divide it, and each has one at the least.
	WarmupSlots int
	// WarmupSent is how many requests of a warm-up by time this shard has sent before: the
	// source goes on behind them.
	WarmupSent int
	// WarmPrefixes gives the prompts of the warm-up the shared prefixes of the load,
	// in place of others: a prefix cache may know all of them when the load begins.
	WarmPrefixes bool

	// Probe is what is sent beside the load.
	Probe Probe
	// Cancel gives up a share of the measured requests on purpose.
	Cancel Cancel
	// Headers are sent with each request, the values as templates; see
	// [Config.CheckHeaders].
	Headers []load.Header

	// MaxTokens is asked for in each request; a prompt that brings a lower
	// bound of its own keeps that.
	MaxTokens int
	// Deadline bounds each request from its send; 0 is none.
	Deadline time.Duration
	// SampleSeed is sent with each request as it is; nil sends none.
	SampleSeed *uint64

	Prompts Prompts
	// Shard is the part of this load that the source makes. The zero value is
	// all of it.
	Shard Shard
}

// New makes the source of one phase of a trial. The error says what in the
// configuration cannot be.
func New(c Config) (load.Source, error) {
	src, err := c.source()
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	return src, nil
}

func (c Config) source() (load.Source, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	switch {
	case c.Phase == result.Probe:
		return newProbes(c), nil
	case c.Phase == result.Warmup:
		return newClosed(c.warmup()), nil
	case c.Phase != "":
		return nil, fmt.Errorf("no source makes the phase %q", c.Phase)
	case c.Pace != nil:
		return newOpen(c)
	}
	return newClosed(c), nil
}

// warmup returns the load before the measured one.
func (c Config) warmup() Config {
	if c.Pace != nil {
		c.Concurrency = max(cmp.Or(c.WarmupSlots, warmupSlots), c.Shard.Of)
	}
	if _, output := c.recorded(); c.MaxTokens == 0 {
		c.MaxTokens = output
	}
	c.Pace = nil
	c.ThinkTime, c.Ramp, c.Conversation, c.Cancel = 0, 0, Conversation{}, Cancel{}
	c.Requests, c.RequestsPerWorker, c.Duration = c.WarmupRequests, 0, c.WarmupDuration
	return c
}

// warmupSlots is the default of [Config.WarmupSlots].
const warmupSlots = 8

// check says what in the configuration cannot be, and fills in the length of
// prompts where a trace says it.
func (c *Config) check() error {
	open := c.Pace != nil
	bounded := c.Requests != 0 || c.RequestsPerWorker != 0 || c.Duration != 0
	switch {
	case !open && c.Concurrency == 0:
		return errors.New("neither concurrency nor a pace is set")
	case open && c.Concurrency != 0:
		return errors.New("concurrency makes a closed loop, and a pace makes an open one: only one can be")
	case c.Concurrency < 0 || c.Concurrency > MaxConcurrency:
		return fmt.Errorf("concurrency %d is not between 1 and %d", c.Concurrency, MaxConcurrency)
	case open && c.ThinkTime != 0:
		return errors.New("think time has no meaning in an open loop")
	case open && c.RequestsPerWorker != 0:
		return errors.New("requests per worker has no meaning in an open loop")
	case open && c.Conversation.Turns != 0:
		return errors.New("conversations have no meaning in an open loop: a turn is due when the one before it has ended")
	case c.Conversation.Turns < 0 || c.Conversation.Turns > MaxTurns:
		return fmt.Errorf("conversations of %d turns are not between 1 and %d", c.Conversation.Turns, MaxTurns)
	case !bounded && (!open || c.Pace.Length() == 0):
		return errors.New("nothing bounds the load: set requests or duration")
	case c.Requests != 0 && c.RequestsPerWorker != 0:
		return errors.New("requests and requests per worker say the same thing twice")
	case c.Requests < 0 || c.RequestsPerWorker < 0 || c.Duration < 0 || c.WarmupRequests < 0,
		c.WarmupDuration < 0, c.ThinkTime < 0, c.Ramp < 0, c.MaxInFlight < 0, c.MaxTokens < 0, c.Deadline < 0:
		return errors.New("a count or a time is negative")
	case c.Requests > MaxRequests, c.WarmupRequests > MaxRequests,
		c.RequestsPerWorker > MaxRequests/max(1, c.Concurrency):
		return fmt.Errorf("more than %d requests", MaxRequests)
	case !open && c.Concurrency < c.Shard.Of:
		return fmt.Errorf("a concurrency of %d cannot be split over %d shards", c.Concurrency, c.Shard.Of)
	}
	if err := errors.Join(
		c.checkPace(), c.Cancel.check(), c.Probe.check(), c.CheckHeaders(), c.Shard.check(),
	); err != nil {
		return err
	}
	if input, _ := c.recorded(); c.Prompts.InputTokens == 0 {
		c.Prompts.InputTokens = input
	}
	return c.Prompts.check(c.Needed())
}

// Needed returns how many prompts the load takes, the warm-up included, or -1 if
// only time bounds it. Of given prompts a conversation takes one. The schedule of
// an open loop is counted when it has been made: what Needed says of one that
// time alone bounds is its warm-up.
func (c *Config) Needed() int {
	n := 0
	switch {
	case c.WarmupDuration > 0 && c.WarmupRequests == 0:
		return -1
	case len(c.rows()) > 0:
		if n = len(c.rows()); c.Requests > 0 {
			n = min(n, c.Requests)
		}
	case c.Requests > 0:
		n, _ = c.conversations(c.Requests, c.WarmupRequests)
	case c.RequestsPerWorker > 0:
		n = c.led() * c.Concurrency
	case c.Pace == nil:
		return -1
	}
	return c.WarmupRequests + n
}

// jobs makes jobs from ids.
type jobs struct {
	phase     result.Phase
	shard     Shard
	first     int // number of the first request of this phase
	maxTokens int
	deadline  time.Duration
	seed      *uint64
	prompts   prompter
	cancel    picker
	headers   headers
}

func (c *Config) jobs() jobs {
	first, phase := c.WarmupRequests, c.Phase
	switch {
	case phase == result.Probe:
		first = FirstProbe
	case phase == result.Warmup && c.WarmupRequests == 0:
		first = firstTimedWarmup
	case phase == result.Warmup:
		first = 0
	}
	return jobs{
		phase: phase, shard: c.Shard, first: first, maxTokens: c.MaxTokens,
		deadline: c.Deadline, seed: c.SampleSeed, prompts: c.prompter(phase),
		cancel: c.picker(phase), headers: c.headers(phase),
	}
}

// make makes request id of this phase, a part of a conversation. What is asked
// for are a's tokens and those of all requests, whichever are fewer.
func (m *jobs) make(id, slot, conversation int, a ask) load.Job {
	a.n = m.first + id
	if a.maxTokens == 0 || m.maxTokens > 0 && m.maxTokens < a.maxTokens {
		a.maxTokens = m.maxTokens
	}
	p, tokens := m.prompts.prompt(a)
	j := load.Job{
		N: a.n, Shard: m.shard.Index, Slot: slot, Turn: a.turn, Phase: m.phase,
		Prompt: p, MaxTokens: tokens, Seed: m.seed, Deadline: m.deadline,
		CancelAfter: m.cancel.after(id),
	}
	j.Headers = m.headers.of(&j, m.shard.id(slot), conversation)
	return j
}

// A Shard is one of Of equal parts of a load. Request g of the whole belongs to
// shard g mod Of; slots and bounds are divided as evenly as they can be, the
// first shards taking what is left. All shards together send exactly what the
// undivided load would.
type Shard struct{ Index, Of int }

func (s Shard) check() error {
	if s == (Shard{}) || s.Of > 0 && s.Index >= 0 && s.Index < s.Of {
		return nil
	}
	return fmt.Errorf("shard %d of %d does not exist: they are numbered from 0", s.Index, s.Of)
}

// Part returns this shard's share of n.
func (s Shard) Part(n int) int {
	of := max(1, s.Of)
	if n > math.MaxInt-of {
		return n / of
	}
	return (n + of - 1 - s.Index) / of
}

// id returns the number in the whole load of this shard's nth.
func (s Shard) id(n int) int { return n*max(1, s.Of) + s.Index }

// Check returns the error of New for any phase, in a time that does not grow with
// the load: it makes a schedule only if the number of given prompts depends on
// it.
func (c Config) Check() error {
	c.Phase = ""
	if c.Pace != nil && len(c.Prompts.Entries) > 0 && !c.Prompts.Reuse {
		_, err := New(c)
		return err
	}
	err := c.check()
	if err == nil {
		err = c.expectable()
	}
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return nil
}
