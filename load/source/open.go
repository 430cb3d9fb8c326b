package source

import (
	"fmt"
	"math"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/trace"
	"sweep.dev/sweep/result"
)

// An openLoop is a schedule that was made before the first send.
type openLoop struct {
	jobs  jobs
	shard Shard
	at    []time.Duration // of this shard
	rows  []trace.Row     // of the whole load; nil where it is no trace
	limit int
	next  int
}

func newOpen(c Config) (*openLoop, error) {
	all, err := c.schedule()
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	// A pool of prompts that may not be used again must hold the schedule.
	if err := c.Prompts.check(len(all) + c.WarmupRequests); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	s := &openLoop{jobs: c.jobs(""), shard: c.Shard, rows: c.Trace, limit: c.Shard.part(c.MaxInFlight)}
	if c.MaxInFlight > 0 {
		s.limit = max(1, s.limit)
	}
	s.at = make([]time.Duration, 0, c.Shard.part(len(all)))
	for g := c.Shard.Index; g < len(all); g += max(1, c.Shard.Of) {
		s.at = append(s.at, all[g])
	}
	return s, nil
}

// open says whether the load is an open loop.
func (c *Config) open() bool { return c.RequestRate != 0 || len(c.Stages) > 0 || len(c.Trace) > 0 }

// stages are the rates of an open loop that is no trace.
func (c *Config) stages() []arrivals.Stage {
	if len(c.Stages) > 0 {
		return c.Stages
	}
	return []arrivals.Stage{{Rate: c.RequestRate}}
}

func (c *Config) process() arrivals.Process {
	return arrivals.Process{Kind: c.Arrivals, Burstiness: c.Burstiness}
}

// length is how long the load sends, 0 where only its requests bound it.
func (c *Config) length() time.Duration {
	end := c.Duration
	if own := arrivals.Length(c.Stages); own > 0 && (end == 0 || own < end) {
		end = own
	}
	if n := len(c.Trace); n > 0 {
		if own := c.traceTime(n-1) + 1; end == 0 || own < end {
			end = own
		}
	}
	return end
}

// schedule is when all requests of the whole load are due, in order.
func (c *Config) schedule() ([]time.Duration, error) {
	n := c.Requests
	if n == 0 {
		n = MaxRequests
	}
	if len(c.Trace) > 0 {
		at := make([]time.Duration, 0, min(n, len(c.Trace)))
		for i := range c.Trace[:min(n, len(c.Trace))] {
			t := c.traceTime(i)
			if c.Duration > 0 && t >= c.Duration {
				break
			}
			at = append(at, t)
		}
		return at, nil
	}
	if err := c.expectable(); err != nil {
		return nil, err
	}
	return c.process().Schedule(c.rng("arrivals"), c.stages(), n, c.Duration), nil
}

// expectable says whether rates make more requests than a schedule may have.
func (c *Config) expectable() error {
	if c.Requests > 0 || len(c.Trace) > 0 {
		return nil
	}
	if e := arrivals.Expected(c.stages(), c.Duration); e > MaxRequests/2 {
		return fmt.Errorf("these rates make %.0f requests, more than %d", e, MaxRequests/2)
	}
	return nil
}

// traceTime is when row i is due.
func (c *Config) traceTime(i int) time.Duration {
	at := c.Trace[i].At
	if c.TraceSpeed == 0 || c.TraceSpeed == 1 {
		return at
	}
	return time.Duration(math.Round(float64(at) / c.TraceSpeed))
}

func (c *Config) checkTrace() error {
	if len(c.Trace) > MaxRequests {
		return fmt.Errorf("a trace of more than %d requests", MaxRequests)
	}
	if s := c.TraceSpeed; !(s >= 0) || math.IsInf(s, 0) {
		return fmt.Errorf("a trace cannot be played at the speed %g", s)
	}
	last := time.Duration(0)
	for i, r := range c.Trace {
		if r.At < last {
			return fmt.Errorf("row %d of the trace is before the one above it", i+1)
		}
		last = r.At
	}
	if c.TraceSpeed > 0 && float64(last)/c.TraceSpeed > math.MaxInt64/2 {
		return fmt.Errorf("at the speed %g the trace ends in more than a century", c.TraceSpeed)
	}
	return nil
}

// recorded is the mean lengths of a trace, 0 where it has none.
func (c *Config) recorded() (input, output int) {
	n := 0
	for _, r := range c.Trace {
		if r.Input > 0 && r.Output > 0 {
			input, output, n = input+int(r.Input), output+int(r.Output), n+1
		}
	}
	if n == 0 {
		return 0, 0
	}
	return max(1, input/n), max(1, output/n)
}

// Loop implements [load.Source].
func (s *openLoop) Loop() load.Loop { return load.Loop{Open: true, Slots: 1, MaxInFlight: s.limit} }

// Next implements [load.Source].
func (s *openLoop) Next(int, *result.Request) (load.Job, bool) {
	if s.next == len(s.at) {
		return load.Job{}, false
	}
	id := s.shard.id(s.next)
	a := ask{entry: s.jobs.first + id}
	if s.rows != nil {
		r := &s.rows[id]
		a.tokens, a.maxTokens, a.blocks = int(r.Input), int(r.Output), r.Blocks
	}
	j := s.jobs.make(id, 0, id, a)
	j.At = s.at[s.next]
	s.next++
	return j, true
}
