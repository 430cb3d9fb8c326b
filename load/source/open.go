package source

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/trace"
	"sweep.dev/sweep/result"
)

// An openLoop is a schedule.
type openLoop struct {
	jobs  jobs
	shard Shard
	due   func() (time.Duration, bool) // of this shard
	all   []time.Duration              // that due returns; nil if it has no end
	first int                          // entry of the first prompt
	rows  []trace.Row                  // of the whole load; nil if it is no trace
	limit int
	next  int
}

// newOpen makes the whole schedule before the first send.
func newOpen(c Config) (load.Source, error) {
	all, err := c.schedule()
	if err != nil {
		return nil, err
	}
	// A pool of prompts that may not be used again must hold the schedule.
	if err := c.Prompts.check(len(all) + c.WarmupRequests); err != nil {
		return nil, err
	}
	s := &openLoop{jobs: c.jobs(), shard: c.Shard, rows: c.rows(), limit: c.Shard.Part(c.MaxInFlight)}
	s.first = s.jobs.first
	if c.MaxInFlight > 0 {
		s.limit = max(1, s.limit)
	}
	at := make([]time.Duration, 0, c.Shard.Part(len(all)))
	for g := c.Shard.Index; g < len(all); g += max(1, c.Shard.Of) {
		at = append(at, all[g])
	}
	s.all = at
	s.due = func() (time.Duration, bool) {
		if s.next == len(at) {
			return 0, false
		}
		return at[s.next], true
	}
	return s, nil
}

// length returns how long the load sends, 0 if only its requests bound it.
func (c *Config) length() time.Duration {
	end := c.Duration
	if c.Pace != nil {
		if own := c.Pace.Length(); own > 0 && (end == 0 || own < end) {
			end = own
		}
	}
	return end
}

// schedule returns when all requests of the whole load are due, in order.
func (c *Config) schedule() ([]time.Duration, error) {
	if err := c.expectable(); err != nil {
		return nil, err
	}
	times := func(n int) []time.Duration {
		return arrivals.Times(c.Pace, c.rng("arrivals"), n, c.Duration)
	}
	all := times(cmp.Or(c.Requests, MaxRequests))
	if c.Requests == 0 || c.Ramp == 0 || len(all) < c.Requests || !c.endless() {
		return all, nil
	}
	all = times(min(2*c.Requests, MaxRequests))
	ramp, _ := slices.BinarySearch(all, c.Ramp)
	return all[:min(len(all), c.Requests+ramp)], nil
}

// endless reports whether there is a prompt for any number of requests.
func (c *Config) endless() bool { return len(c.Prompts.Entries) == 0 || c.Prompts.Reuse }

// expectable reports whether a pace makes more requests than a schedule may have.
func (c *Config) expectable() error {
	if c.Requests > 0 || c.Pace == nil {
		return nil
	}
	if e, exact := c.Pace.Count(c.Duration); !exact && e > MaxRequests/2 {
		return fmt.Errorf("these rates make %.0f requests, more than %d", e, MaxRequests/2)
	}
	return nil
}

func (c *Config) checkPace() error {
	if c.Pace == nil {
		return nil
	}
	return c.Pace.Check()
}

// rows returns those of a trace; nil if the load is none.
func (c *Config) rows() []trace.Row {
	t, _ := c.Pace.(trace.Replay)
	return t.Rows
}

// recorded returns the mean lengths of a trace, 0 if it has none.
func (c *Config) recorded() (input, output int) {
	t, _ := c.Pace.(trace.Replay)
	return t.Mean()
}

// Loop implements [load.Source].
func (s *openLoop) Loop() load.Loop { return load.Loop{Open: true, Slots: 1, MaxInFlight: s.limit} }

// Next implements [load.Source].
func (s *openLoop) Next(int, *result.Request) (load.Job, bool) {
	at, ok := s.due()
	if !ok {
		return load.Job{}, false
	}
	id := s.shard.id(s.next)
	a := ask{entry: s.first + id}
	if s.rows != nil {
		r := &s.rows[id]
		a.tokens, a.maxTokens, a.blocks = int(r.Input), int(r.Output), r.Blocks
	}
	j := s.jobs.make(id, 0, id, a)
	if j.Prompt.Turns == nil {
		return load.Job{}, false
	}
	j.At = at
	s.next++
	return j, true
}

// Due returns when the requests of an open loop are due, in order, as offsets from the
// driver's start; nil of a closed loop. It must not be changed.
func Due(s load.Source) []time.Duration {
	if o, ok := s.(*openLoop); ok {
		return o.all
	}
	return nil
}
