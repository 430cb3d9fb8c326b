package openai

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"sweep.dev/sweep/load/sse"
	"sweep.dev/sweep/result"
)

// A stream is what becomes of one request's answer: it takes in events with
// their times and knows when there is enough, and at the end whether it was a
// success. It has no clock and no connection.
type stream struct {
	r       *result.Request
	scanner *scanner

	wantUsage bool
	seen      uint64 // choices, one bit each
	finished  uint64
	usage     bool
	tokens    int   // chunks with a token
	counted   int   // completion tokens by continuous usage so far
	lastUS    int64 // of the last chunk, in whole microseconds since the anchor
	known     bool  // the tokens of some event are

	events    int
	coalesced int           // chunks that share the stamp of an earlier one
	stamp     time.Duration // of the last chunk

	enough bool // [DONE] or a failure: what follows is of no interest
	fault  fault
}

// A fault is why an answer cannot be a success.
type fault struct{ class, text string }

// begin readies s for the answer to r, which was sent.
func (s *stream) begin(r *result.Request, scanner *scanner, wantUsage bool) {
	*s = stream{r: r, scanner: scanner, wantUsage: wantUsage, stamp: result.Never}
}

// event takes in one event whose last byte was read at the time at.
func (s *stream) event(ev *sse.Event, at time.Duration) {
	s.events++
	if string(ev.Name) == "error" {
		s.fail(result.ErrServer, namedError(ev), at)
		return
	}
	data := bytes.TrimRight(ev.Data, " \t")
	switch {
	case len(data) == 0:
		return
	case string(data) == "[DONE]":
		s.end(at)
		return
	case data[0] != '{' && len(ev.Name) > 0:
		return // an annotation of the server's own
	}
	c, err := s.scanner.parse(data)
	switch {
	case err != nil:
		s.fail(result.ErrProtocol, fmt.Sprintf("event %d is not JSON: %v: %.80q", s.events, err, data), at)
	case c.failed:
		s.fail(result.ErrServer, c.failure, at)
	default:
		s.chunk(&c, at)
	}
}

func namedError(ev *sse.Event) string {
	if len(ev.Data) > 0 {
		if c, err := decode(ev.Data); err == nil && c.failed {
			return c.failure
		}
		return string(ev.Data)
	}
	if len(ev.Comment) > 0 {
		return string(ev.Comment)
	}
	return "the server sent an error event without a reason"
}

func (s *stream) chunk(c *chunk, at time.Duration) {
	if c.usage {
		s.count(c.count)
	}
	if !c.choice {
		return
	}
	s.seen |= c.seen
	s.finished |= c.finished
	if c.finish != "" {
		s.r.FinishReason = c.finish
	}
	if s.stamp == at {
		s.coalesced++
	}
	s.stamp = at

	us := at.Microseconds()
	s.r.ChunkUS = append(s.r.ChunkUS, int32(min(us-s.lastMicro(), math.MaxInt32)))
	s.lastUS = us
	s.r.LastToken = at

	tokens := 0
	switch {
	case c.usage && c.count.completion >= 0:
		tokens = max(0, c.count.completion-s.counted)
		s.counted = max(s.counted, c.count.completion)
	case c.token:
		tokens = result.Unknown
	}
	if tokens != result.Unknown {
		s.known = true
	}
	s.r.ChunkTokens = append(s.r.ChunkTokens, int32(tokens))
	if !c.token {
		return
	}
	s.tokens++
	if s.r.FirstToken == result.Never {
		s.r.FirstToken = at
		s.r.FirstTokenChunk = len(s.r.ChunkUS) - 1
	}
	if c.output && s.r.FirstOutput == result.Never {
		s.r.FirstOutput = at
	}
}

// lastMicro is what the next chunk's time is counted from.
func (s *stream) lastMicro() int64 {
	if len(s.r.ChunkUS) == 0 {
		return s.r.Sent.Microseconds()
	}
	return s.lastUS
}

// count takes in what the server says of its tokens; a later count that leaves
// one out does not take it back.
func (s *stream) count(u usage) {
	if u.completion >= 0 {
		s.usage = true
		s.r.CompletionTokens = u.completion
		s.r.TokenSource = "usage"
	}
	if u.prompt >= 0 {
		s.r.PromptTokens = u.prompt
	}
	if u.cached >= 0 {
		s.r.CachedTokens = u.cached
	}
}

func (s *stream) end(at time.Duration) {
	s.enough = true
	s.r.End = at
}

func (s *stream) fail(class, text string, at time.Duration) {
	s.fault = fault{class, text}
	s.end(at)
}

// whole takes in an answer that was not streamed.
func (s *stream) whole(body []byte, at time.Duration) {
	c, err := decode(body)
	switch {
	case err != nil:
		s.fail(result.ErrProtocol, fmt.Sprintf("the answer is not JSON: %v: %.80q", err, body), at)
		return
	case c.failed:
		s.fail(result.ErrServer, c.failure, at)
		return
	}
	if c.usage {
		s.count(c.count)
	}
	s.seen, s.finished = c.seen, c.finished
	s.r.FinishReason = c.finish
	if c.token {
		s.tokens = 1
	}
	if !s.complete() {
		s.fail(result.ErrTruncated, "the answer has no finish_reason", at)
		return
	}
	s.end(at)
}

// complete says that everything has come that makes a success.
func (s *stream) complete() bool {
	return s.seen != 0 && s.seen == s.finished && (s.usage || !s.wantUsage)
}

// close judges the answer. cause is why the reading ended: io.EOF where the
// answer did, nil where there was enough. [DONE] is no success by itself, and
// neither its absence nor a connection that breaks after everything has come is
// a failure.
func (s *stream) close(cause error, at time.Duration) {
	r := s.r
	if r.End == result.Never {
		r.End = at
	}
	if !s.known {
		r.ChunkTokens = nil
	}
	if s.r.TokenSource == "" && len(r.ChunkUS) > 0 {
		r.CompletionTokens, r.TokenSource = s.tokens, "chunks"
	}
	switch {
	case s.fault.class != "":
		s.failed(s.fault.class, s.fault.text)
	case s.complete() && s.tokens == 0 && r.CompletionTokens <= 0:
		s.failed(result.ErrNoTokens, "the server finished ("+r.FinishReason+") without a token")
	case s.complete():
		r.Status = result.Completed
	case cause == nil, errors.Is(cause, io.EOF):
		s.failed(result.ErrTruncated, s.missing())
	case errors.Is(cause, errDeadline):
		s.failed(result.ErrTimeout, fmt.Sprintf("%v: no end after %d events", cause, s.events))
	case errors.Is(cause, errDrained):
		r.Status = result.Cancelled
		r.Error = clip(cause.Error())
	default:
		s.failed(classOfError(cause), fmt.Sprintf("after %d events: %v", s.events, cause))
	}
}

func (s *stream) missing() string {
	switch {
	case s.events == 0:
		return "the stream ended without an event"
	case s.seen == 0 || s.seen != s.finished:
		return "the stream ended without finish_reason"
	}
	return "the stream ended without the usage that was asked for"
}

func (s *stream) failed(class, text string) {
	s.r.Status, s.r.ErrorClass, s.r.Error = result.Failed, class, clip(text)
}
