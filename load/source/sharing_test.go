package source

import (
	"math"
	"strings"
	"testing"

	"sweep.dev/sweep/load/trace"
)

func TestCacheHits(t *testing.T) {
	exact := &Tokens{Plain: &Overhead{First: 10, Turn: 8}, System: &Overhead{First: 110, Turn: 8}}
	for _, c := range []struct {
		name      string
		set       func(*Config)
		requests  int
		low, high float64 // of blocks of one token, without requests at the same time
	}{
		{"nothing but the template", func(c *Config) {}, 100, 10. / 100, 10. / 100},
		{"system", func(c *Config) { c.Prompts.System = "s" }, 100, 110. / 200, 110. / 200},
		{"no request", func(c *Config) {}, 0, 0, 0},
		{"prefix", func(c *Config) { c.Prompts.SharedPrefix = 0.5 }, 100, (10 + 45*.99) / 100, (10 + 45*.99) / 100},
		{"groups", func(c *Config) { c.Prompts.SharedPrefix, c.Prompts.PrefixGroups = 0.5, 20 }, 100, (10 + 45*.8) / 100, (10 + 45*.8) / 100},
		{"groups that the warm-up had", func(c *Config) {
			c.Prompts.SharedPrefix, c.Prompts.PrefixGroups, c.WarmPrefixes = 0.5, 20, true
		}, 100, (10 + 45.) / 100, (10 + 45.) / 100},
		{"more groups than requests", func(c *Config) { c.Prompts.SharedPrefix, c.Prompts.PrefixGroups = 0.5, 1000 }, 100, .1, .1},
		// Of 100, 208 and 316 tokens the second has 110 in common with the first,
		// where the answer has 10, and the third 218 with the second.
		{"conversation", func(c *Config) { c.MaxTokens, c.Conversation.Turns = 10, 3 }, 30, (10 + 100 + 208.) / (100 + 208 + 316), (10 + 110 + 218.) / (100 + 208 + 316)},
		{"trace", func(c *Config) {
			c.Concurrency, c.Requests = 0, 0
			c.Pace = trace.Replay{Rows: []trace.Row{{Input: 600, Blocks: []uint32{1, 2}}, {Input: 1000, Blocks: []uint32{1, 3}}, {Input: 600, Blocks: []uint32{1, 2}}, {Input: 512, Blocks: []uint32{3}}}}
		}, 4, (40 + 512 + 600.) / (2712 + 40), (40 + 512 + 600.) / (2712 + 40)},
	} {
		cfg := base()
		cfg.Concurrency, cfg.Requests, cfg.WarmupRequests = 1, max(1, c.requests), 1
		cfg.Prompts = Prompts{InputTokens: 90, Tokens: exact}
		c.set(&cfg)
		if err := cfg.check(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		low, high := cfg.CacheHits(c.requests, 1)
		if math.Abs(high-c.high) > 1e-9 || low > c.low+1e-9 || low < c.low-0.03 {
			t.Errorf("%s: %g to %g, want %g to %g", c.name, low, high, c.low, c.high)
		}
		if l, h := cfg.CacheHits(c.requests, 64); h != high || l > low {
			t.Errorf("%s: blocks of 64 tokens give %g to %g, of 1 %g to %g", c.name, l, h, low, high)
		}
	}
}

// TestCacheHits_given: given prompts share what their bytes share.
func TestCacheHits_given(t *testing.T) {
	long := strings.Repeat("the same beginning of all ", 200)
	hits := func(texts []string, set func(*Prompts)) float64 {
		c := base()
		c.Concurrency, c.Requests, c.WarmupRequests = 1, 10, 0
		c.Prompts = Prompts{Entries: InlinePrompts(texts), Reuse: true}
		set(&c.Prompts)
		_, high := c.CacheHits(10, 16)
		return high
	}
	var same, own []string
	for i := range 10 {
		same, own = append(same, long+strings.Repeat(string(rune('a'+i)), 5000)), append(own, strings.Repeat(string(rune('a'+i)), 5000))
	}
	none := func(*Prompts) {}
	if h := hits(same, none); h < 0.45 || h > 0.55 {
		t.Errorf("half of each text is the same: %g", h)
	}
	if h := hits(own, none); h > 0.05 {
		t.Errorf("texts of their own: %g", h)
	}
	if h := hits(own[:5], none); h < 0.5 || h > 0.55 {
		t.Errorf("each is asked twice: %g", h)
	}
	if h := hits(own[:5], func(p *Prompts) { p.CacheBust = true }); h > 0.05 {
		t.Errorf("each is asked twice, behind a marker: %g", h)
	}
	if h := hits(own, func(p *Prompts) { p.System = long }); h < 0.45 || h > 0.55 {
		t.Errorf("half of each is the system message: %g", h)
	}
}

// TestCacheHits_uncleared: if a server's cache holds earlier prompts, the first
// request finds the template, and a given prompt finds the beginning that it shares
// with others of the list.
func TestCacheHits_uncleared(t *testing.T) {
	c := base()
	c.Concurrency, c.Requests, c.WarmupRequests = 1, 1, 0
	c.Prompts = Prompts{InputTokens: 90, Tokens: &Tokens{Plain: &Overhead{First: 10}}}
	for uncleared, want := range map[bool]float64{false: 0, true: 0.1} {
		c.Uncleared = uncleared
		if _, high := c.CacheHits(1, 1); math.Abs(high-want) > 1e-9 {
			t.Errorf("uncleared %v: %g, want %g", uncleared, high, want)
		}
	}
	document := strings.Repeat("a document that two trials ask about ", 200)
	c.Prompts = Prompts{Entries: InlinePrompts([]string{document + "first", document + strings.Repeat("second ", 1000), strings.Repeat("own ", 1000)}), First: 1}
	for uncleared, want := range map[bool]float64{false: 0, true: 0.5} {
		c.Uncleared = uncleared
		if _, high := c.CacheHits(1, 1); math.Abs(high-want) > 0.05 {
			t.Errorf("given, uncleared %v: %g, want about %g", uncleared, high, want)
		}
	}
	c.Prompts.First = 2
	if _, high := c.CacheHits(1, 1); high > 0.05 {
		t.Errorf("a prompt that shares nothing: %g", high)
	}
}

// TestSalt: another run's markers are others, and everything behind them is the same.
func TestSalt(t *testing.T) {
	text := func(salt uint64) string {
		c := base()
		c.Concurrency, c.Requests, c.Salt = 1, 1, salt
		c.Prompts = Prompts{InputTokens: 100}
		src, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		j, _ := src.Next(0, nil)
		return j.Prompt.Turns[0]
	}
	a, b := strings.Fields(text(1)), strings.Fields(text(2))
	differ := 0
	for i := range a {
		if a[i] != b[i] {
			differ++
		}
	}
	if len(a) != 100 || len(b) != 100 || differ == 0 || differ > 8 || a[0] == b[0] && a[1] == b[1] {
		t.Errorf("%d of %d and %d words differ", differ, len(a), len(b))
	}
}
