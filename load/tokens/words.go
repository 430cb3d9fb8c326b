package tokens

import (
	"context"
	"math"
	"slices"

	"sweep.dev/sweep/load/chance"
)

// Bounds of the search for words.
const (
	minWords = 16 // fewer make dull text, and markers of 16 words
	chunk    = 8
)

// An effort is how much a search asks.
type effort struct {
	words  int // enough, where each further one costs questions
	starts int // words that are asked about as the first of a text
	alone  int // words that are asked about one by one to find those
}

func thorough() effort { return effort{words: 64, starts: 24, alone: 256} }
func sparing() effort  { return effort{words: 40, starts: 8, alone: 96} }

// A vocabulary is words of which each is one token, or if there are none, how
// many tokens a word is.
type vocabulary struct {
	words, starts []string
	perWord       float64
	exact         bool
	spread        float64 // where not exact: standard deviation of the tokens of a text of 100, as a share
	why           string  // where not exact
}

// search finds the words of candidates that are one token each after a space,
// and those of them that are one token at the start of a text too. Its counter
// may count a number of tokens more than the text has, if it always does.
//
// Words are first asked about all together, then in chunks, then one by one.
// That whole texts have as many tokens as words is verified at the end: a
// tokenizer may make one token of two words.
func search(ctx context.Context, count counter, candidates []string, longest int, e effort) (*vocabulary, error) {
	v := &vocabulary{perWord: 1}
	first, err := ask(ctx, count, candidates[:min(e.starts, len(candidates))])
	if err != nil {
		return nil, err
	}
	// No word is less than one token, and some are one: what the shortest counts
	// beyond that is what every text does.
	beside := slices.Min(first) - 1
	one := func(words []string, counts []int) (list []string) {
		for i, n := range counts {
			if n == beside+1 {
				list = append(list, words[i])
			}
		}
		return list
	}
	v.starts = one(candidates, first)
	start := v.starts[0]
	fits := func(ctx context.Context, lists [][]string) ([]bool, error) {
		texts := make([]string, len(lists))
		for i, words := range lists {
			texts[i] = start + " " + join(words...)
		}
		counts, err := ask(ctx, count, texts)
		ok := make([]bool, len(lists))
		for i, n := range counts {
			ok[i] = err == nil && n-beside == 1+len(lists[i])
		}
		return ok, err
	}
	if v.words, err = keep(ctx, fits, candidates, e); err != nil {
		return nil, err
	}
	for range 3 {
		v.starts = slices.DeleteFunc(v.starts, func(w string) bool { return !slices.Contains(v.words, w) })
		if len(v.words) < minWords {
			break
		}
		if len(v.starts) == 0 {
			if first, err = ask(ctx, count, v.words); err != nil {
				return nil, err
			}
			if v.starts = one(v.words, first); len(v.starts) == 0 {
				break
			}
		}
		ok, err := additive(ctx, count, v, beside, longest)
		if err != nil {
			return nil, err
		}
		if ok {
			v.exact = true
			return v, nil
		}
		if v.words, err = unmerged(ctx, fits, v.words, e.words); err != nil {
			return nil, err
		}
	}
	return fit(ctx, count, candidates, longest)
}

// A fitter says which lists of words are one token a word.
type fitter func(ctx context.Context, lists [][]string) ([]bool, error)

// keep returns the words that are one token each after a space.
func keep(ctx context.Context, fits fitter, words []string, e effort) ([]string, error) {
	// A server that refuses so long a text may take shorter ones.
	if ok, err := fits(ctx, [][]string{words}); err == nil && ok[0] || ctx.Err() != nil {
		return slices.Clone(words), ctx.Err()
	}
	chunks := slices.Collect(slices.Chunk(words, chunk))
	whole, err := fits(ctx, chunks)
	if err != nil {
		return nil, err
	}
	var kept, rest []string
	for i, ok := range whole {
		if ok {
			kept = append(kept, chunks[i]...)
		} else {
			rest = append(rest, chunks[i]...)
		}
	}
	for some := range slices.Chunk(rest[:min(len(rest), e.alone)], 2*atOnce) {
		if len(kept) >= e.words {
			break
		}
		good, err := alone(ctx, fits, some)
		if err != nil {
			return nil, err
		}
		kept = append(kept, good...)
	}
	return kept, nil
}

// alone returns the words that are one token each by themselves: asked about
// twice in a row, since a word may merge with the one that every text begins with.
func alone(ctx context.Context, fits fitter, words []string) ([]string, error) {
	lists := make([][]string, len(words))
	for i, w := range words {
		lists[i] = []string{w, w}
	}
	return those(ctx, fits, words, lists)
}

// those returns the words whose lists fit.
func those(ctx context.Context, fits fitter, words []string, lists [][]string) (kept []string, err error) {
	ok, err := fits(ctx, lists)
	if err != nil {
		return nil, err
	}
	for i, w := range words {
		if ok[i] {
			kept = append(kept, w)
		}
	}
	return kept, nil
}

// unmerged leaves out the words that make a token with a neighbour: each is
// asked about before and after every other one. What was kept by chunks is asked
// about alone first: a word that is two tokens hides a pair that is one.
func unmerged(ctx context.Context, fits fitter, words []string, enough int) ([]string, error) {
	words, err := alone(ctx, fits, words[:min(len(words), enough)])
	if err != nil {
		return nil, err
	}
	lists := make([][]string, len(words))
	for i, w := range words {
		for _, x := range words {
			lists[i] = append(lists[i], w, x)
		}
	}
	return those(ctx, fits, words, lists)
}

// additive reports whether whole texts have as many tokens as words.
func additive(ctx context.Context, count counter, v *vocabulary, beside, longest int) (bool, error) {
	r := chance.New(1, 2)
	var texts []string
	var lengths []int
	for _, n := range []int{1, 2, 17, longest / 4, longest / 2, longest, longest} {
		texts, lengths = append(texts, v.text(r, n)), append(lengths, n)
	}
	counts, err := ask(ctx, count, texts)
	if err != nil {
		return false, err
	}
	for i, n := range counts {
		if n-beside != lengths[i] {
			return false, nil
		}
	}
	return true, nil
}

// text returns a text of so many words drawn from v.
func (v *vocabulary) text(r *chance.Rand, words int) string {
	list := make([]string, words)
	for i := range list {
		from := v.words
		if i == 0 {
			from = v.starts
		}
		list[i] = from[int(r.Uniform()*float64(len(from)))]
	}
	return join(list...)
}

// fit finds how many tokens a word is on average, by least squares over texts of
// several lengths.
func fit(ctx context.Context, count counter, candidates []string, longest int) (*vocabulary, error) {
	v := &vocabulary{words: candidates, starts: candidates}
	r := chance.New(3, 4)
	var texts []string
	var xs []float64
	for i := range 16 {
		n := max(4, longest*(i+1)/16)
		texts, xs = append(texts, v.text(r, n)), append(xs, float64(n))
	}
	counts, err := ask(ctx, count, texts)
	if err != nil {
		return nil, err
	}
	v.perWord, _, v.spread = fitted(xs, counts)
	v.why = "no list of words was found that are one token each"
	return v, nil
}

// fitted returns how many tokens a word is, and how many a text has beside its words,
// by least squares over texts of xs words and so many tokens. spread is the
// standard deviation of a text of 100 tokens, as a share.
func fitted(xs []float64, counts []int) (perWord, beside, spread float64) {
	ys := make([]float64, len(counts))
	for i, n := range counts {
		ys[i] = float64(n)
	}
	perWord, beside = line(xs, ys)
	if perWord <= 0 {
		perWord = 1
	}
	squares := 0.0
	for i, x := range xs {
		e := ys[i] - beside - perWord*x
		squares += e * e / x // of one word: those of a text add up
	}
	// A text of 100 tokens has 100/perWord words; the variance of a text is that of
	// a word as often.
	return perWord, beside, math.Sqrt(squares/float64(len(xs))*100/perWord) / 100
}

// line returns the line of least squares through points.
func line(xs, ys []float64) (slope, at float64) {
	var mx, my float64
	for i := range xs {
		mx += xs[i] / float64(len(xs))
		my += ys[i] / float64(len(ys))
	}
	var xx, xy float64
	for i := range xs {
		xx += (xs[i] - mx) * (xs[i] - mx)
		xy += (xs[i] - mx) * (ys[i] - my)
	}
	slope = xy / xx
	return slope, my - slope*mx
}
