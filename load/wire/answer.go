package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/sse"
	"sweep.dev/sweep/result"
)

// A Mark is when a piece of an answer was received.
type Mark struct {
	// At is the receive time of the last of the bytes that Read took.
	At time.Duration
	// After is when the read before it had taken all there was: no byte of this
	// one came earlier. [result.Never] where that is not known.
	After time.Duration
	// Read counts the reads of the answer, from 1. Events that came out of one
	// read share its receive time.
	Read int
}

// An Answer is what becomes of one request's answer: it takes in events with
// their times and knows when there is enough, and at the end whether it was a
// success. It has no clock and no connection, and allocates nothing per event
// where the request's lists have room.
type Answer struct {
	r       *result.Request
	scanner *scanner

	wantUsage bool
	keep      bool   // the text of the answer is wanted
	text      []byte // so far
	seen      uint64 // choices, one bit each
	finished  uint64
	usage     bool
	done      bool     // [DONE] has come
	tokens    int      // chunks with a token
	deltas    int      // chunks with a token that is not in a message
	counted   int      // completion tokens by continuous usage so far
	running   bool     // the usage of a chunk with a token says how many there are so far
	said      usage    // the last that counts what was written
	sample    []byte   // of a chunk in which no text was found
	begin     [16]byte // of the text of output
	begun     int      // bytes of it
	plain     int      // bytes of output that stood for themselves
	lastUS    int64    // of the last chunk, in whole microseconds since the anchor
	known     bool     // the tokens of some event are

	events int
	read   int // that brought the last chunk with a token

	enough bool // [DONE] or a failure: what follows is of no interest
	fault  fault
}

// A fault is why an answer cannot be a success.
type fault struct{ class, text string }

// A Scratch is what an answer needs while it takes in one event.
type Scratch struct{ s scanner }

// Share has s use b, as other answers of the same goroutine may: there are
// thousands of answers, and one event at a time.
func (s *Answer) Share(b *Scratch) { s.scanner = &b.s }

// Begin readies s for the answer to r, which was sent. keep says that the
// request's Answer is wanted: the text of the first choice.
func (s *Answer) Begin(r *result.Request, wantUsage, keep bool) {
	*s = Answer{r: r, scanner: s.scanner, wantUsage: wantUsage, keep: keep, said: noUsage, sample: s.sample[:0]}
	if s.scanner == nil {
		s.scanner = new(scanner)
	}
}

// Enough reports whether what follows is of no interest: the stream has said that it
// is complete, or it has failed.
func (s *Answer) Enough() bool { return s.enough }

// Wants reports whether events that come are looked at: until there is enough, and for a usage
// that was asked for and did not come before [DONE].
func (s *Answer) Wants() bool { return !s.enough || s.late() }

func (s *Answer) late() bool {
	return s.done && s.fault.class == "" && s.wantUsage && !s.usage
}

// Tokens returns how many chunks with a token have come.
func (s *Answer) Tokens() int { return s.tokens }

// Chunks returns how many chunks have come.
func (s *Answer) Chunks() int { return len(s.r.ChunkUS) }

// Event takes in one event whose last byte came with the read m.
func (s *Answer) Event(ev *sse.Event, m Mark) {
	if s.enough {
		if c, err := decodeOf(ev.Data, minValues); err == nil && c.usage && s.late() {
			s.count(c.count)
		}
		return
	}
	s.events++
	if string(ev.Name) == "error" {
		s.Fail(result.ErrServer, namedError(ev), m.At)
		return
	}
	data := bytes.TrimRight(ev.Data, " \t")
	switch {
	case len(data) == 0:
		return
	case string(data) == "[DONE]":
		s.done = true
		s.end(m.At)
		return
	case data[0] != '{' && len(ev.Name) > 0:
		return // an annotation of the server's own
	}
	c, err := s.scanner.parse(data)
	switch {
	case errors.Is(err, errTooMany):
		s.Fail(result.ErrProtocol, fmt.Sprintf("event %d: %v", s.events, err), m.At)
	case err != nil:
		s.Fail(result.ErrProtocol, fmt.Sprintf("event %d is not JSON: %v: %.80q", s.events, err, data), m.At)
	case c.failed:
		s.Fail(result.ErrServer, c.failure, m.At)
	default:
		if c.whole && s.deltas > 0 || s.again(&c, data) {
			c.token, c.output = false, false // all of the answer again
		}
		s.chunk(&c, m)
		if c.choice && s.tokens == 0 && s.events > 1 && c.finish == "" {
			s.sample = append(s.sample[:0], data[:min(len(data), maxSample)]...)
		}
		if s.keep && c.output && !s.enough {
			s.say(&c, data, m)
		}
	}
}

// again reports whether a chunk, which data is, has all of the answer again: it is the last, begins
// as the answer did, and is no shorter. It remembers of the others what that takes.
func (s *Answer) again(c *chunk, data []byte) bool {
	if !c.output {
		return false
	}
	text := c.text
	if text == nil && (c.finish != "" || s.tokens < len(s.begin)) {
		text = []byte(textOf(data)) // decoded, and so of few chunks alone
	}
	if c.finish != "" && s.begun == len(s.begin) && len(text) >= s.plain && bytes.HasPrefix(text, s.begin[:]) {
		return true
	}
	s.begun += copy(s.begin[s.begun:], text)
	s.plain += len(c.text)
	return false
}

// say keeps the text of a chunk, which data is.
func (s *Answer) say(c *chunk, data []byte, m Mark) {
	if c.text != nil {
		s.text = append(s.text, c.text...)
	} else {
		s.text = append(s.text, textOf(data)...)
	}
	if most := maxText(s.r.MaxTokens); len(s.text) > most {
		s.text = nil
		s.Fail(result.ErrProtocol, fmt.Sprintf("over %d bytes of text for max_tokens %d: the server ignores it", most, s.r.MaxTokens), m.At)
	}
}

// Rest takes in an event that the end of the stream left without its blank
// line. One that was cut off in the middle says nothing but that the stream
// was, so it is no error of its own.
func (s *Answer) Rest(ev *sse.Event, m Mark) {
	if data := bytes.TrimSpace(ev.Data); len(data) > 0 && data[0] == '{' {
		if _, err := s.scanner.parse(data); err != nil {
			return
		}
	}
	s.Event(ev, m)
}

func namedError(ev *sse.Event) string {
	if len(ev.Data) > 0 {
		var v map[string]any
		if values(ev.Data) <= minValues && json.Unmarshal(ev.Data, &v) == nil && len(v) > 0 {
			return errorText(v)
		}
		return string(ev.Data)
	}
	if len(ev.Comment) > 0 {
		return string(ev.Comment)
	}
	return "the server sent an error event without a reason"
}

func (s *Answer) chunk(c *chunk, m Mark) {
	if c.usage {
		s.count(c.count)
	}
	if !c.choice {
		return
	}
	s.seen |= c.seen
	s.finished |= c.finished
	if c.finish != "" {
		s.r.FinishReason = reason(c.finish)
	}

	if most := MaxChunks(s.r.MaxTokens); len(s.r.ChunkUS) >= most {
		s.Fail(result.ErrProtocol, fmt.Sprintf("over %d chunks for max_tokens %d: the server ignores it", most, s.r.MaxTokens), m.At)
		return
	}
	if len(s.r.ChunkUS) == cap(s.r.ChunkUS) {
		room(s.r)
	}
	us := m.At.Microseconds()
	s.r.ChunkUS = append(s.r.ChunkUS, int32(min(us-s.lastMicro(), math.MaxInt32)))
	s.lastUS = us
	s.r.LastToken = m.At

	tokens := s.grown(c)
	if tokens != result.Unknown {
		s.known = true
	}
	s.r.ChunkTokens = append(s.r.ChunkTokens, int32(tokens))
	if !c.token {
		return
	}
	s.tokens++
	if !c.whole {
		s.deltas++
	}
	// Chunks without a token (the role, the usage) share segments by nature.
	if s.read == m.Read {
		s.r.Coalesced++
		if m.After != result.Never {
			s.r.StampError = max(s.r.StampError, m.At-m.After)
		}
	}
	s.read = m.Read
	if s.r.FirstToken == result.Never {
		s.r.FirstToken = m.At
		s.r.FirstTokenChunk = len(s.r.ChunkUS) - 1
	}
	if c.output && s.r.FirstOutput == result.Never {
		s.r.FirstOutput = m.At
	}
}

// grown returns the tokens of a chunk. A usage that runs says so with each. One that comes at
// the end, or counts nothing before it, says nothing of the chunk that it is on.
func (s *Answer) grown(c *chunk) int {
	tokens := max(0, c.count.completion-s.counted)
	first := s.tokens == 0
	late := s.counted == 0 && !first
	if c.count.completion > 0 {
		s.counted = max(s.counted, c.count.completion)
	}
	switch {
	case !c.token && s.running:
		return tokens // such as the end of the sequence
	case !c.token:
		return 0
	case c.count.completion <= 0 || late:
		return result.Unknown
	}
	s.running = true
	return tokens
}

// lastMicro returns what the next chunk's time is counted from.
func (s *Answer) lastMicro() int64 {
	if len(s.r.ChunkUS) == 0 {
		return s.r.Sent.Microseconds()
	}
	return s.lastUS
}

// count takes in what the server says of its tokens; a later count that leaves
// one out, or is zero, does not take it back.
func (s *Answer) count(u usage) {
	if u.completion >= 0 {
		s.usage = true
		s.r.CompletionTokens = max(s.r.CompletionTokens, 0)
		s.r.TokenSource = result.FromUsage
	}
	if u.completion > 0 || u.reasoning > 0 {
		s.said = u
		s.r.CompletionTokens = max(0, u.completion)
	}
	if u.prompt > 0 { // no prompt is without a token
		s.r.PromptTokens = u.prompt
	}
	if u.cached >= 0 {
		s.r.CachedTokens = u.cached
	}
}

func (s *Answer) end(at time.Duration) {
	s.enough = true
	s.r.End = at
}

// Fail ends the answer: it cannot be a success any more.
func (s *Answer) Fail(class, text string, at time.Duration) {
	s.fault = fault{class, text}
	s.end(at)
}

// Whole takes in an answer that was not streamed.
func (s *Answer) Whole(body []byte, at time.Duration) {
	c, err := decodeOf(body, maxValues(s.r.MaxTokens))
	switch {
	case errors.Is(err, errTooMany):
		s.Fail(result.ErrProtocol, fmt.Sprintf("the answer: %v", err), at)
		return
	case err != nil:
		s.Fail(result.ErrProtocol, fmt.Sprintf("the answer is not JSON: %v: %.80q", err, body), at)
		return
	case c.failed:
		s.Fail(result.ErrServer, c.failure, at)
		return
	}
	if c.usage {
		s.count(c.count)
	}
	s.seen, s.finished = c.seen, c.finished
	s.r.FinishReason = reason(c.finish)
	if c.token {
		s.tokens = 1
	}
	if s.keep {
		s.text = append(s.text, textOf(body)...)
	}
	if !s.complete() {
		s.Fail(result.ErrTruncated, "the answer has no finish_reason", at)
		return
	}
	s.end(at)
}

// NotStream takes in an answer of 200 that is something else than a stream:
// some servers report errors so.
func (s *Answer) NotStream(media string, body []byte, at time.Duration) {
	if c, err := decode(body); err == nil && c.failed {
		s.Fail(result.ErrServer, c.failure, at)
		return
	}
	s.Fail(result.ErrProtocol, fmt.Sprintf("the answer is %s and no event stream: %.80q", media, body), at)
}

// complete reports whether everything has come that makes a success: a finish_reason
// of every choice, and proof that nothing follows. That is the usage that was
// asked for, or [DONE] of a server that counts no tokens.
func (s *Answer) complete() bool {
	return s.seen != 0 && s.seen == s.finished && (s.usage || s.done || !s.wantUsage)
}

// Close judges the answer. cause is why the reading ended: io.EOF where the
// answer did, nil if there was enough. [DONE] is no success by itself, and
// neither its absence nor a connection that breaks after everything has come is
// a failure.
func (s *Answer) Close(cause error, at time.Duration) {
	r := s.r
	if r.End == result.Never {
		r.End = at
	}
	if s.usage && r.CompletionTokens == 0 && s.tokens > 0 {
		// A usage of zero tokens for an answer with text is a default.
		r.CompletionTokens, r.TokenSource = result.Unknown, ""
	}
	if r.TokenSource == result.FromUsage && s.complete() {
		s.settle()
	}
	if !s.known {
		r.ChunkTokens = nil
	}
	r.ChunkUS, r.ChunkTokens = fit(r.ChunkUS), fit(r.ChunkTokens)
	r.Answer = string(s.text)
	if s.r.TokenSource == "" && len(r.ChunkUS) > 0 {
		r.CompletionTokens, r.TokenSource = s.tokens, result.FromChunks
	}
	switch {
	case s.fault.class != "":
		s.failed(s.fault.class, s.fault.text)
	case gaveUp[r.FinishReason] && s.seen == s.finished:
		s.failed(result.ErrServer, fmt.Sprintf("the server gave the request up (finish_reason %q) after %d chunks with text", r.FinishReason, s.tokens))
	case s.complete() && s.tokens == 0 && r.CompletionTokens <= 0:
		s.failed(result.ErrNoTokens, "the server finished ("+r.FinishReason+") without a token")
	case s.complete():
		r.Status = result.Completed
		if s.tokens == 0 && len(s.sample) > 0 {
			r.Error = Clip("no text was found in " + string(s.sample))
		}
	case cause == nil, errors.Is(cause, io.EOF):
		s.failed(result.ErrTruncated, s.missing())
	case errors.Is(cause, ErrDeadline):
		s.failed(result.ErrTimeout, fmt.Sprintf("%v: no end after %d events", cause, s.events))
	case errors.Is(cause, ErrPlanned):
		r.Status, r.Planned = result.Cancelled, true
		r.Error = Clip(cause.Error())
	case errors.Is(cause, ErrDrained):
		r.Status = result.Cancelled
		r.Error = Clip(cause.Error())
	default:
		s.failed(ClassOfError(cause), fmt.Sprintf("after %d events: %v", s.events, cause))
	}
}

// gaveUp are the reasons by which servers say that they did not finish an answer: those of vLLM
// and SGLang, of gateways, and of DeepSeek.
var gaveUp = map[string]bool{
	"abort": true, "aborted": true, "error": true, "cancelled": true, "canceled": true, "failed": true,
	"timeout": true, "network_error": true, "insufficient_system_resource": true,
}

// maxSample is how much is kept of a chunk in which no text was found, in bytes.
const maxSample = 200

// settle decides what the counts of the server come to.
func (s *Answer) settle() {
	if s.said == noUsage {
		return
	}
	r := s.r
	n, ok := s.said.output(s.tokens)
	r.CompletionTokens = n
	if !ok {
		r.TokenSource = result.Contradictory
		return
	}
	if s.said.prompt > 0 && s.said.total > s.said.prompt+n {
		r.PromptTokens = s.said.total - n // without what was cached
	}
}

func (s *Answer) missing() string {
	switch {
	case s.events == 0:
		return "the stream ended without an event"
	case s.seen == 0 || s.seen != s.finished:
		return "the stream ended without finish_reason"
	}
	return "the stream ended without [DONE] and without the usage that was asked for"
}

func (s *Answer) failed(class, text string) {
	s.r.Status, s.r.ErrorClass, s.r.Error = result.Failed, class, Clip(text)
}

// NoAnswer records that no answer came to a request: cause is why it was given
// up, nil if err, of the connection, is the reason.
func NoAnswer(r *result.Request, cause, err error, at time.Duration) {
	r.End = at
	switch {
	case cause == nil:
		r.Status, r.ErrorClass, r.Error = result.Failed, ClassOfError(err), Clip(err.Error())
	case errors.Is(cause, ErrDeadline):
		r.Status, r.ErrorClass, r.Error = result.Failed, result.ErrTimeout, Clip(cause.Error()+": no answer")
	default:
		r.Status, r.Planned, r.Error = result.Cancelled, errors.Is(cause, ErrPlanned), Clip(cause.Error())
	}
}

// Unsent returns the record of a job before anything was sent, which is also what is
// recorded if that never happens.
func Unsent(j *load.Job, scheduled time.Duration) result.Request {
	return result.Request{
		Shard: j.Shard, N: j.N, Slot: j.Slot, Turn: j.Turn, Phase: j.Phase,
		Scheduled: scheduled, Paused: j.Paused, Chosen: j.CancelAfter > 0,
		Sent: result.Never, FirstByte: result.Never, FirstToken: result.Never,
		FirstOutput: result.Never, LastToken: result.Never, End: result.Never,
		PromptTokens: result.Unknown, CachedTokens: result.Unknown, CompletionTokens: result.Unknown,
		MaxTokens: j.MaxTokens, TargetTokens: j.Prompt.Target, FirstTokenChunk: -1,
		Status: result.Cancelled, Error: "not sent: the load was ended",
	}
}
