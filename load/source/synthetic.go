package source

import (
	"math"
	"strings"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/chance"
	"sweep.dev/sweep/load/trace"
	"sweep.dev/sweep/result"
)

// synthetic makes text of common words.
//
//	[ shared prefix: its own marker, words ] [ marker of the prompt ] [ words ]
//
// A marker is words that spell a number of 64 bits, eight of the built-in list,
// different for each prompt, attempt, trial and cell. It stands at the very
// start, because a prefix cache compares from there: two prompts differ within
// their first block.
type synthetic struct {
	*Prompts
	scribe
	heads    scribe // of the prefixes
	warm     bool   // they are those of the warm-up too
	shared   int    // words of a whole prefix
	prefixes map[uint64]string
}

// Ids of what is written, beside the numbers of prompts.
const (
	firstPrefix = math.MaxUint64 // and downwards
	firstBlock  = 1 << 40
)

// cachedPrefixes is how many prefixes are kept and not written anew for each
// prompt.
const cachedPrefixes = 64

func newSynthetic(c *Config, phase result.Phase) *synthetic {
	s := &synthetic{Prompts: &c.Prompts, scribe: newScribe(c, phase), prefixes: map[uint64]string{}}
	if s.heads, s.warm = s.scribe, c.WarmPrefixes; s.warm && phase == result.Warmup {
		s.heads = newScribe(c, "")
	}
	s.shared = s.wordsOf(s.SharedPrefix * s.mean())
	return s
}

func (s *synthetic) wordsOf(tokens float64) int {
	return int(math.Round(tokens / s.Tokens.perWord()))
}

func (s *synthetic) prompt(a ask) (load.Prompt, int) {
	r := s.chance(uint64(a.n))
	tokens, maxTokens := s.lengths(r, a)
	words := max(1, s.wordsOf(tokens))
	if a.turn > 0 {
		return load.Prompt{Turns: []string{s.text(uint64(a.n), words)}, Target: result.Unknown}, maxTokens
	}
	var b strings.Builder
	b.Grow(8 * words)
	rest := words
	if len(a.blocks) > 0 {
		rest = s.writeBlocks(&b, a.blocks, words)
	} else if s.shared > 0 {
		rest = s.writePrefix(&b, a.n, words)
	}
	if rest > 0 {
		if rest < words {
			b.WriteByte(' ')
		}
		s.write(&b, uint64(a.n), rest)
	}
	p := load.Prompt{System: s.systemOf(&s.scribe, a.n), Turns: []string{b.String()}}
	p.Target = s.Tokens.target(&p, tokens)
	return p, maxTokens
}

// writePrefix begins a prompt of so many words with the prefix of its group, and
// returns what is left for its own words.
func (s *synthetic) writePrefix(b *strings.Builder, n, words int) int {
	own := max(words-s.shared, min(s.marker, words))
	id := firstPrefix - s.group(n)
	if words-own < s.shared {
		s.heads.write(b, id, words-own)
		return own
	}
	text, ok := s.prefixes[id]
	if !ok {
		text = s.heads.text(id, s.shared)
		if len(s.prefixes) < cachedPrefixes {
			s.prefixes[id] = text
		}
	}
	b.WriteString(text)
	return own
}

// group returns which prefix prompt n has: all by turns, the first by the seed.
func (s *synthetic) group(n int) uint64 {
	of := uint64(max(1, s.PrefixGroups))
	return (s.common[0]%of + uint64(n)) % of
}

// writeBlocks writes what the names stand for, at most so many words, and
// returns how many are left.
func (s *synthetic) writeBlocks(b *strings.Builder, names []uint32, words int) int {
	size := max(1, s.wordsOf(trace.BlockTokens))
	for i, name := range names {
		if words == 0 {
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		n := min(size, words)
		s.write(b, firstBlock+uint64(name), n)
		words -= n
	}
	return words
}

// lengths draws the tokens of a prompt and what to ask for.
func (s *synthetic) lengths(r *chance.Rand, a ask) (tokens float64, maxTokens int) {
	switch {
	case a.tokens > 0:
		return float64(a.tokens), a.maxTokens
	case s.Distribution == Empirical:
		x := s.Pairs[int(r.Uniform()*float64(len(s.Pairs)))]
		return float64(x.Input), x.Output
	}
	return s.length(r), a.maxTokens
}

// length draws the tokens of a prompt. What a tail would make absurd is cut at
// ten times the mean.
func (s *synthetic) length(r *chance.Rand) float64 {
	mean := float64(s.InputTokens)
	sd := s.Spread * mean
	x := mean
	switch s.Distribution {
	case Uniform:
		x = mean + sd*(2*r.Uniform()-1)
	case Normal:
		x = mean + sd*r.Normal()
	case LogNormal:
		// The parameters that give this mean and this standard deviation.
		v := math.Log(1 + s.Spread*s.Spread)
		x = math.Exp(math.Log(mean) - v/2 + math.Sqrt(v)*r.Normal())
	}
	return min(max(x, 1), 10*mean)
}
