package source

import (
	"errors"
	"fmt"
	"math"
	"time"

	"sweep.dev/sweep/load"
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

// newProbes makes the probes beside a load. Their number is not known beforehand, so
// each is made when it is asked for.
func newProbes(c Config) load.Source {
	rate, end := c.Probe.Rate, c.length()
	c.MaxTokens = c.Probe.MaxTokens
	c.Prompts = Prompts{InputTokens: c.Probe.InputTokens, Tokens: c.Prompts.Tokens}
	s := &openLoop{shard: c.Shard}
	s.due = func() (time.Duration, bool) {
		id := s.shard.id(s.next)
		at := float64(id) / rate * float64(time.Second)
		ok := rate > 0 && id < MaxRequests && at < math.MaxInt64 && (end == 0 || at < float64(end))
		return time.Duration(at), ok
	}
	if rate > 0 {
		s.jobs = c.jobs()
	}
	return s
}
