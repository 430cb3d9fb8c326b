package tokens

import (
	"context"
	"math"
	"slices"

	"sweep.dev/sweep/load/draw"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
)

// learnGiven is learn for a server of somebody else. Its tokenizer is asked if it
// has one; else four short requests tell how many tokens a word is. What the
// server counts beside the words is told by two more, and by two with the system
// message. What is left unknown may be learned from the warm-up: see [Learned.Refine].
func (l *Learner) learnGiven(ctx context.Context, s shape, system string) (Learned, error) {
	var plain *source.Overhead
	if l.vocab == nil && l.server.Tokenize != "" {
		if v, err := search(ctx, l.byTokenizer(s), source.Vocabulary(), longestCounted, sparing()); err == nil {
			l.vocab, l.by = v, ByTokenizer
		} else if ctx.Err() != nil {
			return Learned{}, err
		}
	}
	if l.vocab == nil {
		v, o, err := l.sample(ctx, s)
		if err != nil {
			return Learned{}, err
		}
		l.vocab, l.by, plain = v, ByUsage, &o
	}
	got, err := l.besideGiven(ctx, s, system, plain)
	if err != nil || got.Exact || l.by == ByUsage || !l.vocab.exact {
		return got, err
	}
	// The tokenizer counts otherwise than the server does when it computes.
	if v, o, err := l.sample(ctx, s); err == nil && v.exact {
		l.vocab, l.by = v, ByUsage
		return l.besideGiven(ctx, s, system, &o)
	}
	return got, ctx.Err()
}

// sampled are the lengths, in words, of the texts that sample asks about; 0 is all
// words of the list, each once, behind one of them.
func sampled() []int { return []int{0, 1, 12, 64} }

// sample asks how long four texts are. If each word of them is one token, the list
// is one of such words; else it says how many tokens a word is on average.
func (l *Learner) sample(ctx context.Context, s shape) (*vocabulary, source.Overhead, error) {
	words := source.Vocabulary()
	starts := words[:len(sampled())]
	r := draw.New(7, 8)
	var texts []string
	var xs []float64
	for i, n := range sampled() {
		list := words
		if n > 0 {
			list = make([]string, n-1)
			for j := range list {
				list[j] = words[int(r.Uniform()*float64(len(words)))]
			}
		}
		texts = append(texts, join(append([]string{starts[i]}, list...)...))
		xs = append(xs, float64(1+len(list)))
	}
	none := source.Overhead{}
	counts, err := ask(ctx, l.byUsage(s), texts)
	if err != nil {
		return nil, none, err
	}
	v := &vocabulary{words: words, starts: starts, perWord: 1, exact: true}
	beside := counts[0] - int(xs[0])
	for i, n := range counts {
		v.exact = v.exact && n-int(xs[i]) == beside
	}
	if !v.exact {
		at := 0.0
		v.perWord, at, v.spread = fitted(xs, counts)
		beside = max(0, int(math.Round(at)))
		v.why = "some words are more than one token each, and a server of somebody else is not asked which"
	}
	return v, source.Overhead{First: beside, Turn: result.Unknown}, nil
}

// besideGiven completes the words by what the server counts beside them, plain
// where that is known already. What it does not say, or may not be asked any more,
// stays unknown.
func (l *Learner) besideGiven(ctx context.Context, s shape, system string, plain *source.Overhead) (Learned, error) {
	got := l.words()
	off := 0
	one := func(system string) *source.Overhead {
		counts, err := l.beside(ctx, s, system, [][]int{{1}, {30}})
		if err != nil {
			return nil
		}
		if l.vocab.exact {
			off = max(off, abs(counts[1]-counts[0]))
		}
		return &source.Overhead{First: counts[0], Turn: result.Unknown}
	}
	if got.Tokens.Plain = plain; plain == nil {
		got.Tokens.Plain = one("")
	}
	if system != "" {
		got.Tokens.System = one(system)
	}
	got.differs(off)
	return got, ctx.Err()
}

// A Sent is a prompt that was made by what was learned, and how long it was.
type Sent struct{ Target, Counted int } // tokens

// Refine corrects what was learned by prompts that were sent, all with the system
// message or all without it: what the server counts beside the words, if that is
// not known, and else how many tokens a word is, if that is not exact.
func (l *Learned) Refine(sent []Sent, system bool) {
	if len(sent) == 0 {
		return
	}
	o := &l.Tokens.Plain
	if system {
		o = &l.Tokens.System
	}
	if *o == nil {
		var beside []int
		for _, p := range sent {
			beside = append(beside, p.Counted-p.Target)
		}
		if slices.Min(beside) >= 0 { // else it counts fewer tokens than words
			*o = &source.Overhead{First: median(beside), Turn: result.Unknown}
		}
		return
	}
	if l.Exact {
		return
	}
	var target, counted, squares float64
	for _, p := range sent {
		target += float64(p.Target - (*o).First)
		counted += float64(p.Counted - (*o).First)
	}
	if target <= 0 || counted <= 0 {
		return
	}
	ratio := counted / target
	for _, p := range sent {
		want := ratio * float64(p.Target-(*o).First)
		off := float64(p.Counted-(*o).First) - want
		squares += off * off / max(1, want)
	}
	l.Tokens.PerWord *= ratio
	l.Spread = math.Sqrt(squares/float64(len(sent))*100) / 100
}
