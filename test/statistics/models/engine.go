package models

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"sweep.dev/sweep/executor/rehearse/virtual"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/sim/core"
)

// An Engine is a server with continuous batching, chunked prefill and first
// come, first served: the simulated engine, on virtual time.
type Engine struct {
	GPU, Model string // names in the catalogue
	// Slower scales the time of every step; 0 is 1.
	Slower float64
	// Chance sets the server's own chance apart from another's under the same load.
	Chance uint64
	// Stretch is core.Config's: what changes while the engine works.
	Stretch func(busy, total time.Duration) time.Duration
}

// The engines of the tables: a large card that is bound by its memory up to a
// hundred sequences, and a small one.
var (
	H100 = Engine{GPU: "h100", Model: "meta-llama/Llama-3.1-8B-Instruct"}
	L4   = Engine{GPU: "l4", Model: "Qwen/Qwen2.5-1.5B-Instruct"}
)

// Lengths are how long requests are.
type Lengths struct {
	Input, Output int     // means
	Sigma         float64 // of the logarithm of both; 0 is fixed lengths
}

func (l Lengths) String() string {
	if l.Sigma == 0 {
		return "fixed"
	}
	return fmt.Sprintf("LN %.3g", l.Sigma)
}

// prompts returns the lengths for a source. Lognormal ones are a sample of 4,096,
// from which the source draws.
func (l Lengths) prompts() source.Prompts {
	// A word of a hundred tokens, as nobody reads the text.
	p := source.Prompts{InputTokens: l.Input, Tokens: &source.Tokens{PerWord: 100}}
	if l.Sigma == 0 {
		return p
	}
	r := rand.New(rand.NewPCG(1, 4))
	draw := func(mean int) int {
		x := math.Exp(math.Log(float64(mean)) - l.Sigma*l.Sigma/2 + l.Sigma*r.NormFloat64())
		return int(math.Round(min(max(x, 1), 8*float64(mean))))
	}
	p.Distribution, p.InputTokens = source.Empirical, 0
	for range 4096 {
		p.Pairs = append(p.Pairs, source.Pair{Input: draw(l.Input), Output: draw(l.Output)})
	}
	return p
}

// Load returns the configuration of a source of requests with these lengths, without
// a concurrency, a pace or an end.
func (l Lengths) Load(seed uint64) source.Config {
	return source.Config{Seed: seed, Cell: "statistics", MaxTokens: l.Output, Prompts: l.prompts()}
}

// Run returns what a driver would record of a load. Requests are in the order of their
// ends.
func (e Engine) Run(c source.Config) ([]result.Request, error) {
	var out []result.Request
	err := e.Each(c, func(r *result.Request) bool {
		out = append(out, *r)
		return true
	})
	return out, err
}

// Each is Run for one request at a time, until yield returns false.
func (e Engine) Each(c source.Config, yield func(*result.Request) bool) error {
	src, err := source.New(c)
	if err != nil {
		return err
	}
	cfg, err := e.config(c.Seed + e.Chance<<32)
	if err != nil {
		return err
	}
	return virtual.New(virtual.Server{Engine: *cfg, Ask: virtual.Tokens}).Send(context.Background(), src, 0, yield)
}

func (e Engine) config(seed uint64) (*core.Config, error) {
	cfg, err := Served{GPU: e.GPU, Model: e.Model}.engine(seed)
	if err != nil {
		return nil, err
	}
	slower := cmp.Or(e.Slower, 1)
	cfg.Stretch = func(busy time.Duration, step core.Step) time.Duration {
		total := time.Duration(slower * float64(step.Total))
		if e.Stretch != nil {
			total = e.Stretch(busy, total)
		}
		return total
	}
	return cfg, nil
}
