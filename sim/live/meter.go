package live

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"sweep.dev/sweep/sim/core"
)

// Bucket bounds of vLLM 0.32.
var (
	latencyBounds   = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	ttftBounds      = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	gapBounds       = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	iterationBounds = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	preemptBounds   = []float64{1, 2, 3, 4, 5, 10, 20}
	timerBounds     = []float64{1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.1}
)

// tokenBounds returns 1, 2, 5, 10, ... up to the longest sequence.
func tokenBounds(limit int) []float64 {
	var b []float64
	for e := 1.0; ; e *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if m*e > float64(limit) {
				return b
			}
			b = append(b, m*e)
		}
	}
}

// Bounds are the bounds of histograms' buckets that differ between engines; nil
// are those of vLLM. Tokens are those of prompts and answers.
type Bounds struct {
	TTFT, Gap, TPOT, E2E, Queue, Prefill, Phase, Tokens []float64
}

func or(b, byDefault []float64) []float64 {
	if b == nil {
		return byDefault
	}
	return b
}

// A Histogram counts values by bucket; Counts[len(Bounds)] is beyond the last
// bound. A bound belongs to its own bucket.
type Histogram struct {
	Bounds []float64
	Counts []uint64
	Sum    float64
}

func newHistogram(bounds []float64) Histogram {
	return Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}
}

func (h *Histogram) observe(v float64) {
	i, _ := slices.BinarySearch(h.Bounds, v)
	h.Counts[i]++
	h.Sum += v
}

// Total returns how many values were observed.
func (h *Histogram) Total() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

func (h *Histogram) clone() { h.Counts = slices.Clone(h.Counts) }

// Counts are the counters of an engine beside the core's own. Times are real seconds,
// as a client sees them.
type Counts struct {
	Finished map[string]int // requests by reason: stop, length, abort

	TTFT, Gap, TPOT, E2E, Queue, Inference, Prefill, Decode Histogram
	Prompt, Generation, MaxTokens, Iteration, Preemptions   Histogram

	Received  int // prompt tokens whose cache came from another server
	Cached    int // prompt tokens of what has finished that were in the prefix cache
	Sequences int // of all steps together
	Longest   int // most tokens that a sequence has had, prompt and answer

	Late    Histogram // how late the pacer ended steps
	Latest  float64   // the worst of them
	Resyncs int       // how often the clock was set anew
}

func (c *Counts) histograms() []*Histogram {
	return []*Histogram{
		&c.TTFT, &c.Gap, &c.TPOT, &c.E2E, &c.Queue, &c.Inference, &c.Prefill, &c.Decode,
		&c.Prompt, &c.Generation, &c.MaxTokens, &c.Iteration, &c.Preemptions, &c.Late,
	}
}

// A Meter keeps Counts. Its methods may be called concurrently.
type Meter struct {
	mu    sync.Mutex
	none  func() Counts
	c     Counts
	steps []Iteration // since they were taken last; a ring once it is full
	over  int         // steps beyond that
}

// An Iteration is one step of the engine, and what was there at its end.
type Iteration struct {
	Took            time.Duration // real
	Prefill, Decode int           // tokens
	Sequences       int
	core.Stats
}

// maxIterations bounds what is kept for a reader that does not come.
const maxIterations = 1000

// Iterations takes the steps since the last call, at most the last 1000.
func (m *Meter) Iterations() []Iteration {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.over % maxIterations
	steps := append(slices.Clone(m.steps[min(at, len(m.steps)):]), m.steps[:min(at, len(m.steps))]...)
	m.steps, m.over = m.steps[:0], 0
	return steps
}

func (m *Meter) iteration(s core.Step, stats core.Stats, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it := Iteration{took, s.Prefill, s.Decode, s.Sequences, stats}
	if len(m.steps) < maxIterations {
		m.steps = append(m.steps, it)
		return
	}
	m.steps[m.over%maxIterations] = it
	m.over++
}

func newMeter(maxModelLen int, b Bounds) *Meter {
	tokens := or(b.Tokens, tokenBounds(maxModelLen))
	phase := or(b.Phase, latencyBounds)
	none := func() Counts {
		return Counts{
			Finished: map[string]int{},
			TTFT:     newHistogram(or(b.TTFT, ttftBounds)), Gap: newHistogram(or(b.Gap, gapBounds)), TPOT: newHistogram(or(b.TPOT, gapBounds)),
			E2E: newHistogram(or(b.E2E, latencyBounds)), Queue: newHistogram(or(b.Queue, latencyBounds)),
			Inference: newHistogram(phase), Prefill: newHistogram(or(b.Prefill, phase)), Decode: newHistogram(phase),
			Prompt: newHistogram(tokens), Generation: newHistogram(tokens), MaxTokens: newHistogram(tokens),
			Iteration: newHistogram(iterationBounds), Preemptions: newHistogram(preemptBounds),
			Late: newHistogram(timerBounds),
		}
	}
	return &Meter{none: none, c: none()}
}

// reset counts from nothing.
func (m *Meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.c = m.none()
}

// Counts returns a copy of what there is at this moment.
func (m *Meter) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.c
	c.Finished = maps.Clone(c.Finished)
	for _, h := range c.histograms() {
		h.clone()
	}
	return c
}

func (m *Meter) finished(reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.c.Finished[reason]++
}

func (m *Meter) timer(late time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.c.Late.observe(late.Seconds())
	m.c.Latest = max(m.c.Latest, late.Seconds())
}

func (m *Meter) resync() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.c.Resyncs++
}

// Accept counts what a request asked for.
func (m *Meter) Accept(maxTokens int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.c.MaxTokens.observe(float64(maxTokens))
}

// Receive counts prompt tokens whose cache came from another server.
func (m *Meter) Receive(tokens int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.c.Received += tokens
}

// step counts one step's tokens. real turns virtual durations into real ones.
func (m *Meter) step(s core.Step, outs []core.Output, real func(time.Duration) time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.c.Iteration.observe(float64(s.Tokens))
	m.c.Sequences += s.Sequences
	for _, o := range outs {
		if o.N == 1 {
			m.c.TTFT.observe(real(o.First - o.Arrived).Seconds())
		} else {
			m.c.Gap.observe(real(o.Gap).Seconds())
		}
		m.c.Longest = max(m.c.Longest, o.Prompt+o.N)
		if o.Finish == core.Running {
			continue
		}
		m.c.Cached += o.Cached
		m.c.Finished[string(o.Finish)]++
		m.c.E2E.observe(real(o.Last - o.Arrived).Seconds())
		m.c.Queue.observe(real(o.Scheduled - o.Arrived).Seconds())
		m.c.Prefill.observe(real(o.First - o.Scheduled).Seconds())
		m.c.Decode.observe(real(o.Last - o.First).Seconds())
		m.c.Inference.observe(real(o.Last - o.Scheduled).Seconds())
		m.c.Generation.observe(float64(o.N))
		m.c.Prompt.observe(float64(o.Prompt))
		m.c.Preemptions.observe(float64(o.Preemptions))
		if o.N > 1 {
			m.c.TPOT.observe(real(o.Last-o.First).Seconds() / float64(o.N-1))
		} else {
			m.c.TPOT.observe(0)
		}
	}
}

// Timer returns the pacer's error in words.
func (m *Meter) Timer() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.c.Late.Total()
	if n == 0 {
		return "no step yet"
	}
	return fmt.Sprintf("mean %.0f us, worst %.0f us over %d steps, %d resyncs", 1e6*m.c.Late.Sum/float64(n), 1e6*m.c.Latest, n, m.c.Resyncs)
}
