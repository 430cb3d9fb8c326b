package core

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// A Request is one sequence to generate.
type Request struct {
	Prompt    []uint32
	MaxTokens int // at least 1; Prompt and MaxTokens together fit MaxModelLen
	// StopAt is the number of tokens after which the model stops by itself; 0
	// or more than MaxTokens is never.
	StopAt int
	// Token is the i-th generated token. Nil is a constant.
	Token func(i int) uint32
	// Received is how many tokens of Prompt need not be computed: their cache
	// has come from another engine. A preemption loses it.
	Received int
	// Known is how many tokens of Prompt count as found in the prefix cache,
	// whatever it holds: what goes wrong on purpose. A preemption loses it.
	Known int
}

// A Finish is why a sequence ended.
type Finish string

// The reasons.
const (
	Running Finish = ""
	Stop    Finish = "stop"
	Length  Finish = "length"
)

// A Timing is one sequence's life, in virtual time.
type Timing struct {
	Arrived   time.Duration
	Scheduled time.Duration // first, at the start of a step
	First     time.Duration // first token
	Last      time.Duration // latest token
}

// An Output is one token.
type Output struct {
	ID     int
	N      int // tokens so far
	Gap    time.Duration
	Finish Finish
	Timing
	Prompt      int // tokens
	Cached      int // prompt tokens that were in the prefix cache
	Preemptions int
}

// A Step is what the engine is computing.
type Step struct {
	Start, End time.Duration
	Work
	Cost
	Prefill   int // tokens computed that were not decoded one at a time
	Decode    int
	Sequences int
}

// Stats are the engine's counters.
type Stats struct {
	Running, Waiting int
	KVUsage          float64

	PrefixQueries, PrefixHits int // prompt tokens
	Preemptions               int
	PromptTokens              int // cached ones too
	GenerationTokens          int
	Steps                     int
	Busy                      time.Duration // time in steps
	Memory, Compute           time.Duration // busy time of the memory and the arithmetic
}

type sequence struct {
	id  int
	req Request
	// tokens is the prompt and what was generated; computed of them are in the
	// cache. One that was preempted starts again at 0 with all its tokens.
	tokens   []uint32
	computed int
	n        int // generated
	planned  int // computed by the step under way

	blocks []int32
	hashes []uint64

	timing      Timing
	cached      int
	preemptions int
	started     bool
}

// An Engine schedules sequences onto a machine, in virtual time. The caller
// alternates Begin and End, and calls everything from one goroutine.
//
//	Add ─▶ waiting ─▶ running ─▶ Output ... Output{Finish}
//	          ▲          │
//	          └─ preempt ┘ (no block is free: the latest sequence starts again)
type Engine struct {
	cfg     Config
	cache   *cache
	rand    *rand.Rand
	waiting []*sequence // in order of arrival, preempted ones first
	running []*sequence // in order of admission
	batch   []*sequence // of the step under way
	out     []Output    // of the last step
	step    Step
	nextID  int
	stats   Stats
	busy    time.Duration // since the beginning, whatever the counters say
}

// New makes an idle engine.
func New(cfg Config) *Engine {
	return &Engine{
		cfg:   cfg,
		cache: newCache(cfg.Blocks, cfg.PrefixCaching),
		rand:  rand.New(rand.NewPCG(cfg.Seed, 0x5eed)),
	}
}

// Add puts a request into the queue and returns its id, from 1 upwards.
func (e *Engine) Add(now time.Duration, r Request) int {
	e.nextID++
	e.waiting = append(e.waiting, &sequence{
		id: e.nextID, req: r,
		tokens: slices.Clip(slices.Clone(r.Prompt)),
		timing: Timing{Arrived: now},
	})
	return e.nextID
}

// Abort takes a sequence out, between End and Begin. One that is not there any
// more is no error: it has ended.
func (e *Engine) Abort(id int) {
	is := func(s *sequence) bool { return s.id == id }
	if i := slices.IndexFunc(e.running, is); i >= 0 {
		e.cache.release(e.running[i].blocks)
		e.running = slices.Delete(e.running, i, i+1)
	}
	e.waiting = slices.DeleteFunc(e.waiting, is)
}

// ResetPrefixCache empties the prefix cache; false if sequences are using it.
func (e *Engine) ResetPrefixCache() bool { return e.cache.reset() }

// Forget sets the counters to nothing, as a new process has them.
func (e *Engine) Forget() { e.stats = Stats{} }

// Stats returns the counters at this moment.
func (e *Engine) Stats() Stats {
	s := e.stats
	s.Running, s.Waiting = len(e.running), len(e.waiting)
	s.KVUsage = e.cache.usage()
	return s
}

// Begin schedules one step that starts now. It returns false if there is
// nothing to do.
func (e *Engine) Begin(now time.Duration) (Step, bool) {
	e.batch = e.batch[:0]
	e.step = Step{Start: now}
	budget := e.cfg.MaxBatchedTokens

	budget, preempted := e.scheduleRunning(budget)
	if !preempted {
		// A cache that is full now would preempt what it admits.
		e.admit(now, budget)
	}
	if len(e.batch) == 0 {
		return Step{}, false
	}
	e.step.Cost = e.cfg.Step(e.step.Work)
	if e.cfg.Jitter > 0 {
		e.step.Total = time.Duration(float64(e.step.Total) * math.Exp(e.cfg.Jitter*e.rand.NormFloat64()))
	}
	if e.cfg.Stretch != nil {
		e.step.Total = e.cfg.Stretch(e.busy, e.step)
	}
	e.busy += e.step.Total
	e.step.End = now + e.step.Total
	e.step.Sequences = len(e.batch)
	return e.step, true
}

// scheduleRunning plans the sequences that hold blocks: one token each for
// those that decode, a chunk of the prompt for those that do not yet. It
// returns what is left of the budget and whether it had to preempt.
func (e *Engine) scheduleRunning(budget int) (int, bool) {
	preempted := false
	for i := 0; i < len(e.running) && budget > 0; i++ {
		s := e.running[i]
		n := min(len(s.tokens)-s.computed, budget)
		for !e.grow(s, s.computed+n) {
			// The latest one gives way. It is never one that this step has
			// planned: those stand before i.
			victim := e.running[len(e.running)-1]
			e.running = e.running[:len(e.running)-1]
			e.preempt(victim)
			preempted = true
			if victim == s {
				return budget, true
			}
		}
		e.plan(s, n)
		budget -= n
	}
	return budget, preempted
}

// admit moves waiting sequences to the running ones while there is room.
func (e *Engine) admit(now time.Duration, budget int) {
	for budget > 0 && len(e.waiting) > 0 && len(e.running) < e.cfg.MaxSeqs {
		s := e.waiting[0]
		e.hash(s)
		// The last token is always computed: its logits are what is wanted.
		found := e.cache.lookup(s.hashes, (len(s.tokens)-1)/BlockSize)
		hit := len(found) * BlockSize
		done := hit
		known := hit
		if s.preemptions == 0 {
			known = max(hit, min(s.req.Known, (len(s.tokens)-1)/BlockSize*BlockSize))
			done = max(known, min(s.req.Received, len(s.tokens)-1))
		}
		n := len(s.tokens) - done
		if n > budget && !e.cfg.ChunkedPrefill {
			return
		}
		n = min(n, budget)
		if blocksFor(done+n)-len(found) > e.cache.free-e.cache.idle(found) {
			return
		}
		e.waiting = e.waiting[1:]
		e.running = append(e.running, s)
		e.cache.share(found)
		s.blocks = append(s.blocks[:0], found...)
		s.computed = done
		if !s.started {
			s.started = true
			e.step.Started++
			s.timing.Scheduled = now
			s.cached = known
			e.stats.PromptTokens += len(s.req.Prompt)
			if e.cfg.PrefixCaching {
				e.stats.PrefixQueries += len(s.req.Prompt)
				e.stats.PrefixHits += known
			}
		}
		e.grow(s, done+n)
		e.name(s, hit, done)
		e.plan(s, n)
		budget -= n
	}
}

// plan adds n tokens of s to the step.
func (e *Engine) plan(s *sequence, n int) {
	s.planned = n
	e.batch = append(e.batch, s)
	done := s.computed+n == len(s.tokens)
	e.step.add(s.computed, n, done)
	if s.n > 0 && n == 1 && done {
		e.step.Decode++
	} else {
		e.step.Prefill += n
	}
	e.hash(s)
	e.name(s, s.computed, s.computed+n)
}

// hash brings the hashes of s up to its tokens. Only a prefix cache asks for them.
func (e *Engine) hash(s *sequence) {
	if e.cfg.PrefixCaching {
		s.hashes = chain(s.hashes, s.tokens)
	}
}

// name lets the blocks be found that are full once the tokens of s up to end
// are computed; those before start were.
func (e *Engine) name(s *sequence, start, end int) {
	if !e.cfg.PrefixCaching {
		return
	}
	for i := start / BlockSize; (i+1)*BlockSize <= end; i++ {
		e.cache.name(s.blocks[i], s.hashes[i])
	}
}

// grow gives s the blocks for so many tokens; false if there are not enough.
func (e *Engine) grow(s *sequence, tokens int) bool {
	need := blocksFor(tokens) - len(s.blocks)
	if need > e.cache.free {
		return false
	}
	s.blocks = e.cache.take(s.blocks, max(need, 0))
	return true
}

func blocksFor(tokens int) int { return (tokens + BlockSize - 1) / BlockSize }

// preempt takes everything from s and puts it first in the queue: it will
// compute all its tokens again.
func (e *Engine) preempt(s *sequence) {
	e.cache.release(s.blocks)
	s.blocks, s.computed = s.blocks[:0], 0
	s.preemptions++
	e.stats.Preemptions++
	e.waiting = slices.Insert(e.waiting, 0, s)
}

// End ends the step that Begin returned, at its end, and returns its tokens in
// the order of admission. They are valid until the next End.
func (e *Engine) End() []Output {
	now := e.step.End
	e.stats.Steps++
	e.stats.Busy += e.step.Total
	e.stats.Memory += e.step.Memory
	e.stats.Compute += e.step.Compute
	e.out = e.out[:0]
	for _, s := range e.batch {
		s.computed += s.planned
		if s.computed < len(s.tokens) {
			continue
		}
		e.out = append(e.out, e.sample(s, now))
	}
	e.running = slices.DeleteFunc(e.running, func(s *sequence) bool { return s.req.MaxTokens == 0 })
	e.batch = e.batch[:0]
	return e.out
}

// sample makes one token of s. A sequence that ends here gives up its blocks
// and is marked by MaxTokens 0 for End to take out.
func (e *Engine) sample(s *sequence, now time.Duration) Output {
	var token uint32
	if s.req.Token != nil {
		token = s.req.Token(s.n)
	}
	s.tokens = append(s.tokens, token)
	s.n++
	e.stats.GenerationTokens++
	o := Output{ID: s.id, N: s.n, Prompt: len(s.req.Prompt), Cached: s.cached, Preemptions: s.preemptions}
	if s.n == 1 {
		s.timing.First = now
	} else {
		o.Gap = now - s.timing.Last
	}
	s.timing.Last = now
	o.Timing = s.timing
	switch {
	case s.n == s.req.StopAt:
		o.Finish = Stop
	case s.n >= s.req.MaxTokens || len(s.tokens) >= e.cfg.MaxModelLen:
		o.Finish = Length
	}
	if o.Finish != Running {
		e.cache.release(s.blocks)
		s.req.MaxTokens = 0
	}
	return o
}
