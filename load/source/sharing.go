package source

import (
	"hash/maphash"
	"math"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/trace"
	"sweep.dev/sweep/result"
)

// unknownOverhead is the length in tokens that a template of unknown length is taken
// to have; a system message of unknown length is taken to have a token for each of 3
// bytes. Both are more than is usual.
const (
	unknownOverhead = 64
	bytesPerToken   = 3
)

// sharingLooks bounds the requests that CacheHits looks at. Shares have settled
// by then.
const sharingLooks = 200_000

// CacheHits returns the share of the prompt tokens of a trial's first requests that a
// prefix cache can hold when they are asked for, because of what the prompts of
// this load share with each other: the template and the system message, a prefix
// from the second request of its group on, the blocks of a trace, all that was
// said before in a conversation, a given prompt that is asked again. A server
// that was empty before the warm-up, or holds no more than Uncleared says, has no
// way to find more than high. It finds low at the least if nothing is evicted,
// the cache has blocks of so many tokens, and requests in flight at the same time
// do not find each other. Both are 0 for no requests.
//
// Given prompts are compared by their bytes, whose share stands for that of
// their tokens.
func (c Config) CacheHits(requests, block int) (low, high float64) {
	var all, some, most float64
	c.share(min(requests, sharingLooks), func(total, shared, sure float64) {
		all += total
		most += min(shared, total)
		some += math.Floor(max(0, min(sure, total-1))/float64(max(1, block))) * float64(max(1, block))
	})
	if all == 0 {
		return 0, 0
	}
	return some / all, most / all
}

// share says of each request how many tokens its prompt has, how many of them can
// have been seen, and how many were seen in requests that are over.
func (c *Config) share(requests int, each func(total, shared, sure float64)) {
	turns := c.turns()
	p := c.prompter("")
	seen := &prefixes{at: map[uint64]int{}, seed: maphash.MakeSeed()}
	if p, ok := p.(*pool); ok {
		c.askBefore(p, seen)
	}
	// So many may be under way with the same beginning.
	flight := max(1, c.Concurrency)
	for n := 0; n < requests; n += turns {
		conversation := n / turns
		number := c.WarmupRequests + n
		a := ask{n: number, entry: c.WarmupRequests + conversation, maxTokens: c.MaxTokens}
		if n < len(c.rows()) {
			row := &c.rows()[n]
			a.tokens, a.blocks, a.maxTokens = int(row.Input), row.Blocks, int(row.Output)
		}
		head, text, shared, answer := 0.0, 0.0, 0.0, 0.0
		switch p := p.(type) {
		case *synthetic:
			head = float64(c.headOf(p.systemOf(&p.scribe, number)))
			r := p.chance(uint64(number))
			tokens, maxTokens := p.lengths(r, a)
			text, answer = tokens, float64(maxTokens)
			shared = p.sharedOf(seen, a, tokens)
		case *pool:
			asked, maxTokens := p.prompt(a)
			head, answer = float64(c.headOf("")), float64(maxTokens)
			text, shared = seen.given(asked)
		}
		if n == 0 && c.WarmupRequests == 0 && !c.Uncleared {
			head, text = 0, text+head
		}
		sure := head + shared
		if conversation < flight {
			sure = 0
		}
		each(head+text, head+shared, sure)
		said := head + text
		for turn := 1; turn < min(turns, requests-n); turn++ {
			said += answer
			own := text
			if o := c.Prompts.Tokens; o != nil && o.Plain != nil && o.Plain.Turn != result.Unknown {
				own += float64(o.Plain.Turn)
			}
			each(said+own, said, said-answer)
			said += own
		}
	}
}

// askBefore notes the given prompts that may be in the cache before the measured
// ones: those of the warm-up and, if it was not cleared, of other trials.
func (c *Config) askBefore(p *pool, seen *prefixes) {
	for i := range min(c.WarmupRequests, sharingLooks) {
		asked, _ := p.prompt(ask{n: i, entry: i})
		seen.given(asked)
	}
	if !c.Uncleared || p.CacheBust {
		return
	}
	end := p.First + c.Needed() // which goes through all conversations
	for i := range min(p.Count(), sharingLooks) {
		if i < p.First || i >= end {
			asked, _ := p.prompt(ask{n: i, entry: p.Count() - p.First + i})
			seen.given(asked)
		}
	}
}

// headOf returns what a server counts beside the user's text.
func (c *Config) headOf(system string) int {
	if o := c.Prompts.Tokens.overhead(&load.Prompt{System: system}); o != nil {
		return o.First
	}
	return unknownOverhead + len(system)/bytesPerToken
}

// sharedOf returns how many tokens of a synthetic text were in one before.
func (s *synthetic) sharedOf(seen *prefixes, a ask, tokens float64) float64 {
	words := max(1, s.wordsOf(tokens))
	perWord := s.Tokens.perWord()
	switch {
	case len(a.blocks) > 0:
		return float64(seen.blocks(a.blocks, s.wordsOf(trace.BlockTokens), words)) * perWord
	case s.shared > 0:
		own := max(words-s.shared, min(s.marker, words))
		group := s.group(a.n)
		before := seen.at[group]
		if s.warm {
			before = s.shared
		}
		seen.at[group] = max(before, words-own)
		return float64(min(before, words-own)) * perWord
	}
	return 0
}

// prefixes are what was asked before.
type prefixes struct {
	at   map[uint64]int // by group or by the hash of a beginning
	seed maphash.Seed
}

// blocks returns how many of these words stood in the same leading blocks before.
func (p *prefixes) blocks(names []uint32, size, words int) (shared int) {
	var h maphash.Hash
	h.SetSeed(p.seed)
	known := true
	for _, name := range names {
		_, _ = h.Write([]byte{byte(name), byte(name >> 8), byte(name >> 16), byte(name >> 24)})
		n := min(size, words)
		words -= n
		if known {
			known = p.at[h.Sum64()] > 0
		}
		if known {
			shared += min(n, p.at[h.Sum64()])
		}
		p.at[h.Sum64()] = max(p.at[h.Sum64()], n)
	}
	return shared
}

// compared is the length of the steps in which given prompts are compared.
const compared = 32 // bytes

// given returns the length of a given prompt, and of what it has in common with the
// beginning of one before, both in tokens of bytesPerToken.
func (p *prefixes) given(prompt load.Prompt) (total, shared float64) {
	var h maphash.Hash
	h.SetSeed(p.seed)
	known := true
	for i, text := range append([]string{prompt.System}, prompt.Turns...) {
		_, _ = h.WriteString(string(rune('0' + i)))
		for len(text) > 0 {
			n := min(compared, len(text))
			_, _ = h.WriteString(text[:n])
			text = text[n:]
			key := h.Sum64()
			known = known && p.at[key] > 0
			p.at[key] = 1
			total += float64(n) / bytesPerToken
			if known {
				shared += float64(n) / bytesPerToken
			}
		}
	}
	if shared > 0 {
		shared += compared / bytesPerToken // the step in which they part
	}
	return total, min(shared, total)
}
