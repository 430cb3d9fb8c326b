package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"time"

	"sweep.dev/sweep/load/sse"
	"sweep.dev/sweep/result"
)

// TailTimeout is how long the end of a connection's answer is waited for once
// its content is complete. It nearly always comes with it; a server that keeps
// the connection open loses it.
const TailTimeout = 250 * time.Millisecond

// DeadlineError returns why a request ended that took longer than d.
func DeadlineError(d time.Duration) error { return fmt.Errorf("%w (%s)", ErrDeadline, d) }

// PlannedError returns why a request ended that was to be given up after d.
func PlannedError(d time.Duration) error { return fmt.Errorf("%w, after %s", ErrPlanned, d) }

// Lists readies q's lists of chunks for an answer. They begin small and then
// grow once, to all that the request asked for: ten thousand streams that have
// hardly begun need little, and one that goes on allocates nothing more.
func Lists(q *result.Request) {
	const first = 16
	q.ChunkUS, q.ChunkTokens = make([]int32, 0, first), make([]int32, 0, first)
}

// room grows lists that are full.
func room(q *result.Request) {
	const (
		most  = 16 << 10 // chunks that are made room for before they come
		extra = 4        // those without a token: the role, the reason
	)
	if n := min(q.MaxTokens, most) + extra - len(q.ChunkUS); n > 0 {
		q.ChunkUS, q.ChunkTokens = slices.Grow(q.ChunkUS, n), slices.Grow(q.ChunkTokens, n)
	}
}

// fit gives back the room that a list did not need: it is kept with the request.
func fit(list []int32) []int32 {
	if cap(list) > 64 && cap(list) > 2*len(list) {
		return append(make([]int32, 0, len(list)), list...)
	}
	return list
}

// A Receiver reads answers whose heads net/http has read, one after the other
// with the same buffers. Its context's cause is why an answer is given up.
type Receiver struct {
	Config *Config
	// Now is the trial's clock.
	Now func() time.Duration
	// Mark is asked after each read of a stream, for its bytes.
	Mark func() Mark
	// Tokens, if not nil, gets, for each read that brought chunks, how many of
	// them had a token.
	Tokens func(n int)

	Answer Answer
	Parser sse.Parser

	buf []byte
}

// receiveBuffer holds any chunk. It is no power of two, so that the buffers of a
// thousand streams do not all fall into the same sets of the cache.
const receiveBuffer = 4864

// Receive reads the answer to q and judges it. cancel ends the reading of resp.
// It reports whether the body was read to its end.
func (v *Receiver) Receive(ctx context.Context, cancel context.CancelCauseFunc, resp *http.Response, q *result.Request, keep bool) bool {
	c, st := v.Config, &v.Answer
	q.HTTPStatus = resp.StatusCode
	st.Begin(q, c.Stream && c.IncludeUsage, keep)
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var cause error
	whole := false
	switch {
	case resp.StatusCode != http.StatusOK:
		q.RetryAfter = RetryAfter(resp.Header, time.Now())
		return v.refusal(ctx, resp, func(body []byte) {
			st.Fail(ClassOfStatus(resp.StatusCode), StatusText(resp.StatusCode, resp.Header.Get("Retry-After"), body), v.Now())
		})
	case resp.Header.Get("Content-Encoding") != "":
		st.Fail(result.ErrProtocol, "the answer is compressed, which was not asked for", v.Now())
	case !c.Stream:
		var body []byte
		if body, cause = v.all(ctx, resp, c.ResponseLimit(q.MaxTokens)); cause == nil {
			st.Whole(body, v.Now())
			whole = true
		}
	case media == "text/html", media == "application/json" && !IsStream(resp):
		return v.refusal(ctx, resp, func(body []byte) { st.NotStream(media, body, v.Now()) })
	default:
		Lists(q)
		v.Parser.Reset()
		return v.Stream(ctx, cancel, resp.Body, c.ResponseLimit(q.MaxTokens))
	}
	st.Close(cause, v.Now())
	return whole
}

// IsStream reports whether the body of an answer that calls itself JSON is none: some gateways
// label a stream so. It waits for the first byte, and leaves the body as it was.
func IsStream(resp *http.Response) bool {
	const most = 64 // white space before it
	ahead := bufio.NewReaderSize(resp.Body, receiveBuffer)
	resp.Body = struct {
		io.Reader
		io.Closer
	}{ahead, resp.Body}
	for n := 1; n <= most; n++ {
		b, err := ahead.Peek(n)
		if err != nil {
			return false
		}
		switch c := b[n-1]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == 'd' || c == 'e' || c == ':' // data, event, a comment
		}
	}
	return false
}

// refusal reads an answer that has no events, as far as it comes, and has say
// tell what it means.
func (v *Receiver) refusal(ctx context.Context, resp *http.Response, say func(body []byte)) bool {
	body, err := v.all(ctx, resp, MaxErrorBody)
	if err != nil && context.Cause(ctx) != nil {
		v.Answer.Close(err, v.Now())
		return false
	}
	say(body)
	v.Answer.Close(nil, v.Now())
	return err == nil
}

// all reads an answer to its end, but at most limit bytes.
func (v *Receiver) all(ctx context.Context, resp *http.Response, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil && context.Cause(ctx) != nil:
		return body, context.Cause(ctx)
	case err != nil:
		return body, err
	case int64(len(body)) > limit:
		return body[:limit], ErrTooLarge
	}
	return body, nil
}

// Stream goes on with an answer that Answer and Parser have taken in a part of,
// perhaps none: body is the rest, which may have limit bytes. It judges the
// answer and reports whether the body was read to its end.
func (v *Receiver) Stream(ctx context.Context, cancel context.CancelCauseFunc, body io.Reader, limit int64) bool {
	whole, cause := v.events(ctx, cancel, body, limit)
	v.Answer.Close(cause, v.Now())
	return whole
}

// events returns why the stream ended: io.EOF, nil if there was enough, or
// what broke it.
func (v *Receiver) events(ctx context.Context, cancel context.CancelCauseFunc, body io.Reader, left int64) (whole bool, cause error) {
	st := &v.Answer
	if v.buf == nil {
		v.buf = make([]byte, receiveBuffer)
	}
	var ev sse.Event
	mark, tail := v.Mark(), false
	for {
		if st.Enough() && !tail {
			// Read on: a connection that is left before its end cannot be used
			// again. What comes now is not looked at.
			tail = true
			t := time.AfterFunc(TailTimeout, func() { cancel(ErrEnough) })
			defer t.Stop()
			left = min(left, MaxErrorBody)
		}
		n, err := body.Read(v.buf)
		left -= int64(n)
		if n > 0 && st.Wants() {
			mark = v.mark(mark)
			v.take(v.buf[:n], &ev, mark)
		}
		switch {
		case err != nil && st.Enough():
			return errors.Is(err, io.EOF), nil
		case errors.Is(err, io.EOF):
			if v.Parser.Flush(&ev) {
				st.Rest(&ev, mark)
			}
			return true, io.EOF
		case err != nil && context.Cause(ctx) != nil:
			return false, context.Cause(ctx)
		case err != nil:
			return false, err
		case left < 0 && st.Enough():
			return false, nil
		case left < 0:
			st.Fail(result.ErrProtocol, ErrTooLarge.Error(), mark.At)
			return false, nil
		}
	}
}

// mark returns that of the bytes that were just read. Where they came over more than
// one read, what came with an earlier one came after the last that is known.
func (v *Receiver) mark(last Mark) Mark {
	m := v.Mark()
	if last.Read > 0 && m.Read > last.Read+1 {
		m.After = last.At
	}
	return m
}

// take takes in what one read brought.
func (v *Receiver) take(b []byte, ev *sse.Event, m Mark) {
	st := &v.Answer
	tokens, chunks := st.Tokens(), st.Chunks()
	v.Parser.Feed(b)
	for st.Wants() && v.Parser.Next(ev) {
		st.Event(ev, m)
	}
	if e := v.Parser.Err(); e != nil && !st.Enough() {
		st.Fail(result.ErrProtocol, e.Error(), m.At)
	}
	if v.Tokens != nil && st.Chunks() > chunks {
		v.Tokens(st.Tokens() - tokens)
	}
}
