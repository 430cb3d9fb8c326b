package source

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/result"
)

func common(a, b string) (n int) {
	x, y := strings.Fields(a), strings.Fields(b)
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	return n
}

// TestSynthetic_exact: every prompt has as many words as its length says, also
// where it is shorter than the prefix or a marker.
func TestSynthetic_exact(t *testing.T) {
	tokens := &Tokens{Words: vocabulary[20:60], Starts: vocabulary[20:23], Plain: &Overhead{First: 7}, System: &Overhead{First: 30}}
	for _, p := range []Prompts{
		{InputTokens: 1},
		{InputTokens: 9},
		{InputTokens: 100, SharedPrefix: 1},
		{InputTokens: 100, SharedPrefix: 0.6, PrefixGroups: 3, Distribution: LogNormal, Spread: 2},
		{InputTokens: 40, System: "s"},
	} {
		p.Tokens = tokens
		c := base()
		c.Prompts = p
		if err := c.Prompts.check(10); err != nil {
			t.Fatal(err)
		}
		s := newSynthetic(&c, "")
		for n := range 300 {
			got, _ := s.prompt(ask{n: n})
			words := strings.Fields(got.Turns[0])
			over := 7
			if p.System != "" {
				over = 30
			}
			if got.Target != len(words)+over || p.Distribution == "" && len(words) != p.InputTokens {
				t.Fatalf("%+v: %d words for a target of %d", p, len(words), got.Target)
			}
			if !slices.Contains(tokens.Starts, words[0]) {
				t.Fatalf("%+v: begins with %q", p, words[0])
			}
			if i := slices.IndexFunc(words, func(w string) bool { return !slices.Contains(tokens.Words, w) }); i >= 0 {
				t.Fatalf("%+v: has %q", p, words[i])
			}
		}
	}
}

// TestMarker: with few words a marker has more of them, and still no two
// prompts begin alike.
func TestMarker(t *testing.T) {
	for _, c := range []struct{ words, starts, marker int }{{256, 256, 8}, {64, 64, 11}, {64, 1, 12}, {16, 3, 17}, {2, 1, 65}, {1, 1, 1}} {
		cfg := base()
		cfg.Prompts.InputTokens = 100
		cfg.Prompts.Tokens = &Tokens{Words: vocabulary[:c.words], Starts: vocabulary[:c.starts]}
		s := newSynthetic(&cfg, "")
		if s.marker != c.marker {
			t.Errorf("%+v: a marker of %d words", c, s.marker)
		}
		seen := map[string]bool{}
		for n := range 2000 {
			p, _ := s.prompt(ask{n: n})
			seen[strings.Join(strings.Fields(p.Turns[0])[:s.marker], " ")] = true
		}
		if c.words > 1 && len(seen) != 2000 {
			t.Errorf("%+v: %d different markers", c, len(seen))
		}
	}
}

func TestSynthetic_groups(t *testing.T) {
	c := base()
	c.Prompts = Prompts{InputTokens: 60, SharedPrefix: 0.5, PrefixGroups: 3}
	s := newSynthetic(&c, "")
	text := func(n int) string { p, _ := s.prompt(ask{n: n}); return p.Turns[0] }
	for a := range 12 {
		for b := range a {
			n := common(text(a), text(b))
			if same := (a-b)%3 == 0; same && (n < 30 || n > 32) || !same && n > 3 {
				t.Errorf("prompts %d and %d share %d words", a, b, n)
			}
		}
	}
}

// A warm-up has prefixes of its own, or those of the load.
func TestSynthetic_warmPrefixes(t *testing.T) {
	heads := func(warm bool, phase result.Phase) map[string]bool {
		c := base()
		c.Concurrency, c.Requests, c.Phase, c.WarmPrefixes = 1, 40, phase, warm
		c.WarmupDuration = time.Minute
		c.Prompts = Prompts{InputTokens: 60, SharedPrefix: 0.5, PrefixGroups: 4}
		src, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]bool{}
		for range 8 {
			j, ok := src.Next(0, nil)
			if !ok {
				t.Fatal("the source has ended")
			}
			all[strings.Join(strings.Fields(j.Prompt.Turns[0])[:30], " ")] = true
		}
		return all
	}
	load := heads(false, "")
	if got := heads(true, ""); !maps.Equal(got, load) || len(load) != 4 {
		t.Errorf("the load has %d prefixes, or others than without a warm-up that has them", len(got))
	}
	if got := heads(true, result.Warmup); !maps.Equal(got, load) {
		t.Error("the warm-up does not have the prefixes of the load")
	}
	for head := range heads(false, result.Warmup) {
		if load[head] {
			t.Errorf("a warm-up with prefixes of its own has %q", head)
		}
	}
}

func TestSynthetic_pairs(t *testing.T) {
	c := base()
	c.MaxTokens = 5
	pairs := []Pair{{10, 100}, {20, 200}, {400, 3}}
	c.Prompts = Prompts{Distribution: Empirical, Pairs: pairs}
	if err := c.Prompts.check(10); err != nil {
		t.Fatal(err)
	}
	s := newSynthetic(&c, "")
	seen := map[Pair]int{}
	for n := range 3000 {
		p, tokens := s.prompt(ask{n: n, maxTokens: 5})
		seen[Pair{len(strings.Fields(p.Turns[0])), tokens}]++
	}
	if len(seen) != 3 {
		t.Errorf("lengths %v", seen)
	}
	for _, x := range pairs {
		if math.Abs(float64(seen[x])-1000) > 120 {
			t.Errorf("pair %v was drawn %d times of 3000", x, seen[x])
		}
	}
	for _, bad := range []Prompts{
		{Distribution: Empirical},
		{Distribution: Empirical, Pairs: []Pair{{0, 1}}},
		{Distribution: Empirical, Pairs: []Pair{{1, 0}}},
		{Distribution: Empirical, Pairs: pairs, Spread: 1},
		{InputTokens: 5, Pairs: pairs},
		{InputTokens: 5, PrefixGroups: 2},
		{InputTokens: 5, CacheBust: true},
	} {
		if bad.check(1) == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestSynthetic_blocks: recorded prompts share the text of the blocks that they
// begin with.
func TestSynthetic_blocks(t *testing.T) {
	c := base()
	s := newSynthetic(&c, "")
	text := func(n, tokens int, blocks ...uint32) string {
		p, _ := s.prompt(ask{n: n, tokens: tokens, blocks: blocks})
		if words := len(strings.Fields(p.Turns[0])); words != tokens || p.Target != tokens {
			t.Fatalf("%d words, a target of %d, want %d", words, p.Target, tokens)
		}
		return p.Turns[0]
	}
	a := text(0, 1300, 1, 2, 3)
	for _, x := range []struct {
		text string
		want int
	}{
		{text(1, 1300, 1, 2, 3), 1300},
		{text(2, 1030, 1, 2, 4), 1024},
		{text(3, 900, 1, 5), 512},
		{text(4, 700, 1), 512},
		{text(5, 100, 1), 100},
		{text(6, 600, 2, 1), 0},
		{text(7, 600), 0},
	} {
		if n := common(a, x.text); n < x.want || n > x.want+2 {
			t.Errorf("%d words in common, want %d", n, x.want)
		}
	}
}

func TestSystemShare(t *testing.T) {
	share := 0.3
	for _, entries := range [][]Entry{nil, InlinePrompts([]string{"a"})} {
		c := base()
		c.Prompts = Prompts{InputTokens: 5, System: "s", SystemShare: &share, Entries: entries, Reuse: true}
		p := c.prompter("")
		n := 0
		for i := range 2000 {
			if got, _ := p.prompt(ask{n: i}); got.System == "s" {
				n++
			}
		}
		if n < 540 || n > 660 {
			t.Errorf("%d of 2000 carry the system message, want 600", n)
		}
	}
}

func TestCacheBust(t *testing.T) {
	prompts := func(trial, attempt int, phase result.Phase, system string) (all []string) {
		c := base()
		c.Trial, c.Attempt = trial, attempt
		c.Prompts = Prompts{System: system, Entries: InlinePrompts([]string{"ask me", "and me"}), Reuse: true, CacheBust: true}
		p := c.prompter(phase)
		for i := range 4 {
			got, _ := p.prompt(ask{n: i, entry: i})
			if !strings.HasSuffix(got.Turns[0], " me") || system != "" && (len(got.Turns[0]) != 6 || !strings.HasSuffix(got.System, " "+system)) {
				t.Errorf("%+v", got)
			}
			all = append(all, got.System+got.Turns[0])
		}
		return all
	}
	for _, system := range []string{"", "brief"} {
		all := slices.Concat(prompts(1, 1, "", system), prompts(1, 2, "", system), prompts(2, 1, "", system), prompts(1, 1, result.Warmup, system))
		for i := range all {
			for j := range i {
				if n := common(all[i], all[j]); n > 3 {
					t.Errorf("prompts %d and %d share %d words: %s", i, j, n, all[i])
				}
			}
		}
	}
	c := base()
	c.Prompts = Prompts{Entries: InlinePrompts([]string{"ask me"}), CacheBust: true}
	c.prompter("").prompt(ask{})
	if got := c.Prompts.Entries[0].Prompt.Turns[0]; got != "ask me" {
		t.Errorf("the entry itself became %q", got)
	}
}
