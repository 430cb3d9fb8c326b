package source

import (
	"math"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
)

func TestVocabulary(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range vocabulary {
		if seen[w] || w == "" || strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("%q", w)
		}
		seen[w] = true
	}
}

// No two prompts of any cell and trial begin alike, so that no prefix cache can
// help by accident: the first block of a cache is 16 tokens at the least.
func TestSynthetic_neverRepeats(t *testing.T) {
	seen := map[string]bool{}
	for _, cell := range []string{"a", "b"} {
		for trial := 1; trial <= 2; trial++ {
			for _, phase := range []result.Phase{"", result.Warmup} {
				c := base()
				c.Cell, c.Trial = cell, trial
				s := newSynthetic(&c, phase)
				for n := range 2000 {
					p, _ := s.prompt(ask{n: n})
					start := strings.Join(strings.Fields(p.Turns[0])[:8], " ")
					if seen[start] {
						t.Fatalf("%s %d %q %d begins like another: %s", cell, trial, phase, n, start)
					}
					seen[start] = true
				}
			}
		}
	}
}

func TestSynthetic_length(t *testing.T) {
	const n = 4000
	for _, c := range []struct {
		name     string
		set      func(*Prompts)
		words    float64 // mean
		sd       float64 // of the words
		min, max int
	}{
		{"fixed", func(p *Prompts) {}, 200, 0, 200, 200},
		{"uniform", func(p *Prompts) { p.Distribution, p.Spread = Uniform, 0.5 }, 200, 100 / math.Sqrt(3), 100, 300},
		{"normal", func(p *Prompts) { p.Distribution, p.Spread = Normal, 0.2 }, 200, 40, 1, 2000},
		{"lognormal", func(p *Prompts) { p.Distribution, p.Spread = LogNormal, 0.5 }, 200, 100, 8, 2000},
		{"calibrated", func(p *Prompts) { p.Tokens = &Tokens{PerWord: 1.25} }, 160, 0, 160, 160},
		{"shared", func(p *Prompts) { p.SharedPrefix = 0.5 }, 200, 0, 200, 200},
		{"all shared", func(p *Prompts) { p.SharedPrefix = 1 }, 200, 0, 200, 200},
		{"shorter than a marker", func(p *Prompts) { p.InputTokens = 3 }, 3, 0, 3, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := base()
			cfg.Prompts.InputTokens = 200
			c.set(&cfg.Prompts)
			if err := cfg.Prompts.check(n); err != nil {
				t.Fatal(err)
			}
			s := newSynthetic(&cfg, "")
			var sum, squares float64
			for i := range n {
				p, _ := s.prompt(ask{n: i})
				words := len(strings.Fields(p.Turns[0]))
				if words < c.min || words > c.max {
					t.Fatalf("%d words are not between %d and %d", words, c.min, c.max)
				}
				if want := int(math.Round(float64(words) * s.Tokens.perWord())); p.Target != want {
					t.Fatalf("target %d for %d words", p.Target, words)
				}
				sum += float64(words)
				squares += float64(words * words)
			}
			mean := sum / n
			sd := math.Sqrt(max(0, squares/n-mean*mean))
			if math.Abs(mean-c.words) > 0.02*c.words || math.Abs(sd-c.sd) > 0.06*c.sd+0.5 {
				t.Errorf("%g words on average, sd %g; want %g and %g", mean, sd, c.words, c.sd)
			}
		})
	}
}

func TestSynthetic_sharedPrefix(t *testing.T) {
	c := base()
	c.Prompts.InputTokens, c.Prompts.SharedPrefix = 100, 0.6
	words := func(trial, n int) []string {
		c.Trial = trial
		p, _ := newSynthetic(&c, "").prompt(ask{n: n})
		return strings.Fields(p.Turns[0])
	}
	common := func(a, b []string) (n int) {
		for n < len(a) && a[n] == b[n] {
			n++
		}
		return n
	}
	// A word may be the same by chance: one in 256.
	if n := common(words(1, 0), words(1, 1)); n < 60 || n > 62 {
		t.Errorf("two prompts of a trial share %d words, want 60", n)
	}
	if n := common(words(1, 0), words(2, 0)); n > 2 {
		t.Errorf("two trials share %d words", n)
	}
}

func TestPool(t *testing.T) {
	c := base()
	c.Concurrency, c.Requests, c.WarmupRequests, c.MaxTokens = 1, 3, 1, 100
	c.Prompts = Prompts{System: "be brief", First: 1, Entries: InlinePrompts([]string{"a", "b", "c", "d", "e"})}
	c.Prompts.Entries[2].MaxTokens = 30
	c.Prompts.Entries[3].MaxTokens = 500
	c.Prompts.Entries[4].Prompt.System = "own"
	jobs := pull(t, must(t, c), 0)
	for i, want := range []load.Job{
		{Prompt: load.Prompt{System: "be brief", Turns: []string{"c"}}, MaxTokens: 30},
		{Prompt: load.Prompt{System: "be brief", Turns: []string{"d"}}, MaxTokens: 100},
		{Prompt: load.Prompt{System: "own", Turns: []string{"e"}}, MaxTokens: 100},
	} {
		got := jobs[i]
		if got.Prompt.Turns[0] != want.Prompt.Turns[0] || got.Prompt.System != want.Prompt.System ||
			got.MaxTokens != want.MaxTokens || got.Prompt.Target != result.Unknown {
			t.Errorf("job %d: %+v", i, got)
		}
	}
	c.Requests = 9
	if _, err := New(c); err == nil {
		t.Error("10 requests of 4 prompts")
	}
	c.Prompts.Reuse = true
	if jobs := pull(t, must(t, c), 0); jobs[3].Prompt.Turns[0] != "a" || len(jobs) != 9 {
		t.Errorf("%d jobs, the fourth %+v", len(jobs), jobs[3])
	}
}

func BenchmarkSynthetic(b *testing.B) {
	c := base()
	c.Prompts.InputTokens = 1000
	s := newSynthetic(&c, "")
	n := 0
	for b.Loop() {
		s.prompt(ask{n: n})
		n++
	}
}

// TestSynthetic_attempts: another attempt begins every prompt differently and
// is the same load in everything else.
func TestSynthetic_attempts(t *testing.T) {
	jobs := func(attempt int) []load.Job {
		src, err := New(Config{
			Seed: 1, Cell: "c", Trial: 1, Attempt: attempt, Pace: steady(100), Requests: 20, MaxTokens: 4,
			Prompts: Prompts{InputTokens: 40, Distribution: Normal, Spread: 0.3, SharedPrefix: 0.4},
		})
		if err != nil {
			t.Fatal(err)
		}
		var all []load.Job
		for j, ok := src.Next(0, nil); ok; j, ok = src.Next(0, nil) {
			all = append(all, j)
		}
		return all
	}
	first, again, second := jobs(0), jobs(1), jobs(2)
	for i := range first {
		a, b, c := first[i], again[i], second[i]
		if a.Prompt.Turns[0] != b.Prompt.Turns[0] {
			t.Errorf("job %d: no attempt and the first attempt differ", i)
		}
		wa, wc := strings.Fields(a.Prompt.Turns[0]), strings.Fields(c.Prompt.Turns[0])
		if slices.Equal(wa[:8], wc[:8]) {
			t.Errorf("job %d begins the same in two attempts", i)
		}
		if a.At != c.At || len(wa) != len(wc) || a.Prompt.Target != c.Prompt.Target || a.N != c.N {
			t.Errorf("job %d differs in more than its markers", i)
		}
	}
}
