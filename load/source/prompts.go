package source

import (
	"errors"
	"fmt"
	"sync/atomic"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
)

// MaxOutputTokens bounds what a prompt of a file may say of its output.
const MaxOutputTokens = 1_000_000

// MaxInputTokens bounds what a synthetic prompt may be asked to hold.
const MaxInputTokens = 4_000_000

// MaxNormalSpread bounds the standard deviation of normal lengths as a share of their
// mean: beyond it what is cut off below one token raises the mean by more than 0.1 %.
const MaxNormalSpread = 0.4

// Prompts says what is asked: made up, if Entries is empty, and else taken from
// Entries in their order.
type Prompts struct {
	// System goes before every prompt that has no system message of its own, or
	// before SystemShare of them, 0 to 1, picked by the seed; nil is all.
	System      string
	SystemShare *float64

	// InputTokens is the mean length of a synthetic prompt: the user's text, the
	// system message and the server's template not counted.
	InputTokens  int
	Distribution Distribution // of the lengths; default Fixed
	// Spread is a share of InputTokens: the half width for Uniform, the
	// standard deviation for Normal and LogNormal.
	Spread float64
	// Pairs are what Empirical draws from, in the place of InputTokens and Spread.
	Pairs []Pair
	// SharedPrefix is the share of InputTokens that the measured prompts of a
	// trial begin with, 0 to 1. The rest is each prompt's own, at the least a
	// marker: 8 words of the built-in list. A prompt that is drawn shorter than
	// both has so much less of the prefix.
	SharedPrefix float64
	// PrefixGroups is how many different prefixes there are, which prompts have
	// by turns; 0 is 1.
	PrefixGroups int
	// Tokens is how the server counts; nil if it was not asked.
	Tokens *Tokens

	// Entries are given prompts, and Rest, if not nil, are those behind them. First is
	// the index of the first to use, so that trials can take turns through one file.
	Entries []Entry
	Rest    *Rest `json:"-"`
	First   int
	// Reuse lets the entries be asked again from the start once they are used
	// up. Without it too few entries are an error, because a server that has
	// seen a prompt answers it from its cache.
	Reuse bool
	// CacheBust puts a marker before each given prompt, and before the system
	// message of one that has one: no two requests share a prefix, in no attempt.
	CacheBust bool
}

// A Pair is the lengths of one request, in tokens.
type Pair struct{ Input, Output int }

// MaxPrefixGroups bounds the different prefixes of a load.
const MaxPrefixGroups = 1_000_000

// An Entry is a given prompt.
type Entry struct {
	Prompt load.Prompt
	// Turns are the whole conversation of an entry that has several questions,
	// of which Prompt may ask the first alone: messages of user and assistant by
	// turns, the user's first and last. Nil if there is one question.
	Turns     []string
	MaxTokens int // 0 if the entry says nothing
}

// A Rest is given prompts that are too many for the memory.
type Rest struct {
	Questions []int32 // of each; see [Entry.Questions]
	// Read reads one, without waiting for more than a file. An error ends the load.
	// Several goroutines may call it.
	Read func(i int) (Entry, error)

	err atomic.Pointer[error] // the first
}

// Count returns how many given prompts there are.
func (p *Prompts) Count() int {
	if p.Rest == nil {
		return len(p.Entries)
	}
	return len(p.Entries) + len(p.Rest.Questions)
}

// entry returns the given prompt in place i of all. It has no turn if it cannot be read.
func (p *Prompts) entry(i int) Entry {
	if i < len(p.Entries) {
		return p.Entries[i]
	}
	e, err := p.Rest.Read(i - len(p.Entries))
	if err != nil {
		p.Rest.err.CompareAndSwap(nil, &err)
		return Entry{}
	}
	return e
}

// Err returns why a given prompt could not be read; nil if all could.
func (p *Prompts) Err() error {
	if p.Rest == nil || p.Rest.err.Load() == nil {
		return nil
	}
	return *p.Rest.err.Load()
}

// Questions returns the messages of the user's in an entry's conversation.
func (e *Entry) Questions() []string {
	turns := e.Turns
	if turns == nil {
		turns = e.Prompt.Turns
	}
	var q []string
	for i := 0; i < len(turns); i += 2 {
		q = append(q, turns[i])
	}
	return q
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
	// Empirical draws one of the pairs for each request, with equal chances: its
	// length and what it asks for.
	Empirical Distribution = "empirical"
)

// check looks at what can be known before the first prompt; need is how many
// there will be, or -1.
func (p *Prompts) check(need int) error {
	if s := p.SystemShare; s != nil && !(*s >= 0 && *s <= 1) {
		return fmt.Errorf("a share of %g requests with a system message is not between 0 and 1", *s)
	}
	if len(p.Entries) > 0 {
		return p.checkEntries(need)
	}
	switch {
	case p.Distribution != Empirical && (p.InputTokens < 1 || p.InputTokens > MaxInputTokens):
		return fmt.Errorf("synthetic prompts of %d input tokens are not between 1 and %d", p.InputTokens, MaxInputTokens)
	case !(p.SharedPrefix >= 0 && p.SharedPrefix <= 1):
		return fmt.Errorf("shared prefix %g is not between 0 and 1", p.SharedPrefix)
	case p.PrefixGroups < 0 || p.PrefixGroups > MaxPrefixGroups:
		return fmt.Errorf("%d groups of prompts with a prefix are not between 0 and %d", p.PrefixGroups, MaxPrefixGroups)
	case p.PrefixGroups > 1 && p.SharedPrefix == 0:
		return errors.New("groups of prompts with a prefix have no meaning without a shared prefix")
	case p.CacheBust:
		return errors.New("synthetic prompts begin with markers of their own: a cache-busting one has no meaning")
	case !(p.Tokens.perWord() > 0 && p.Tokens.perWord() <= 100):
		return fmt.Errorf("%g tokens per word are not between 0 and 100", p.Tokens.PerWord)
	case p.Distribution == Normal && p.Spread > MaxNormalSpread:
		return fmt.Errorf("a normal distribution with a spread of %g has lengths below nothing, which make it longer than asked: at most %g", p.Spread, MaxNormalSpread)
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
	case Empirical:
		return p.checkPairs()
	default:
		return fmt.Errorf("distribution %q is not known: fixed, uniform, normal, lognormal or empirical", p.Distribution)
	}
	if len(p.Pairs) > 0 {
		return errors.New("pairs of lengths have no meaning but for an empirical distribution")
	}
	return nil
}

func (p *Prompts) checkPairs() error {
	if len(p.Pairs) == 0 {
		return errors.New("an empirical distribution of lengths needs pairs")
	}
	if p.Spread != 0 {
		return errors.New("spread has no meaning for an empirical distribution of lengths")
	}
	for i, x := range p.Pairs {
		if err := x.Check(); err != nil {
			return fmt.Errorf("pair %d: %w", i+1, err)
		}
	}
	return nil
}

// Check bounds both lengths.
func (x Pair) Check() error {
	switch {
	case x.Input < 1 || x.Input > MaxInputTokens:
		return fmt.Errorf("an input of %d tokens is not between 1 and %d", x.Input, MaxInputTokens)
	case x.Output < 1 || x.Output > MaxOutputTokens:
		return fmt.Errorf("an output of %d tokens is not between 1 and %d", x.Output, MaxOutputTokens)
	}
	return nil
}

// mean returns the mean length of a synthetic prompt.
func (p *Prompts) mean() float64 {
	if p.Distribution != Empirical {
		return float64(p.InputTokens)
	}
	sum := 0.0
	for _, x := range p.Pairs {
		sum += float64(x.Input)
	}
	return sum / float64(max(1, len(p.Pairs)))
}

func (p *Prompts) checkEntries(need int) error {
	switch {
	case p.First < 0:
		return errors.New("the first prompt to use has a negative index")
	case p.Reuse:
		return nil
	case need < 0:
		return errors.New("a load that only time bounds may need more prompts than there are: set requests, or allow their reuse")
	case need > p.Count()-p.First:
		return fmt.Errorf("%d prompts are needed and %d are left (of %d): give more, or allow their reuse",
			need, max(0, p.Count()-p.First), p.Count())
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
	// blocks names what its text consists of, in blocks of trace.BlockTokens.
	tokens int
	blocks []uint32
	// maxTokens is what the request shall ask for, unless its prompt says
	// otherwise; 0 is nothing.
	maxTokens int
}

// A prompter makes the prompts of a trial, and says what to ask for as
// max_tokens: a bound of a prompt's own that is lower, or the output of a drawn pair.
// A prompt without a turn is one that could not be read.
type prompter interface {
	prompt(a ask) (p load.Prompt, maxTokens int)
}

func (c *Config) prompter(phase result.Phase) prompter {
	if len(c.Prompts.Entries) > 0 {
		return &pool{&c.Prompts, newScribe(c, phase)}
	}
	return newSynthetic(c, phase)
}

// A pool is given prompts.
type pool struct {
	*Prompts
	scribe scribe
}

func (p *pool) prompt(a ask) (load.Prompt, int) {
	e := p.entry((p.First + a.entry) % p.Count())
	if e.Prompt.Turns == nil {
		return load.Prompt{}, 0
	}
	maxTokens := a.maxTokens
	if e.MaxTokens > 0 && (maxTokens == 0 || e.MaxTokens < maxTokens) {
		maxTokens = e.MaxTokens
	}
	if a.turn > 0 {
		q := e.Questions()
		return load.Prompt{Turns: q[min(a.turn, len(q)-1):][:1], Target: result.Unknown}, maxTokens
	}
	if e.Prompt.System == "" {
		e.Prompt.System = p.systemOf(&p.scribe, a.n)
	}
	if p.CacheBust {
		mark := p.scribe.text(uint64(a.n), p.scribe.marker) + " "
		if e.Prompt.System != "" {
			e.Prompt.System = mark + e.Prompt.System
		} else {
			e.Prompt.Turns = append([]string{mark + e.Prompt.Turns[0]}, e.Prompt.Turns[1:]...)
		}
	}
	return e.Prompt, maxTokens
}

// systemOf returns the system message that request n carries.
func (p *Prompts) systemOf(w *scribe, n int) string {
	if s := p.SystemShare; p.System == "" || s == nil || *s >= 1 || w.chance(uint64(n)^1<<62).Uniform() < *s {
		return p.System
	}
	return ""
}
