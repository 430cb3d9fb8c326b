package source

import (
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
)

// A closedLoop is a number of slots that share a number of conversations. A
// request without a history is a conversation of one turn.
//
// Conversation g of the whole load belongs to shard g mod Of, and its turn k is
// request g*turns+k, whether or not the turns before it were answered.
type closedLoop struct {
	jobs  jobs
	shard Shard
	slots []slot

	turns     int           // of a conversation at most
	lengths   func(int) int // turns of the conversation that takes an entry
	total     int           // conversations of this shard; -1 if none is set
	final     int           // the last conversation of the whole load, which
	cut       int           // has so many turns; -1 if none is set
	perWorker int           // turns of each slot; 0 if none is set
	workers   int           // of all shards
	duration  time.Duration
	think     time.Duration
	ramp      time.Duration // over which the slots of all shards begin
	next      int           // conversations that were begun
}

type slot struct {
	sent     int
	begun    time.Duration // when the load began, as the slot's first request tells
	failures int           // in a row

	led     int // conversations that it has begun
	planned int // their turns
	current int // the one that it leads
	turn    int // that is due in it; 0 if none is led
	length  int // its turns
	prompt  load.Prompt
}

func newClosed(c Config) *closedLoop {
	s := &closedLoop{
		jobs: c.jobs(), shard: c.Shard, slots: make([]slot, c.Shard.Part(c.Concurrency)),
		turns: c.turns(), total: -1, final: -1, perWorker: c.RequestsPerWorker, workers: c.Concurrency,
		duration: c.Duration, think: c.ThinkTime, ramp: c.Ramp,
	}
	if c.Phase == result.Warmup {
		s.next = c.WarmupSent
	}
	s.lengths = c.turnsOf
	if c.Requests > 0 || c.Phase == result.Warmup && c.Duration == 0 {
		var all int
		all, s.cut = c.conversations(c.Requests, s.jobs.first)
		s.total, s.final = c.Shard.Part(all), all-1
	}
	return s
}

// Loop implements [load.Source].
func (s *closedLoop) Loop() load.Loop { return load.Loop{Slots: len(s.slots)} }

// Next implements [load.Source].
//
// Next reads the time from the requests: the load began when a slot's first request
// was due, less the slot's own place in the ramp, and a slot's next request is due
// when its last has ended.
func (s *closedLoop) Next(n int, prev *result.Request) (load.Job, bool) {
	slot := &s.slots[n]
	at, since := s.begins(n), s.begins(n)
	paused := time.Duration(0)
	if prev != nil {
		if slot.sent == 1 {
			slot.begun = prev.Scheduled - s.begins(n)
		}
		slot.follow(prev)
		think := time.Duration(0)
		if slot.turn > 0 || s.turns == 1 {
			think = s.think
		}
		at = max(think, slot.pause(prev))
		paused, since = at-think, prev.End+at-slot.begun
	}
	if s.duration > 0 && since >= s.duration {
		return load.Job{}, false
	}
	if slot.turn == 0 && !s.begin(n, slot) {
		return load.Job{}, false
	}
	a := ask{entry: s.jobs.first + slot.current, turn: slot.turn}
	j := s.jobs.make(slot.current*s.turns+slot.turn, n, slot.current, a)
	if j.Prompt.Turns == nil {
		return load.Job{}, false
	}
	j.At, j.Paused, j.Turn = at, paused, slot.turn
	slot.sent++
	if s.turns > 1 {
		slot.ask(&j)
	}
	return j, true
}

// begins returns when a slot sends its first request, since the load began. Slots that
// begin at once stay together where all requests take equally long, and wait for
// each other's prompts again and again.
func (s *closedLoop) begins(n int) time.Duration {
	return time.Duration(float64(s.ramp) * float64(s.shard.id(n)) / float64(max(1, s.workers)))
}

// begin gives a slot its next conversation; false is the end.
func (s *closedLoop) begin(n int, slot *slot) bool {
	switch {
	case s.next == s.total, s.perWorker > 0 && slot.planned >= s.perWorker:
		return false
	case s.perWorker > 0:
		// By slot and not in the order of the moment, so that the ids of all
		// shards together are those of the whole.
		slot.current = slot.led*s.workers + s.shard.id(n)
	default:
		slot.current = s.shard.id(s.next)
	}
	slot.length = s.lengths(s.jobs.first + slot.current)
	if s.perWorker > 0 {
		slot.length = min(slot.length, s.perWorker-slot.planned)
	}
	if slot.current == s.final {
		slot.length = min(slot.length, s.cut)
	}
	s.next++
	slot.led++
	slot.planned += slot.length
	return true
}
