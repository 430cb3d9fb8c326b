package source

import (
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
	MaxRate        = 1e6 // requests per second
)

// coldRetry is how long a closed-loop slot waits after it could not connect.
// Without it a server that is down would be asked as fast as a CPU can, and a
// trial by time would end with millions of failed rows.
const coldRetry = 100 * time.Millisecond

// Config is the load of one trial of one cell. The same values always
// make the same load: ids, prompts, arrival times.
type Config struct {
	// Seed, Cell and Trial seed everything that is drawn by chance. No prompt
	// of one trial of one cell is made again for another.
	Seed  uint64
	Cell  string
	Trial int
	// Attempt is the try at this trial, from 1 (0 is 1). It changes the marker
	// at the start of each synthetic prompt and nothing else, so that a server
	// that outlived an earlier attempt knows none of them.
	Attempt int

	// Concurrency makes a closed loop: so many slots, each of which sends its
	// next request when its last one has ended and ThinkTime has passed.
	Concurrency int
	ThinkTime   time.Duration

	// RequestRate makes an open loop, in requests per second: requests are
	// sent when they are due, whatever became of the earlier ones.
	RequestRate float64
	Arrivals    Arrivals // default Poisson
	// Burstiness is the shape of Gamma arrivals: 1 is Poisson, below 1 is
	// burstier, above 1 is more even. The default is 1.
	Burstiness float64
	// MaxInFlight bounds an open loop; 0 leaves it to the driver.
	MaxInFlight int

	// Requests, RequestsPerWorker (closed loop only) and Duration bound the
	// load: at least one of them must be set, the first that is reached ends
	// it. Duration ends the sending: a slot sends nothing at or after that
	// time since its first send, and requests in flight go on to their end.
	// No context is needed for it.
	Requests          int
	RequestsPerWorker int
	Duration          time.Duration
	// WarmupRequests are sent before, by the source of NewWarmup. Their ids
	// come first: the measured requests are numbered from WarmupRequests on.
	WarmupRequests int

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

// New makes the source of a trial's measured requests. The error says
// what in the configuration cannot be.
func New(c Config) (load.Source, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	if c.RequestRate > 0 {
		return newOpen(c)
	}
	return newClosed(c, "")
}

// NewWarmup makes the source of the requests that are sent before a trial is
// measured: a closed loop of the same kind of prompts, none of which the trial
// itself sends. It ends at once where WarmupRequests is 0.
func NewWarmup(c Config) (load.Source, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	if c.RequestRate > 0 {
		c.Concurrency = warmupSlots * max(1, c.Shard.Of)
	}
	c.RequestRate, c.ThinkTime = 0, 0
	c.Requests, c.RequestsPerWorker, c.Duration = c.WarmupRequests, 0, 0
	return newClosed(c, result.Warmup)
}

// warmupSlots is the concurrency of the warm-up of an open loop, which has
// none of its own.
const warmupSlots = 8

func (c *Config) check() error {
	open := c.RequestRate != 0
	switch {
	case c.Concurrency == 0 && !open:
		return errors.New("neither concurrency nor request rate is set")
	case c.Concurrency != 0 && open:
		return errors.New("concurrency makes a closed loop and request rate an open one: only one can be")
	case c.Concurrency < 0 || c.Concurrency > MaxConcurrency:
		return fmt.Errorf("concurrency %d is not between 1 and %d", c.Concurrency, MaxConcurrency)
	case open && !(c.RequestRate > 0 && c.RequestRate <= MaxRate):
		return fmt.Errorf("request rate %g is not between 0 and %g a second", c.RequestRate, float64(MaxRate))
	case open && c.ThinkTime != 0:
		return errors.New("think time has no meaning in an open loop")
	case open && c.RequestsPerWorker != 0:
		return errors.New("requests per worker has no meaning in an open loop")
	case c.Requests == 0 && c.RequestsPerWorker == 0 && c.Duration == 0:
		return errors.New("nothing bounds the load: set requests or duration")
	case c.Requests != 0 && c.RequestsPerWorker != 0:
		return errors.New("requests and requests per worker say the same thing twice")
	case c.Requests < 0 || c.RequestsPerWorker < 0 || c.Duration < 0 || c.WarmupRequests < 0,
		c.ThinkTime < 0, c.MaxInFlight < 0, c.MaxTokens < 0, c.Deadline < 0:
		return errors.New("a count or a time is negative")
	case c.Requests > MaxRequests, c.WarmupRequests > MaxRequests,
		c.RequestsPerWorker > MaxRequests/max(1, c.Concurrency):
		return fmt.Errorf("more than %d requests", MaxRequests)
	}
	if err := c.process().Check(); err != nil {
		return err
	}
	if err := c.Shard.check(); err != nil {
		return err
	}
	if !open && c.Concurrency < c.Shard.Of {
		return fmt.Errorf("a concurrency of %d cannot be split over %d shards", c.Concurrency, c.Shard.Of)
	}
	return c.Prompts.check(c.count())
}

// count is how many prompts the whole load may need, the warm-up included, or
// -1 where only time bounds it. The schedule of an open loop by time is counted
// when it has been made.
func (c *Config) count() int {
	switch {
	case c.Requests > 0:
		return c.WarmupRequests + c.Requests
	case c.RequestsPerWorker > 0:
		return c.WarmupRequests + c.RequestsPerWorker*c.Concurrency
	case c.RequestRate > 0:
		return c.WarmupRequests
	default:
		return -1
	}
}

func (c *Config) process() arrivals.Process {
	return arrivals.Process{Kind: c.Arrivals, Burstiness: c.Burstiness}
}

// An openLoop is a schedule that was made before the first send.
type openLoop struct {
	jobs  jobs
	shard Shard
	at    []time.Duration // of this shard
	limit int
	next  int
}

func newOpen(c Config) (*openLoop, error) {
	n := c.Requests
	if n == 0 {
		n = MaxRequests
		if expected := c.RequestRate * c.Duration.Seconds(); expected > MaxRequests/2 {
			return nil, fmt.Errorf("load: %g requests a second for %s are more than %d requests", c.RequestRate, c.Duration, MaxRequests/2)
		}
	}
	all := c.process().Schedule(c.rng("arrivals"), []arrivals.Stage{{Rate: c.RequestRate}}, n, c.Duration)
	// A pool of prompts that may not be used again must hold the schedule.
	if err := c.Prompts.check(len(all) + c.WarmupRequests); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	s := &openLoop{jobs: c.jobs(""), shard: c.Shard, limit: c.Shard.part(c.MaxInFlight)}
	if c.MaxInFlight > 0 {
		s.limit = max(1, s.limit)
	}
	s.at = make([]time.Duration, 0, c.Shard.part(len(all)))
	for g := c.Shard.Index; g < len(all); g += max(1, c.Shard.Of) {
		s.at = append(s.at, all[g])
	}
	return s, nil
}

// Loop implements [load.Source].
func (s *openLoop) Loop() load.Loop { return load.Loop{Open: true, Slots: 1, MaxInFlight: s.limit} }

// Next implements [load.Source].
func (s *openLoop) Next(int, *result.Request) (load.Job, bool) {
	if s.next == len(s.at) {
		return load.Job{}, false
	}
	j := s.jobs.make(s.shard.id(s.next), 0)
	j.At = s.at[s.next]
	s.next++
	return j, true
}

// A closedLoop is a number of slots that share a number of requests.
type closedLoop struct {
	jobs  jobs
	shard Shard
	slots []slot

	total     int // requests of this shard; -1 where none is set
	perWorker int // 0 where none is set
	workers   int // of all shards
	duration  time.Duration
	think     time.Duration
	next      int
}

type slot struct {
	sent  int
	begun time.Duration // when the slot's first request was due
}

func newClosed(c Config, phase result.Phase) (*closedLoop, error) {
	s := &closedLoop{
		jobs: c.jobs(phase), shard: c.Shard, slots: make([]slot, c.Shard.part(c.Concurrency)),
		total: -1, perWorker: c.RequestsPerWorker, workers: c.Concurrency,
		duration: c.Duration, think: c.ThinkTime,
	}
	if c.Requests > 0 || phase == result.Warmup {
		s.total = c.Shard.part(c.Requests)
	}
	return s, nil
}

// Loop implements [load.Source].
func (s *closedLoop) Loop() load.Loop { return load.Loop{Slots: len(s.slots)} }

// Next implements [load.Source].
//
// Time is told by the requests themselves: a slot begins when its first
// request was due, and its next one is due when the last has ended.
func (s *closedLoop) Next(n int, prev *result.Request) (load.Job, bool) {
	slot := &s.slots[n]
	pause := time.Duration(0)
	if prev != nil {
		if slot.sent == 1 {
			slot.begun = prev.Scheduled
		}
		pause = s.think
		if prev.ErrorClass == result.ErrConnect {
			pause = max(pause, coldRetry)
		}
		if s.duration > 0 && prev.End+pause-slot.begun >= s.duration {
			return load.Job{}, false
		}
	}
	var id int
	switch {
	case s.next == s.total, s.perWorker > 0 && slot.sent == s.perWorker:
		return load.Job{}, false
	case s.perWorker > 0:
		// By slot and not in the order of the moment, so that the ids of all
		// shards together are those of the whole.
		id = slot.sent*s.workers + s.shard.id(n)
	default:
		id = s.shard.id(s.next)
	}
	s.next++
	slot.sent++
	j := s.jobs.make(id, n)
	j.At = pause
	return j, true
}

// jobs makes jobs from ids.
type jobs struct {
	phase     result.Phase
	shard     int
	first     int // id of the first request of this phase
	maxTokens int
	deadline  time.Duration
	seed      *uint64
	prompts   prompter
}

func (c *Config) jobs(phase result.Phase) jobs {
	first := c.WarmupRequests
	if phase == result.Warmup {
		first = 0
	}
	return jobs{
		phase: phase, shard: c.Shard.Index, first: first, maxTokens: c.MaxTokens,
		deadline: c.Deadline, seed: c.SampleSeed, prompts: c.prompter(phase),
	}
}

func (m *jobs) make(id, slot int) load.Job {
	n := m.first + id
	p, tokens := m.prompts.prompt(ask{n: n, entry: n, maxTokens: m.maxTokens})
	return load.Job{
		N: n, Shard: m.shard, Slot: slot, Phase: m.phase,
		Prompt: p, MaxTokens: tokens, Seed: m.seed, Deadline: m.deadline,
	}
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

// part is this shard's share of n.
func (s Shard) part(n int) int {
	of := max(1, s.Of)
	if n > math.MaxInt-of {
		return n / of
	}
	return (n + of - 1 - s.Index) / of
}

// id is the number in the whole load of this shard's nth.
func (s Shard) id(n int) int { return n*max(1, s.Of) + s.Index }
