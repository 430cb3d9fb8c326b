// Package tokens finds out how a server counts the tokens of a prompt, so that
// made-up prompts have exactly the length that a plan asks for.
//
// It looks for words that are one token each in the server's own tokenizer, next
// to any other words: a text of n of them is n tokens, and a whole
// load of such texts is exact without asking about each. The engine's tokenizer
// is asked where it has an endpoint for that, and else the usage of answers of
// one token. What the server counts beyond the text (the chat template, the
// system message, a token for the beginning) is always told by usage.
package tokens

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/chance"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// How long the texts are, in words, that are asked about: an endpoint that
// counts costs nothing, and a prompt has to be computed and to fit the context.
const (
	longestCounted  = 2000
	longestComputed = 200
)

// A Learner learns from one server. It may be used by several goroutines.
type Learner struct {
	server         Server
	shorts, counts atomic.Int64 // questions so far

	mu    sync.Mutex
	vocab *vocabulary
	by    string
}

// NewLearner makes a learner that has asked nothing yet.
func NewLearner(s Server) *Learner { return &Learner{server: s} }

// Ways to learn.
const (
	ByTokenizer = "tokenizer" // the engine's endpoint
	ByUsage     = "usage"     // of answers of one token
)

// A Learned is what there is to know about one kind of prompt.
type Learned struct {
	Tokens source.Tokens
	// Exact: every text that is made of Tokens has as many tokens as asked for.
	Exact bool
	// Spread is by how much one of 100 tokens is off else: a standard deviation,
	// as a share.
	Spread float64
	Why    string // it is not exact
	By     string // ByTokenizer or ByUsage
	Asked  int    // questions so far, of all kinds of prompts
}

// Learn finds out, by post, how the server counts prompts that are sent as c
// says, with this system message. The first call looks for words: some 30 short questions to
// a tokenizer of whole words, some 300 to one of parts of words. Later ones only
// ask for the overhead: 8 questions of a few words each, and 8 with the system
// message. A given server is asked much less: see [Server.Given].
//
// The error is that of the server: no usage, no answer.
func (l *Learner) Learn(ctx context.Context, post Post, c wire.Config, system string) (Learned, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, err := newShape(post, c)
	if err != nil {
		return Learned{}, fmt.Errorf("tokens: %w", err)
	}
	got, err := l.learn(ctx, s, system)
	if err != nil {
		return Learned{}, fmt.Errorf("tokens: %w", err)
	}
	got.Asked = int(l.shorts.Load() + l.counts.Load())
	return got, nil
}

func (l *Learner) learn(ctx context.Context, s shape, system string) (Learned, error) {
	if l.vocab == nil && l.server.Tokenize != "" {
		e := thorough()
		if l.server.Given {
			e = sparing()
		}
		// An endpoint that is not there, or says something else, is no failure.
		if v, err := search(ctx, l.byTokenizer(s), source.Vocabulary(), longestCounted, e); err == nil {
			l.vocab, l.by = v, ByTokenizer
		} else if ctx.Err() != nil {
			return Learned{}, err
		}
	}
	var plain *source.Overhead
	if l.vocab == nil {
		v, o, err := l.computed(ctx, s)
		if err != nil {
			return Learned{}, err
		}
		l.vocab, l.by, plain = v, ByUsage, o
	}
	got, err := l.overheads(ctx, s, system, plain)
	if err != nil || got.Exact || l.by == ByUsage || !l.vocab.exact {
		return got, err
	}
	// The endpoint counts otherwise than the server does when it computes. Words
	// that usage knows as one token are so in the template as well.
	v, plain, err := l.computed(ctx, s)
	if err != nil || !v.exact {
		return got, ctx.Err()
	}
	l.vocab, l.by = v, ByUsage
	return l.overheads(ctx, s, system, plain)
}

// computed finds words by the usage of answers, and of a given server also the
// plain overhead.
func (l *Learner) computed(ctx context.Context, s shape) (*vocabulary, *source.Overhead, error) {
	if l.server.Given {
		return l.sample(ctx, s)
	}
	v, err := search(ctx, l.byUsage(s), source.Vocabulary(), longestComputed, thorough())
	return v, nil, err
}

// words returns what the vocabulary alone says.
func (l *Learner) words() Learned {
	v := l.vocab
	return Learned{
		Tokens: source.Tokens{Words: v.words, Starts: v.starts, PerWord: v.perWord},
		Exact:  v.exact, Spread: v.spread, Why: v.why, By: l.by,
	}
}

// overheads asks what the server counts beside the words, and whether that is
// the same for all texts. plain is the overhead without a system message, if a
// given server has told it already.
func (l *Learner) overheads(ctx context.Context, s shape, system string, plain *source.Overhead) (Learned, error) {
	if l.server.Given {
		return l.overheadsGiven(ctx, s, system, plain)
	}
	got := l.words()
	first, off, err := l.overhead(ctx, s, "")
	if err != nil {
		return got, err
	}
	got.Tokens.Plain = &first
	if system != "" {
		with, more, err := l.overhead(ctx, s, system)
		if err != nil {
			return got, err
		}
		got.Tokens.System, off = &with, max(off, more)
	}
	got.differs(off)
	return got, nil
}

// differs takes in by how many tokens the overhead differed between prompts. Of
// inexact words it always does.
func (l *Learned) differs(off int) {
	if off > 0 && l.Exact {
		l.Exact, l.Spread = false, float64(off)/100
		l.Why = fmt.Sprintf("what the server counts beside the words differs by up to %d tokens from prompt to prompt", off)
	}
}

// Lengths, in words, of the messages with which the overhead is found.
var (
	questions     = [][]int{{1}, {2}, {5}, {12}, {30}}
	conversations = [][]int{{3, 2, 6}, {7, 2, 5}, {5, 1, 4, 3, 2}}
)

// overhead asks what the server counts beside the words, first for single
// questions and then for conversations. off is by how much that differs from
// question to question, in tokens.
func (l *Learner) overhead(ctx context.Context, s shape, system string) (o source.Overhead, off int, err error) {
	single, err := l.beside(ctx, s, system, questions)
	if err != nil {
		return o, 0, err
	}
	o.First = median(single)
	for _, n := range single {
		off = max(off, abs(n-o.First))
	}
	o.Turn = result.Unknown
	// A server that takes no conversations, or counts each differently, is asked
	// for none whose length must be known.
	talks, err := l.beside(ctx, s, system, conversations)
	if err != nil {
		return o, off, ctx.Err()
	}
	turn := talks[0] - o.First
	if talks[1]-o.First == turn && talks[2]-o.First == 2*turn {
		o.Turn = turn
	}
	return o, off, nil
}

// beside returns what the server counts of prompts beyond their words.
func (l *Learner) beside(ctx context.Context, s shape, system string, lengths [][]int) ([]int, error) {
	r := chance.New(5, uint64(len(lengths)))
	prompts := make([]load.Prompt, len(lengths))
	words := make([]float64, len(lengths))
	for i, turns := range lengths {
		prompts[i].System = system
		for _, n := range turns {
			prompts[i].Turns = append(prompts[i].Turns, l.vocab.text(r, n))
			words[i] += float64(n)
		}
	}
	return each(ctx, len(prompts), l.atOnce(), func(ctx context.Context, i int) (int, error) {
		n, err := l.usage(ctx, s, prompts[i])
		return n - int(math.Round(words[i]*l.vocab.perWord)), err
	})
}

func median(xs []int) int {
	s := slices.Sorted(slices.Values(xs))
	return s[len(s)/2]
}

func abs(n int) int { return max(n, -n) }
