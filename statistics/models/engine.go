package models

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"sweep.dev/sweep/catalog"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/sim/core"
)

// turn is from a server's last token to its next request of the same slot: the
// client and the network. It makes a request come in the middle of a step.
const turn = 300 * time.Microsecond

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

// prompts are the lengths for a source. Lognormal ones are a sample of 4,096,
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

// Load is the configuration of a source of requests with these lengths, without
// a concurrency, a pace or an end.
func (l Lengths) Load(seed uint64) source.Config {
	return source.Config{Seed: seed, Cell: "statistics", MaxTokens: l.Output, Prompts: l.prompts()}
}

// Run is what a driver would record of a load. Requests are in the order of their
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
	d := driver{engine: core.New(*cfg), src: src, flying: map[int]*flight{}}
	for slot := range src.Loop().Slots {
		d.next(slot, 0, nil)
	}
	d.run(yield)
	return nil
}

func (e Engine) config(seed uint64) (*core.Config, error) {
	gpu, ok := catalog.GPUByName(e.GPU)
	if !ok {
		return nil, fmt.Errorf("no GPU %q in the catalogue", e.GPU)
	}
	model, ok := catalog.ModelByName(e.Model)
	if !ok {
		return nil, fmt.Errorf("no model %q in the catalogue", e.Model)
	}
	cfg, err := core.Plan(core.Options{GPU: gpu, Model: model, MaxModelLen: 16384, MaxBatchedTokens: 2048, MaxSeqs: 256, NoPrefixCaching: true, Seed: seed, Jitter: 0.02})
	if err != nil {
		return nil, err
	}
	slower := cmp.Or(e.Slower, 1)
	cfg.Stretch = func(busy, total time.Duration) time.Duration {
		total = time.Duration(slower * float64(total))
		if e.Stretch != nil {
			total = e.Stretch(busy, total)
		}
		return total
	}
	return cfg, nil
}

// A send is a request that is due.
type send struct {
	at   time.Duration
	slot int
	job  load.Job
}

// A driver sends what a source says to an engine, on virtual time.
type driver struct {
	engine *core.Engine
	src    load.Source
	due    sends
	flying map[int]*flight // by the engine's id
}

// next takes a slot's next job. It is due, from a moment on, when the job says;
// an open loop's job says it from the beginning.
func (d *driver) next(slot int, from time.Duration, prev *result.Request) {
	if j, ok := d.src.Next(slot, prev); ok {
		heap.Push(&d.due, send{from + j.At, slot, j})
	}
}

func (d *driver) run(yield func(*result.Request) bool) {
	open := d.src.Loop().Open
	now := time.Duration(0)
	for {
		for len(d.due) > 0 && d.due[0].at <= now {
			s := heap.Pop(&d.due).(send)
			d.add(s)
			if open {
				d.next(0, 0, nil)
			}
		}
		step, ok := d.engine.Begin(now)
		if !ok {
			if len(d.due) == 0 {
				return
			}
			now = d.due[0].at
			continue
		}
		now = step.End
		for _, o := range d.engine.End() {
			f := d.flying[o.ID]
			f.token(now)
			if o.Finish == core.Running {
				continue
			}
			delete(d.flying, o.ID)
			if !yield(&f.Request) {
				return
			}
			if !open {
				d.next(f.Slot, now+turn, &f.Request)
			}
		}
	}
}

func (d *driver) add(s send) {
	id := d.engine.Add(s.at, core.Request{Prompt: make([]uint32, s.job.Prompt.Target), MaxTokens: s.job.MaxTokens})
	d.flying[id] = &flight{last: s.at, Request: result.Request{
		Shard: s.job.Shard, N: s.job.N, Slot: s.slot, Turn: s.job.Turn, Phase: s.job.Phase,
		Scheduled: s.at, Sent: s.at, TargetTokens: s.job.Prompt.Target, PromptTokens: s.job.Prompt.Target,
		MaxTokens: s.job.MaxTokens, TokenSource: "usage", ChunkUS: make([]int32, 0, s.job.MaxTokens),
	}}
}

// A flight is a request that is being answered.
type flight struct {
	result.Request
	last time.Duration
}

// token takes the next token in.
func (f *flight) token(now time.Duration) {
	if f.CompletionTokens == 0 {
		f.FirstByte, f.FirstToken, f.FirstOutput = now, now, now
	}
	f.ChunkUS = append(f.ChunkUS, int32(now/time.Microsecond-f.last/time.Microsecond))
	f.CompletionTokens++
	f.last, f.LastToken, f.End = now, now, now
	f.Status, f.FinishReason = result.Completed, "length"
}

type sends []send

func (s sends) Len() int           { return len(s) }
func (s sends) Less(i, j int) bool { return s[i].at < s[j].at }
func (s sends) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *sends) Push(x any)        { *s = append(*s, x.(send)) }
func (s *sends) Pop() any {
	old := *s
	x := old[len(old)-1]
	*s = old[:len(old)-1]
	return x
}
