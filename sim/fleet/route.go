package fleet

import (
	"sync"
)

// A router chooses a worker for each phase of a request.
//
// In mode kv it prefers the worker that has most of the prompt in its cache and
// least to do: the lowest sum of prompt tokens to compute, in blocks, and
// blocks of sequences under way, as Dynamo's router weighs them
// (https://docs.nvidia.com/dynamo/latest/components/router). What a worker has in
// its cache it knows from what it sent there: it forgets all of it where that
// exceeds what the worker can hold.
type router struct {
	kv bool
	mu sync.Mutex
	n  map[string]int // requests so far, by phase
}

// A choice is a worker and what the router thinks of it.
type choice struct {
	*worker
	logit   float64
	overlap int // blocks that it has
	best    int // the most that any worker has
	held    int // blocks of the prompt, with the last partial one
	tokens  int // to compute
	phase   string
	done    sync.Once
}

// choose picks one of workers for a prompt, and counts it as busy with it. The
// phase is prefill, decode or aggregated.
func (r *router) choose(workers []*worker, phase string, prompt []uint32) *choice {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		r.n = map[string]int{}
	}
	turn := r.n[phase]
	r.n[phase]++
	var pick *choice
	for i := range workers {
		c := weigh(workers[(turn+i)%len(workers)], phase, prompt)
		best := c.overlap
		if pick != nil {
			best = max(best, pick.best)
		}
		if pick == nil || (r.kv && c.logit < pick.logit) {
			pick = c
		}
		pick.best = best
	}
	pick.take(prompt)
	return pick
}

func weigh(w *worker, phase string, prompt []uint32) *choice {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &choice{worker: w, phase: phase, held: max(1, (len(prompt)+w.BlockSize-1)/w.BlockSize)}
	for _, h := range hashes(prompt, w.BlockSize) {
		if _, ok := w.cached[h]; !ok {
			break
		}
		c.overlap++
	}
	c.tokens = len(prompt) - c.overlap*w.BlockSize
	if phase != decode {
		c.logit += float64(c.tokens+w.pending) / float64(w.BlockSize)
	}
	if phase != prefill {
		c.logit += float64(w.blocks)
	}
	return c
}

// take counts what the choice makes a worker do.
func (c *choice) take(prompt []uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running++
	c.blocks += c.held
	if c.phase != decode {
		c.pending += c.tokens
	}
	hs := hashes(prompt, c.BlockSize)
	if len(c.cached)+len(hs) > c.Blocks {
		clear(c.cached)
	}
	for _, h := range hs {
		c.cached[h] = struct{}{}
	}
}

// computed notes that the prompt is, at the first token.
func (c *choice) computed() {
	c.done.Do(func() {
		if c.phase != decode {
			c.mu.Lock()
			c.pending -= c.tokens
			c.mu.Unlock()
		}
	})
}

// release notes that the request is no longer there.
func (c *choice) release() {
	c.computed()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.blocks -= c.held
}

// load returns what the router counts of a worker: requests, prompt tokens to
// compute, blocks.
func (w *worker) load() (running, pending, blocks int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running, w.pending, w.blocks
}

// hashes returns those of every full block of tokens, each over all tokens before
// it (FNV-1a over words).
func hashes(tokens []uint32, size int) []uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	list := make([]uint64, 0, len(tokens)/size)
	h := uint64(offset)
	for i := 0; i+size <= len(tokens); i += size {
		for _, t := range tokens[i : i+size] {
			h = (h ^ uint64(t)) * prime
			h ^= h >> 29
		}
		list = append(list, h)
	}
	return list
}
