package models

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/executor/rehearse/virtual"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/sim/core"
)

// resend is how long a lost packet is missed at least, before it is sent again: Linux's
// TCP_RTO_MIN.
const resend = 200 * time.Millisecond

// A Served is a simulated engine of which any part can be scarce, and the way to it.
type Served struct {
	GPU, Model string // names in the catalogue
	GPUs       int    // that share the model by tensor parallelism; 0 is 1
	Lengths    Lengths
	Slots      int // sequences at once; 0 is 256
	KVTokens   int // of the cache; 0 is as many as fit
	// MaxModelLen is the longest sequence in tokens, which has to fit into the cache; 0 is 16,384.
	MaxModelLen int
	Batched     int            // tokens of a step; 0 is 2,048
	Constants   core.Constants // of the time of a step
	RTT         time.Duration  // of the way
	Loss        float64        // share of the requests that have to be sent again
	Closed      bool           // a load is of so many requests at once, not of so many a second
}

// A Look is what the engine, the GPU and the client's sockets counted in one load.
type Look struct {
	virtual.Looks
	GPU     time.Duration // at work
	Resends int           // packets of the client that were sent again
	// P95TTFT and P99TTFT are of the engine's own time to the first token.
	P95TTFT, P99TTFT time.Duration
}

// Run returns what a driver records of n requests at a load, and the counters. The load is a rate
// with Poisson arrivals, or for a closed loop how many requests are at work at once, which
// begin one after another within two seconds.
func (s Served) Run(seed uint64, amount float64, n int) ([]result.Request, Look, error) {
	c := s.Lengths.Load(seed)
	c.Requests = n
	if s.Closed {
		c.Concurrency, c.Ramp = int(amount), 2*time.Second
	} else {
		c.Pace = arrivals.Steady(amount, arrivals.Process{})
	}
	src, err := source.New(c)
	if err != nil {
		return nil, Look{}, err
	}
	engine, err := s.engine(seed)
	if err != nil {
		return nil, Look{}, err
	}
	session := virtual.New(virtual.Server{Engine: *engine, Ask: virtual.Tokens})
	var requests []result.Request
	err = session.Send(context.Background(), src, 0, func(r *result.Request) bool {
		requests = append(requests, *r)
		return true
	})
	look := Look{Looks: session.Looks()}
	look.GPU = look.Busy - time.Duration(look.Steps)*engine.Constants.Step - time.Duration(look.Started)*engine.Constants.Start
	// The numbers of the requests are those of their arrivals, so that the same are lost
	// whatever the server is.
	slices.SortFunc(requests, func(a, b result.Request) int { return cmp.Compare(a.N, b.N) })
	lost := Uniform(seed, n)
	own := make([]float64, len(requests))
	for i := range requests {
		own[i] = float64(requests[i].FirstToken - requests[i].Sent)
	}
	slices.Sort(own)
	look.P95TTFT, look.P99TTFT = time.Duration(result.Quantile(own, 0.95)), time.Duration(result.Quantile(own, 0.99))
	for i := range requests {
		late := s.RTT
		if lost[i] < s.Loss {
			late += resend
			look.Resends++
		}
		r := &requests[i]
		r.FirstByte, r.FirstToken, r.FirstOutput = r.FirstByte+late, r.FirstToken+late, r.FirstOutput+late
		r.LastToken, r.End = r.LastToken+late, r.End+late
		r.ChunkUS[0] += int32(late / time.Microsecond)
	}
	return requests, look, err
}

func (s Served) engine(seed uint64) (*core.Config, error) {
	gpu, ok := catalog.GPUByName(s.GPU)
	if !ok {
		return nil, fmt.Errorf("no GPU %q in the catalogue", s.GPU)
	}
	model, ok := catalog.ModelByName(s.Model)
	if !ok {
		return nil, fmt.Errorf("no model %q in the catalogue", s.Model)
	}
	return core.Plan(core.Options{
		GPU: gpu, GPUs: s.GPUs, Model: model, MaxModelLen: cmp.Or(s.MaxModelLen, 16384), MaxBatchedTokens: cmp.Or(s.Batched, 2048), MaxSeqs: cmp.Or(s.Slots, 256), KVTokens: s.KVTokens,
		NoPrefixCaching: true, Seed: seed, Jitter: 0.02, Constants: s.Constants,
	})
}
