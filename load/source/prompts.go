package source

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/draw"
	"sweep.dev/sweep/result"
)

// MaxInputTokens bounds what a synthetic prompt may be asked to hold.
const MaxInputTokens = 4_000_000

// Prompts says what is asked: made up, if Entries is empty, and else taken from
// Entries in their order.
type Prompts struct {
	// System goes before every prompt that has no system message of its own.
	System string

	// InputTokens is the mean length of a synthetic prompt, the system message
	// and the server's template not counted.
	InputTokens  int
	Distribution Distribution // of the lengths; default Fixed
	// Spread is a share of InputTokens: the half width for Uniform, the
	// standard deviation for Normal and LogNormal.
	Spread float64
	// SharedPrefix is the share of InputTokens that all measured prompts of a
	// trial begin with, 0 to 1. The rest is each prompt's own, at the least a
	// marker of 8 words.
	SharedPrefix float64
	// TokensPerWord is how many tokens a model makes of a word of the made-up
	// text; 0 is 1, about right for the tokenizers of 2024 and later.
	TokensPerWord float64

	// Entries are given prompts; First is the index of the first to use, so
	// that trials can take turns through one file.
	Entries []Entry
	First   int
	// Reuse lets the entries be asked again from the start once they are used
	// up. Without it too few entries are an error, because a server that has
	// seen a prompt answers it from its cache.
	Reuse bool
}

// An Entry is a given prompt.
type Entry struct {
	Prompt    load.Prompt
	MaxTokens int // 0 where the entry says nothing
	Line      int // in its file, from 1; 0 where it is from none
}

// InlinePrompts makes entries of texts.
func InlinePrompts(texts []string) []Entry {
	entries := make([]Entry, len(texts))
	for i, t := range texts {
		entries[i] = Entry{Prompt: load.Prompt{Turns: []string{t}, Target: result.Unknown}}
	}
	return entries
}

// Distribution is how the lengths of synthetic prompts vary.
type Distribution string

// The distributions. The zero value is Fixed.
const (
	Fixed     Distribution = "fixed"
	Uniform   Distribution = "uniform"
	Normal    Distribution = "normal"
	LogNormal Distribution = "lognormal"
)

// check looks at what can be known before the first prompt; need is how many
// there will be, or -1.
func (p *Prompts) check(need int) error {
	if len(p.Entries) > 0 {
		return p.checkEntries(need)
	}
	switch {
	case p.InputTokens < 1 || p.InputTokens > MaxInputTokens:
		return fmt.Errorf("synthetic prompts of %d input tokens are not between 1 and %d", p.InputTokens, MaxInputTokens)
	case !(p.SharedPrefix >= 0 && p.SharedPrefix <= 1):
		return fmt.Errorf("shared prefix %g is not between 0 and 1", p.SharedPrefix)
	case !(p.TokensPerWord >= 0 && p.TokensPerWord <= 100):
		return fmt.Errorf("%g tokens per word are not between 0 and 100", p.TokensPerWord)
	case !(p.Spread >= 0 && p.Spread <= 10):
		return fmt.Errorf("spread %g is not between 0 and 10", p.Spread)
	}
	switch p.Distribution {
	case "", Fixed:
		if p.Spread != 0 {
			return errors.New("spread has no meaning for prompts of a fixed length")
		}
	case Uniform, Normal, LogNormal:
		if p.Spread == 0 {
			return fmt.Errorf("a %s distribution of lengths needs a spread", p.Distribution)
		}
	default:
		return fmt.Errorf("distribution %q is not known: fixed, uniform, normal or lognormal", p.Distribution)
	}
	return nil
}

func (p *Prompts) checkEntries(need int) error {
	switch {
	case p.First < 0:
		return errors.New("the first prompt to use has a negative index")
	case p.Reuse:
		return nil
	case need < 0:
		return errors.New("a load that only time bounds may need more prompts than there are: set requests, or allow their reuse")
	case need > len(p.Entries)-p.First:
		return fmt.Errorf("%d prompts are needed and %d are left (of %d): give more, or allow their reuse",
			need, max(0, len(p.Entries)-p.First), len(p.Entries))
	}
	return nil
}

// An ask says which prompt is due.
type ask struct {
	// n is its number in the trial, the warm-up included: no two asks of a trial
	// have the same. entry is that of the given prompt to take; it is n but in
	// conversations, whose turns all take one entry.
	n, entry int
	// turn is its place in a conversation. A later one is a message of the
	// user's alone, without the prefix and the system message of the first.
	turn int
	// tokens is the length of a recorded request; 0 leaves it to be drawn.
	// blocks names what its text consists of, in blocks of a fixed length.
	tokens int
	blocks []uint32
}

// A prompter makes the prompts of a trial. limit is the prompt's own bound on
// the output, 0 for none.
type prompter interface {
	prompt(a ask) (p load.Prompt, limit int)
}

func (c *Config) prompter(phase result.Phase) prompter {
	if len(c.Prompts.Entries) > 0 {
		return &pool{&c.Prompts}
	}
	return newSynthetic(c, phase)
}

// A pool is given prompts.
type pool struct{ *Prompts }

func (p *pool) prompt(a ask) (load.Prompt, int) {
	e := p.Entries[(p.First+a.entry)%len(p.Entries)]
	if e.Prompt.System == "" {
		e.Prompt.System = p.System
	}
	return e.Prompt, e.MaxTokens
}

// synthetic makes text of common words.
//
//	[ shared prefix: its own marker, words ] [ marker of the prompt ] [ words ]
//
// A marker is eight words that spell a number of 64 bits, different for each
// prompt, attempt, trial and cell. It stands at the very start, because a prefix cache
// compares from there: two prompts differ within their first block.
type synthetic struct {
	Prompts
	perWord float64
	key, lo uint64
	salt    uint64 // of the markers
	prefix  string
	shared  int // words of prefix
}

const markerWords = 8

func newSynthetic(c *Config, phase result.Phase) *synthetic {
	s := &synthetic{Prompts: c.Prompts, perWord: c.Prompts.TokensPerWord}
	if s.perWord == 0 {
		s.perWord = 1
	}
	s.key, s.lo = c.digest("prompts" + string(phase))
	s.salt = uint64(max(c.Attempt, 1)-1) << 48 // above every n
	s.shared = int(math.Round(s.SharedPrefix * float64(s.InputTokens) / s.perWord))
	if s.shared > 0 {
		// The prefix is seeded as a prompt that no request has.
		var b strings.Builder
		s.write(&b, math.MaxUint64, s.shared)
		s.prefix = b.String() + " "
	}
	return s
}

func (s *synthetic) prompt(a ask) (load.Prompt, int) {
	r := s.rng(uint64(a.n))
	words := int(math.Round(s.length(r) / s.perWord))
	own := max(markerWords, words-s.shared)
	var b strings.Builder
	b.Grow(len(s.prefix) + 8*own)
	b.WriteString(s.prefix)
	s.write(&b, uint64(a.n), own)
	return load.Prompt{
		System: s.System,
		Turns:  []string{b.String()},
		Target: int(math.Round(float64(s.shared+own) * s.perWord)),
	}, 0
}

// length draws the tokens of a prompt. What a tail would make absurd is cut at
// ten times the mean.
func (s *synthetic) length(r *draw.Rand) float64 {
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

// write writes the marker of n and then words drawn for n.
func (s *synthetic) write(b *strings.Builder, n uint64, words int) {
	mark := draw.Scramble(s.key ^ n ^ s.salt)
	r := s.rng(n ^ 1<<63)
	var word uint64
	for i := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		if i < markerWords {
			b.WriteString(vocabulary[byte(mark)])
			mark >>= 8
			continue
		}
		if i%8 == 0 {
			word = r.Uint64()
		}
		b.WriteString(vocabulary[byte(word)])
		word >>= 8
	}
}

func (s *synthetic) rng(n uint64) *draw.Rand {
	return draw.New(s.lo, draw.Scramble(n^bits.RotateLeft64(s.key, 32)))
}
