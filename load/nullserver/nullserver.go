// Package nullserver is an inference server without a model: it streams chunks
// of the shape that vLLM's have, and each chunk says when it was sent. What a
// client records of it can be held against the truth, chunk by chunk, however
// late the server itself is.
//
// POST to any path answers with a stream; the query says which:
//
//	n      chunks of the stream (default 200)
//	itl    microseconds from one to the next (default 20000)
//	ttft   microseconds from the request to the first (default 20000)
//	mode   0 phases at random, 1 all streams on a common grid of itl, 2 flood:
//	       as fast as the client reads, 3 each exactly ttft after its request
//	k      chunks in one write (default 1)
//	stall  microseconds that the stream pauses once, in its middle
//	for    microseconds after which the stream ends, if n were not reached
//	ramp   divides itl by ramp/100 once every "every" microseconds
//
// GET /stats answers with [Stats]. A beat that the server cannot keep is left
// out, never made up for: two chunks of one stream are at least half an itl
// apart (in one write excepted), so that what a client finds in one read is its
// own lateness.
package nullserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A Mode is how the streams lie to one another in time.
type Mode int

// The modes, by their numbers in the query.
const (
	Random Mode = iota
	Grid
	Flood
	Exact
)

// Bounds of what a query may ask for.
const (
	maxChunks = 10_000_000
	maxBatch  = 64 // chunks in one write
	maxBody   = 1 << 20
)

// Stats counts a server's work so far.
type Stats struct {
	Requests int `json:"requests"`
	Chunks   int `json:"chunks"` // with content
	Writes   int `json:"writes"`
	// Blocked counts the beats at which a client had not read what was sent
	// before, Skipped those that the server was too late for.
	Blocked int `json:"blocked"`
	Skipped int `json:"skipped"`
}

// An ask is one query.
type ask struct {
	chunks, batch         int
	itl, ttft, stall, dur int64 // ns; dur 0 is none
	ramp                  float64
	every                 int64
	mode                  Mode
}

func parse(query string) (ask, error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return ask{}, fmt.Errorf("query: %w", err)
	}
	known := 0
	number := func(key string, def, least, most int64) int64 {
		text, ok := q[key]
		if !ok {
			return def
		}
		known++
		n, perr := strconv.ParseInt(text[0], 10, 64)
		if perr != nil || n < least || n > most {
			err = errors.Join(err, fmt.Errorf("%s=%q is not a number from %d to %d", key, text[0], least, most))
		}
		return n
	}
	const longest = int64(time.Hour / time.Microsecond)
	a := ask{
		chunks: int(number("n", 200, 1, maxChunks)),
		batch:  int(number("k", 1, 1, maxBatch)),
		itl:    1000 * number("itl", 20_000, 1, longest),
		ttft:   1000 * number("ttft", 20_000, 0, longest),
		stall:  1000 * number("stall", 0, 0, longest),
		dur:    1000 * number("for", 0, 0, longest),
		ramp:   float64(number("ramp", 100, 100, 1000)) / 100,
		every:  1000 * number("every", 0, 0, longest),
		mode:   Mode(number("mode", 0, 0, int64(Exact))),
	}
	if known != len(q) {
		err = errors.Join(err, fmt.Errorf("query %q has a key that is none of n, itl, ttft, mode, k, stall, for, ramp, every", query))
	}
	return a, err
}

// first returns when the first chunk of a stream is due whose request came at now.
func (a *ask) first(now int64, random func(int64) int64) int64 {
	switch a.mode {
	case Flood:
		return now
	case Grid:
		return ((now+a.ttft)/a.itl + 1) * a.itl
	case Exact:
		return now + a.ttft
	default:
		return now + a.ttft + random(a.itl)
	}
}

// next returns when the chunk after the one of due comes, which was sent at now, and
// how many beats are left out for that.
func (a *ask) next(due, now int64) (at int64, skipped int) {
	if a.mode == Flood {
		return now, 0
	}
	beats := max(1, (now+a.itl/2-due+a.itl-1)/a.itl)
	at = due + beats*a.itl
	if a.mode == Grid {
		at = (at + a.itl - 1) / a.itl * a.itl // the grid changes with the itl
	}
	return at, int(beats - 1)
}

// faster shortens itl as the ramp says.
func (a *ask) faster() { a.itl = max(1000, int64(math.Round(float64(a.itl)/a.ramp))) }

// The parts of a stream.
const (
	before = `{"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk","created":1767225600,"model":"null/null-0B-Instruct","choices":[`
	role   = before + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null}`
	token  = before + `{"index":0,"delta":{"content":"T01234567890123456789"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`
	finish = before + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"length","stop_reason":null}]}`

	promptTokens = 16 // the count that usage claims; the prompt is not read
	stampDigits  = 20
	// StampLen is how long the text of one chunk is: "T" and the nanoseconds of
	// its send, in digits.
	StampLen = 1 + stampDigits
)

func event(data string) string { return "data: " + data + "\n\n" }

// A frame is a chunk whose stamp is written anew each time.
type frame struct {
	bytes []byte
	at    int // of the first digit
}

func newFrame(text string) frame {
	return frame{[]byte(text), strings.Index(text, `"T0`) + 2}
}

func (f *frame) stamp(t int64) {
	for i := stampDigits - 1; i >= 0; i-- {
		f.bytes[f.at+i] = byte('0' + t%10)
		t /= 10
	}
}

// ending returns what a stream of so many chunks ends with.
func ending(chunks int) [3]string {
	usage := fmt.Sprintf(`],"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}}`, promptTokens, promptTokens+chunks, chunks)
	return [3]string{event(finish), event(before + usage), event("[DONE]")}
}

// Stamps reads the send times out of the text of an answer, in nanoseconds of
// the clock of [Clock].
func Stamps(text string) ([]int64, error) {
	if len(text)%StampLen != 0 {
		return nil, fmt.Errorf("a text of %d bytes is not made of stamps", len(text))
	}
	list := make([]int64, 0, len(text)/StampLen)
	for ; text != ""; text = text[StampLen:] {
		t, err := strconv.ParseInt(text[1:StampLen], 10, 64)
		if text[0] != 'T' || err != nil {
			return nil, fmt.Errorf("%q is not a stamp", text[:StampLen])
		}
		list = append(list, t)
	}
	return list, nil
}

// Process runs the server as a process of its own: it writes its URL to out as
// one line, and serves until in ends, which is at the latest when the process
// ends that holds the other end, or until ctx is done.
func Process(ctx context.Context, in io.Reader, out io.Writer) error {
	// The loop keeps a thread to itself, and somebody has to hear of the end.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	s, err := New()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with in
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	if _, err := fmt.Fprintln(out, s.URL()); err != nil {
		s.Close()
		return fmt.Errorf("null server: %w", err)
	}
	return s.Serve(ctx)
}
