package summary

import (
	"fmt"
	"math"
	"slices"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// A grain says how many tokens a request's chunks are taken for.
type grain int

const (
	unknownGrain grain = iota
	perContent         // one for each chunk with content
	perEvent           // one for each event from the first token on
	mixed              // what the server said of each chunk
)

// grainOf finds how many tokens the chunks of a request are. The server's word
// comes first. Else one token a chunk is assumed where the usage bears it out:
// of the chunks with content, or, as some engines send an event for a token
// without text too (the end of the sequence, half a character), of all events
// from the first token on.
func grainOf(r *result.Request) grain {
	content, tokens, silent := 0, 0, false
	for i := r.FirstTokenChunk; i < len(r.ChunkUS); i++ {
		k := int(tokensOf(r, i))
		if k == 0 {
			continue
		}
		if k == result.Unknown {
			k, silent = 1, true
		}
		content++
		tokens += k
	}
	usage := r.TokenSource == result.FromUsage
	switch {
	case !silent || usage && tokens == r.CompletionTokens:
		if content == tokens {
			return perContent
		}
		return mixed
	case usage && len(r.ChunkUS)-r.FirstTokenChunk == r.CompletionTokens:
		return perEvent
	}
	return unknownGrain
}

// tokensOf returns what is known of a chunk's tokens: 0 for one without content.
func tokensOf(r *result.Request, chunk int) int32 {
	if chunk >= len(r.ChunkTokens) {
		return result.Unknown
	}
	return r.ChunkTokens[chunk]
}

// appendChunkGaps adds the gap before each chunk with content after the first,
// in nanoseconds. A chunk without content, such as the one that only states
// the finish reason, ends no gap.
func appendChunkGaps(samples []int64, r *result.Request) []int64 {
	var gap int64
	for i := r.FirstTokenChunk + 1; i < len(r.ChunkUS); i++ {
		gap += int64(r.ChunkUS[i])
		if tokensOf(r, i) != 0 {
			samples = append(samples, gap*1000)
			gap = 0
		}
	}
	return samples
}

// appendTokenGaps adds the gap of each token after the first chunk, in
// nanoseconds: k of g/k for a chunk of k tokens after a gap g.
func appendTokenGaps(samples []int64, r *result.Request, g grain) []int64 {
	var gap int64
	for i := r.FirstTokenChunk + 1; i < len(r.ChunkUS); i++ {
		gap += int64(r.ChunkUS[i])
		k := tokensOf(r, i)
		switch {
		case g == perEvent || k == result.Unknown:
			k = 1
		case k == 0:
			continue
		}
		each := int64(math.Round(float64(gap) * 1000 / float64(k)))
		for range k {
			samples = append(samples, each)
		}
		gap = 0
	}
	return samples
}

// maxITLUnknown is the share of completed requests that the inter-token
// latency may do without. An engine joins tokens in one chunk where it is
// slow, so beyond that what is left would be a choice of the fast ones.
const maxITLUnknown = 0.05

// gaps makes the columns of what there is many of in each request: the gaps
// between its chunks (ICL) and between its tokens (ITL).
// The memory that it returns holds the gaps of chunks or of tokens.
func (s *summary) gaps(c *samples, memory []int64) []int64 {
	chunks, unknown, uncounted, single := 0, 0, 0, 0
	grains := make([]grain, len(c.streamed))
	for i, r := range c.streamed {
		chunks += len(r.ChunkUS) - r.FirstTokenChunk - 1
		switch grains[i] = grainOf(r); grains[i] {
		case unknownGrain:
			unknown++
			if r.TokenSource != result.FromUsage {
				uncounted++
			}
		case perContent:
			single++
		}
	}
	values := slices.Grow(memory[:0], chunks)
	n := 0
	for _, r := range c.streamed {
		before := len(values)
		if values = appendChunkGaps(values, r); len(values) > before {
			n++
			s.opts.Shift.move(values[before:], r, "icl")
		}
	}
	missing := c.missing(len(values))
	if single == len(c.streamed) { // every gap between chunks is one between tokens
		s.describe(c, values, n, missing, "icl", "itl")
		return values
	}
	s.describe(c, values, n, missing, "icl")
	if unknown > 0 {
		text := fmt.Sprintf("%d of %d requests got several tokens in a chunk and the server did not say how many", unknown, len(c.streamed))
		if uncounted == unknown {
			text = fmt.Sprintf("the server did not count the output of %d of %d requests, so how many tokens a chunk has is not known", unknown, len(c.streamed))
		}
		none := float64(unknown) > maxITLUnknown*float64(len(c.streamed))
		if none {
			text += "; there is no inter-token latency"
		} else {
			text += "; they are left out of the inter-token latency"
		}
		if c == &s.all {
			s.findings = append(s.findings, result.Finding{Code: finding.ITLUnknown, Text: text})
		}
		if none {
			return values
		}
	}
	values, n = values[:0], 0
	for i, r := range c.streamed {
		if grains[i] == unknownGrain {
			continue
		}
		before := len(values)
		if values = appendTokenGaps(values, r, grains[i]); len(values) > before {
			n++
			s.opts.Shift.move(values[before:], r, "itl")
		}
	}
	s.describe(c, values, n, c.missing(len(values)), "itl")
	return values
}

// missing returns how many gaps the lost requests did not get, where the completed
// ones have so many: for each as many as a completed one that asked for as much
// has on average, and at least one. What gaps they did get count for nothing, so
// that a request that was quick until it failed makes no percentile better.
func (c *samples) missing(gaps int) int {
	asked := 0
	for _, r := range c.streamed {
		asked += max(1, r.MaxTokens)
	}
	if asked == 0 {
		return len(c.lost)
	}
	missing := 0
	for _, r := range c.lost {
		missing += max(1, int(math.Ceil(float64(gaps)*float64(max(1, r.MaxTokens))/float64(asked))))
	}
	return missing
}
