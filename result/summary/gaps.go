package summary

import (
	"fmt"
	"math"

	"sweep.dev/sweep/result"
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
	usage := r.TokenSource == "usage"
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

// tokensOf is what is known of a chunk's tokens: 0 for one without content.
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

// gaps makes the columns of what there is many of in each request: the gaps
// between its chunks (ICL) and between its tokens (ITL).
func (s *summary) gaps(requests []result.Request) {
	chunks := 0
	var streamed []*result.Request
	for i := range requests {
		if r := &requests[i]; hasGaps(r) {
			streamed = append(streamed, r)
			chunks += len(r.ChunkUS) - r.FirstTokenChunk - 1
		}
	}
	samples := make([]int64, 0, chunks)
	for _, r := range streamed {
		samples = appendChunkGaps(samples, r)
	}
	scratch := make([]int64, len(samples))
	s.describe("icl", samples, scratch)

	samples = samples[:0]
	unknown, single := 0, 0
	grains := make([]grain, len(streamed))
	for i, r := range streamed {
		switch grains[i] = grainOf(r); grains[i] {
		case unknownGrain:
			unknown++
		case perContent:
			single++
		}
	}
	if unknown > 0 {
		text := fmt.Sprintf("%d of %d requests got several tokens in a chunk and the server did not say how many", unknown, len(streamed))
		if float64(unknown) > maxITLUnknown*float64(len(streamed)) {
			s.findings = append(s.findings, result.Finding{Code: FindingITLUnknown, Text: text + "; there is no inter-token latency"})
			return
		}
		s.findings = append(s.findings, result.Finding{Code: FindingITLUnknown, Text: text + "; they are left out of the inter-token latency"})
	}
	if single == len(streamed) { // every gap between chunks is one between tokens
		for _, st := range []string{"mean", "std", "min", "p50", "p90", "p95", "p99", "max"} {
			if v, ok := s.row[st+"_icl_ms"]; ok {
				s.row[st+"_itl_ms"] = v
			}
		}
		s.addLow("itl", len(scratch))
		return
	}
	for i, r := range streamed {
		if grains[i] != unknownGrain {
			samples = appendTokenGaps(samples, r, grains[i])
		}
	}
	if len(scratch) < len(samples) {
		scratch = make([]int64, len(samples))
	}
	s.describe("itl", samples, scratch)
}

// hasGaps says whether a request's chunks count.
func hasGaps(r *result.Request) bool {
	return r.Measured() && r.Status == result.Completed &&
		r.FirstTokenChunk >= 0 && r.FirstTokenChunk < len(r.ChunkUS)
}
