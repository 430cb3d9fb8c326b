package core

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestPrefixHits_cutTTFT(t *testing.T) {
	shared := prompt(7, 2000)
	second := append(slices.Clone(shared), prompt(8, 40)...)
	load := []arrival{{prompt: shared, out: 4}, {at: time.Second * 10, prompt: second, out: 4}}

	cfg := config(t, nil)
	on := New(cfg)
	with := play(t, on, load)
	cfg.PrefixCaching = false
	off := New(cfg)
	without := play(t, off, load)

	if with[1].cached != 2000 || without[1].cached != 0 {
		t.Errorf("cached %d with, %d without", with[1].cached, without[1].cached)
	}
	if with[0].ttft() != without[0].ttft() {
		t.Errorf("the first request: %v with, %v without", with[0].ttft(), without[0].ttft())
	}
	if with[1].ttft() > without[1].ttft()/4 {
		t.Errorf("a hit of 2000 tokens brings TTFT only from %v to %v", without[1].ttft(), with[1].ttft())
	}
	if s := on.Stats(); s.PrefixQueries != 4040 || s.PrefixHits != 2000 {
		t.Errorf("%d hits of %d queries", s.PrefixHits, s.PrefixQueries)
	}
	if s := off.Stats(); s.PrefixQueries != 0 {
		t.Errorf("%d queries without a cache", s.PrefixQueries)
	}
	// The whole prompt again: its last token is computed all the same.
	if again := play(t, on, []arrival{{at: time.Second * 20, prompt: shared, out: 1}})[0]; again.cached != 1984 {
		t.Errorf("%d tokens of the same prompt are cached, want 1984", again.cached)
	}
	if !on.ResetPrefixCache() {
		t.Error("an idle cache is not reset")
	}
	if again := play(t, on, []arrival{{at: time.Second * 30, prompt: shared, out: 1}})[0]; again.cached != 0 {
		t.Errorf("%d tokens cached after a reset", again.cached)
	}
}

func TestPrefixCache_refusesAResetInUse(t *testing.T) {
	e := New(config(t, nil))
	e.Add(0, Request{Prompt: prompt(1, 100), MaxTokens: 2})
	e.Begin(0)
	e.End()
	if e.ResetPrefixCache() {
		t.Error("the cache was reset under a running sequence")
	}
}

func TestPrefixCache_evictsTheOldest(t *testing.T) {
	cfg := config(t, func(o *Options) { o.Blocks, o.MaxModelLen = 40, 512 })
	e := New(cfg)
	a, b := prompt(1, 256), prompt(2, 256) // 16 blocks each, and one more for the answer
	play(t, e, []arrival{{prompt: a, out: 4}})
	play(t, e, []arrival{{at: time.Second, prompt: b, out: 4}})
	play(t, e, []arrival{{at: 2 * time.Second, prompt: prompt(3, 256), out: 4}}) // pushes a out
	if r := play(t, e, []arrival{{at: 3 * time.Second, prompt: b, out: 4}})[0]; r.cached != 240 {
		t.Errorf("%d tokens of the younger prefix survived, want all 15 blocks that count", r.cached)
	}
	if r := play(t, e, []arrival{{at: 4 * time.Second, prompt: a, out: 4}})[0]; r.cached > 64 {
		t.Errorf("%d tokens of the oldest prefix survived, though 17 of 34 other blocks were wanted", r.cached)
	}
}

// TestCache_neverLosesABlock drives the pool with random loads: whatever
// happens, all blocks are free at the end and each is in the ring once.
func TestCache_neverLosesABlock(t *testing.T) {
	for seed := range 20 {
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		cfg := config(t, func(o *Options) { o.Blocks, o.MaxModelLen, o.MaxSeqs = 33, 512, 6 })
		e := New(cfg)
		var load []arrival
		for range 60 {
			a := arrival{at: time.Duration(r.IntN(3000)) * time.Millisecond, prompt: prompt(r.IntN(4), 1+r.IntN(400)), out: 1 + r.IntN(100)}
			if r.IntN(4) == 0 {
				a.abortAt = a.at + time.Duration(r.IntN(2000))*time.Millisecond
			}
			load = append(load, a)
		}
		play(t, e, load)
		seen := map[int32]bool{}
		for b := e.cache.next[33]; b != 33; b = e.cache.next[b] {
			if seen[b] || e.cache.refs[b] != 0 {
				t.Fatalf("seed %d: block %d is twice in the free list, or in use", seed, b)
			}
			seen[b] = true
		}
		if len(seen) != 33 || e.cache.free != 33 {
			t.Fatalf("seed %d: %d of 33 blocks are free (count %d)", seed, len(seen), e.cache.free)
		}
	}
}

// TestReceived: a prompt whose cache comes from elsewhere costs one token's
// computing and all its blocks, and is found by the next one like it.
func TestReceived(t *testing.T) {
	e := New(config(t, nil))
	p := prompt(1, 1000)
	e.Add(0, Request{Prompt: p, MaxTokens: 1, Received: len(p)})
	step, ok := e.Begin(0)
	if !ok || step.Prefill != 1 {
		t.Fatalf("computes %d tokens of the prompt, want 1", step.Prefill)
	}
	if got, want := e.Stats().KVUsage*float64(e.cfg.Blocks), float64(blocksFor(len(p))); got < want-0.5 || got > want+0.5 {
		t.Errorf("%.1f blocks in use, want %v", got, want)
	}
	if out := e.End(); len(out) != 1 || out[0].Cached != 0 || out[0].Prompt != len(p) {
		t.Errorf("%+v", out)
	}
	e.Add(step.End, Request{Prompt: p, MaxTokens: 1})
	if step, _ := e.Begin(step.End); step.Prefill != len(p)-(len(p)-1)/BlockSize*BlockSize {
		t.Errorf("the same prompt computes %d tokens", step.Prefill)
	}
}

// TestKnown: a prompt that counts as known is counted as a hit, whole blocks of
// it, and is answered as fast as one.
func TestKnown(t *testing.T) {
	p := prompt(1, 1000)
	run := func(r Request) (time.Duration, Output, Stats) {
		e := New(config(t, nil))
		r.Prompt, r.MaxTokens = p, 1
		e.Add(0, r)
		e.Begin(0)
		out := e.End()
		if len(out) != 1 {
			t.Fatalf("%d tokens in one step", len(out))
		}
		return out[0].First, out[0], e.Stats()
	}
	cold, first, _ := run(Request{})
	warm, known, stats := run(Request{Known: len(p)})
	want := (len(p) - 1) / BlockSize * BlockSize
	if first.Cached != 0 || known.Cached != want || stats.PrefixHits != want || stats.PrefixQueries != len(p) {
		t.Errorf("%d and %d tokens cached, %d of %d by the counters, want %d", first.Cached, known.Cached, stats.PrefixHits, stats.PrefixQueries, want)
	}
	if warm >= cold/2 {
		t.Errorf("the first token after %v, and where the prompt is known after %v", cold, warm)
	}
}
