package tokens

import (
	"context"
	"math"
	"slices"

	"sweep.dev/sweep/load/chance"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
)

// sample asks how long four texts are: all words of the list, and some of them. If
// each word is one token, the list is one of such words; else it says how many
// tokens a word is on average.
func (l *Learner) sample(ctx context.Context, s shape) (*vocabulary, *source.Overhead, error) {
	words := source.Vocabulary()
	texts, xs := []string{join(words[0], join(words...))}, []float64{float64(1 + len(words))}
	r := chance.New(7, 8)
	for i, n := range []int{1, 12, 64} {
		from := vocabulary{words: words, starts: words[i+1 : i+2]}
		texts, xs = append(texts, from.text(r, n)), append(xs, float64(n))
	}
	counts, err := ask(ctx, l.byUsage(s), texts)
	if err != nil {
		return nil, nil, err
	}
	v := &vocabulary{words: words, starts: words[:len(texts)], perWord: 1, exact: true}
	beside := counts[0] - int(xs[0])
	for i, n := range counts {
		v.exact = v.exact && n-int(xs[i]) == beside
	}
	if !v.exact {
		at := 0.0
		v.perWord, at, v.spread = fitted(xs, counts)
		beside = max(0, int(math.Round(at)))
		v.why = "some words are more than one token each, and a given server is not asked which"
	}
	return v, &source.Overhead{First: beside, Turn: result.Unknown}, nil
}

// overheadsGiven is overheads with two questions of each kind. An overhead that the
// server does not tell, or may not be asked for any more, stays unknown: see
// [Learned.Refine].
func (l *Learner) overheadsGiven(ctx context.Context, s shape, system string, plain *source.Overhead) (Learned, error) {
	got := l.words()
	off := 0
	one := func(system string) *source.Overhead {
		counts, err := l.beside(ctx, s, system, [][]int{{1}, {30}})
		if err != nil {
			return nil
		}
		off = max(off, abs(counts[1]-counts[0]))
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

// A Sent is the length of a prompt as it was made and as the server counted it, in
// tokens.
type Sent struct{ Target, Counted int }

// Refine learns from prompts that were sent, all with the system message or all
// without it: what the server counts beside the words, if that is not known, or
// else how many tokens a word is, if that is not exact.
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
