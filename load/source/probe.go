package source

import (
	"errors"
	"fmt"
	"math"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
)

// A Probe is a stream of a few small requests beside the load, whose latency
// tells what a light user sees of a loaded server. They are sent at equal
// distances, with prompts of their own, and are no part of the load's figures.
type Probe struct {
	Rate        float64 // per second; 0 is none
	InputTokens int
	MaxTokens   int
}

func (p Probe) check() error {
	switch {
	case p == Probe{}:
		return nil
	case !(p.Rate > 0 && p.Rate <= MaxRate):
		return fmt.Errorf("%g probes a second are not between 0 and %g", p.Rate, float64(MaxRate))
	case p.InputTokens < 1 || p.InputTokens > MaxInputTokens:
		return fmt.Errorf("probes of %d input tokens are not between 1 and %d", p.InputTokens, MaxInputTokens)
	case p.MaxTokens < 1:
		return errors.New("probes ask for no tokens")
	}
	return nil
}

// NewProbe makes the source of the probes beside a load: an open loop that ends
// when the load's own schedule does, or else after MaxRequests; the caller ends
// it with the load. Their numbers begin at FirstProbe. It ends at once where the
// load has none.
func NewProbe(c Config) (load.Source, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	s := &probes{shard: c.Shard, rate: c.Probe.Rate, end: c.length()}
	if s.rate == 0 {
		return s, nil
	}
	c.MaxTokens = c.Probe.MaxTokens
	c.Prompts = Prompts{InputTokens: c.Probe.InputTokens, Tokens: c.Prompts.Tokens}
	s.jobs = c.jobs(result.Probe)
	return s, nil
}

type probes struct {
	jobs  jobs
	shard Shard
	rate  float64
	end   time.Duration // 0 is none
	next  int
}

// Loop implements [load.Source].
func (s *probes) Loop() load.Loop { return load.Loop{Open: true, Slots: 1} }

// Next implements [load.Source].
func (s *probes) Next(int, *result.Request) (load.Job, bool) {
	id := s.shard.id(s.next)
	if s.rate == 0 || id >= MaxRequests {
		return load.Job{}, false
	}
	at := float64(id) / s.rate * float64(time.Second)
	if s.end > 0 && at >= float64(s.end) || at >= math.MaxInt64 {
		return load.Job{}, false
	}
	s.next++
	j := s.jobs.make(id, 0, id, ask{entry: id})
	j.At = time.Duration(at)
	return j, true
}
