package source

import (
	"math"
	"math/bits"
	"strings"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/chance"
	"sweep.dev/sweep/result"
)

// Tokens describes how a server counts a prompt. Package tokens finds
// it out. The zero value knows nothing: made-up text then has one word of a
// built-in list for each token, which is about right for the tokenizers of 2024
// and later.
type Tokens struct {
	// Words make up the text: with the space before it each is one token of the
	// server's, whatever words stand around it. Empty is the built-in list.
	Words []string
	// Starts are those of Words that are one token as the first word of a message
	// too. Empty is all of them.
	Starts []string
	// PerWord is how many tokens a word is on average, where no list of words of
	// one token each was found; 0 is 1.
	PerWord float64
	// Plain and System are what the server counts beyond the words, without the
	// system message and with it. Nil is not known.
	Plain, System *Overhead
}

// An Overhead is the tokens of a prompt that are not the user's text: the chat
// template, the system message, a token for the beginning.
type Overhead struct {
	First int // if there is one message of the user's
	Turn  int // more for each answer and message that follow; result.Unknown where that differs
}

// Of returns the overhead of a prompt of so many turns, answers included, or
// result.Unknown.
func (o Overhead) Of(turns int) int {
	if turns > 1 && o.Turn == result.Unknown {
		return result.Unknown
	}
	return o.First + max(0, turns-1)/2*o.Turn
}

// perWord returns how many tokens a word is.
func (t *Tokens) perWord() float64 {
	if t == nil || t.PerWord == 0 {
		return 1
	}
	return t.PerWord
}

// target returns what a server should count of a prompt whose text was made for so
// many tokens; without its own overhead where that is not known.
func (t *Tokens) target(p *load.Prompt, tokens float64) int {
	n := max(1, int(math.Round(tokens)))
	if o := t.overhead(p); o != nil {
		n += o.First // made-up prompts have one turn
	}
	return n
}

func (t *Tokens) overhead(p *load.Prompt) *Overhead {
	switch {
	case t == nil:
		return nil
	case p.System != "":
		return t.System
	}
	return t.Plain
}

// A scribe writes words that follow from a seed.
type scribe struct {
	words, starts []string
	marker        int       // words that spell a number of 64 bits
	key, lo       uint64    // of this cell's texts
	common        [2]uint64 // of what all cells of this load share
	salt          uint64    // of the markers
}

func newScribe(c *Config, phase result.Phase) scribe {
	w := scribe{words: vocabulary[:]}
	if t := c.Prompts.Tokens; t != nil && len(t.Words) > 0 {
		w.words, w.starts = t.Words, t.Starts
	}
	if len(w.starts) == 0 {
		w.starts = w.words
	}
	// The smallest count of digits that can spell every number. A list of one word
	// cannot spell numbers.
	w.marker = 1
	if len(w.words) > 1 {
		w.marker += int(math.Ceil((64 - math.Log2(float64(len(w.starts)))) / math.Log2(float64(len(w.words)))))
	}
	w.key, w.lo = c.own("prompts" + string(phase))
	w.common[0], w.common[1] = c.common("prompts" + string(phase))
	w.salt = c.Salt ^ uint64(max(c.Attempt, 1)-1)<<48 // above every id but those of blocks and prefixes
	return w
}

// write writes the marker of id, or what of it fits, and then words drawn for id.
func (w *scribe) write(b *strings.Builder, id uint64, words int) {
	mark := chance.Scramble(w.key ^ id ^ w.salt)
	r := w.rng(id ^ 1<<63)
	var pick uint64
	list := w.starts
	for i := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		if i < w.marker {
			k := uint64(len(list))
			b.WriteString(list[mark%k])
			mark /= k
			list = w.words
			continue
		}
		if i%8 == 0 || i == w.marker {
			pick = r.Uint64()
		}
		b.WriteString(list[int(pick&0xff)*len(list)>>8])
		pick >>= 8
	}
}

// text returns what write writes.
func (w *scribe) text(id uint64, words int) string {
	var b strings.Builder
	b.Grow(8 * words)
	w.write(&b, id, words)
	return b.String()
}

// rng returns a stream of its own for each id, for the words of its text.
func (w *scribe) rng(id uint64) *chance.Rand { return stream(w.key, w.lo, id) }

// chance returns that of what the cells of one load have in common: lengths, and which
// request has what.
func (w *scribe) chance(id uint64) *chance.Rand { return stream(w.common[0], w.common[1], id) }

func stream(hi, lo, id uint64) *chance.Rand {
	return chance.New(lo, chance.Scramble(id^bits.RotateLeft64(hi, 32)))
}
