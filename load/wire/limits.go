package wire

import (
	"bytes"
	"strings"
)

// Bounds of one answer. A server that ignores max_tokens and sends as fast as it
// can is cut off, as a protocol error: its cost depends on what was asked for, and
// not on how long it goes on.
const (
	// chunksPerToken is how many chunks there may be for each token of
	// max_tokens. Most servers send one; those that stream by characters send
	// about five for a token of English.
	chunksPerToken = 8
	// minChunks is for requests of few tokens: chunks with the role or the reason
	// and those that keep a connection alive have no token.
	minChunks = 4096
	// maxChunks is for requests without max_tokens, which go on to the end of
	// the model's context.
	maxChunks = 1 << 20

	// bytesPerToken is four times the chunk of a token with twenty logprobs and
	// usage. minResponse is for a first chunk that repeats the prompt.
	bytesPerToken = 16 << 10
	minResponse   = 8 << 20

	// textPerToken bounds the text that is kept for a conversation. The longest
	// tokens of common vocabularies are runs of 128 blanks.
	textPerToken = 128
	minText      = 64 << 10

	// valuesPerToken and minValues bound the JSON values of what has to be
	// decoded: an empty list of two bytes takes forty in memory.
	valuesPerToken = 256
	minValues      = 64 << 10

	// maxReason bounds a finish_reason, in bytes. The longest known has 14.
	maxReason = 64
)

// limit returns n for each token that a request asks for, at least floor and at most
// ceiling. Without max_tokens it is the ceiling.
func limit(maxTokens, n, floor, ceiling int) int {
	if maxTokens <= 0 || maxTokens > ceiling/n {
		return ceiling
	}
	return min(ceiling, max(floor, n*maxTokens))
}

// MaxChunks returns how many chunks an answer to a request of so many max_tokens may
// have; 0 tokens is a request without a bound.
func MaxChunks(maxTokens int) int { return limit(maxTokens, chunksPerToken, minChunks, maxChunks) }

// ResponseLimit returns how many bytes an answer to a request of so many max_tokens
// may have; 0 tokens is a request without a bound.
func (c *Config) ResponseLimit(maxTokens int) int64 {
	most := int(c.MaxResponse)
	return int64(limit(maxTokens, bytesPerToken, min(minResponse, most), most))
}

func maxText(maxTokens int) int {
	return limit(maxTokens, textPerToken, minText, DefaultMaxResponse)
}

func maxValues(maxTokens int) int {
	return limit(maxTokens, valuesPerToken, minValues, 16<<20)
}

// values returns an upper bound of the JSON values in data: the signs that begin or
// separate them, those within texts included.
func values(data []byte) int {
	return bytes.Count(data, []byte(",")) + bytes.Count(data, []byte("[")) + bytes.Count(data, []byte("{")) + 1
}

// reason returns a finish_reason that is kept with the request.
func reason(s string) string {
	if len(s) <= maxReason {
		return s
	}
	return strings.Clone(cut(s, maxReason))
}
