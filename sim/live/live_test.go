package live

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/sim/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run starts an engine with a tiny model and ends it with the test.
func run(t *testing.T) *Engine {
	t.Helper()
	m, _ := catalog.ModelByName("tiny")
	g, _ := catalog.GPUByName("h100")
	cfg, err := core.Plan(core.Options{Model: m, GPU: g})
	if err != nil {
		t.Fatal(err)
	}
	e := New(*cfg, 1, Bounds{})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { e.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return e
}

// read takes tokens until the end of a call.
func read(c *Call) (n int) {
	for {
		<-c.Ready()
		for _, o := range c.Take(nil) {
			n = o.N
			if o.Finish != core.Running {
				return n
			}
		}
	}
}

func TestEngine_tokensInOrder(t *testing.T) {
	e := run(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			c := NewCall(core.Request{Prompt: []uint32{1, 2, 3}, MaxTokens: 50})
			e.Submit(c)
			next := 1
			for next <= 50 {
				<-c.Ready()
				for _, o := range c.Take(nil) {
					if o.N != next {
						t.Errorf("token %d where %d was next", o.N, next)
					}
					next++
				}
			}
		})
	}
	wg.Wait()
	c := e.Meter.Counts()
	if c.Finished["length"] != 20 || c.TTFT.Total() != 20 || c.Gap.Total() != 20*49 || e.Stats().GenerationTokens != 1000 {
		t.Errorf("%+v", c)
	}
}

func TestEngine_abort(t *testing.T) {
	e := run(t)
	c := NewCall(core.Request{Prompt: []uint32{1}, MaxTokens: 8000})
	e.Submit(c)
	<-c.Ready()
	e.Abort(c)
	e.Abort(c) // the second finds nothing
	other := NewCall(core.Request{Prompt: []uint32{1}, MaxTokens: 5})
	e.Submit(other)
	if n := read(other); n != 5 {
		t.Errorf("%d tokens", n)
	}
	if s := e.Stats(); s.Running != 0 || s.KVUsage != 0 {
		t.Errorf("left over: %+v", s)
	}
	if n := e.Meter.Counts().Finished["abort"]; n != 1 {
		t.Errorf("%d aborted", n)
	}
}

func TestEngine_resetCacheEndsWithItsContext(t *testing.T) {
	m, _ := catalog.ModelByName("tiny")
	g, _ := catalog.GPUByName("h100")
	cfg, err := core.Plan(core.Options{Model: m, GPU: g})
	if err != nil {
		t.Fatal(err)
	}
	e := New(*cfg, 1, Bounds{}) // it does not run
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if e.ResetCache(ctx) {
		t.Error("reset by nobody")
	}
}

func TestEngine_loadIsBusyTime(t *testing.T) {
	e := run(t)
	if busy, _, _ := e.Load(); busy != 0 {
		t.Errorf("idle: busy %v", busy)
	}
	begin := time.Now()
	c := NewCall(core.Request{Prompt: []uint32{1}, MaxTokens: 1000})
	e.Submit(c)
	read(c)
	took := time.Since(begin).Seconds()
	busy, memory, _ := e.Load()
	if worked := e.Unscale(e.Stats().Busy).Seconds(); busy > min(1, worked)*1.01 || took < 0.9 && busy < 0.8*worked {
		t.Errorf("busy %.3f of the last second after %.3f s of work", busy, worked)
	}
	if memory <= 0 || memory > busy {
		t.Errorf("memory busy %v, GPU busy %v", memory, busy)
	}
}

func TestHistogram_aBoundBelongsToItsBucket(t *testing.T) {
	h := newHistogram([]float64{1, 2})
	for _, v := range []float64{0.5, 1, 1.5, 2, 3} {
		h.observe(v)
	}
	if h.Counts[0] != 2 || h.Counts[1] != 2 || h.Counts[2] != 1 || h.Sum != 8 || h.Total() != 5 {
		t.Errorf("%+v", h)
	}
}

func TestCounts_areACopy(t *testing.T) {
	m := newMeter(100, Bounds{})
	before := m.Counts()
	m.finished("stop")
	m.Accept(5)
	if before.Finished["stop"] != 0 || before.MaxTokens.Total() != 0 {
		t.Errorf("%+v", before)
	}
}
