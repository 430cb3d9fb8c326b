package wire

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
)

func TestMaxChunks(t *testing.T) {
	for tokens, want := range map[int]int{
		0: 1 << 20, 1: 4096, 512: 4096, 513: 4104, 4096: 32768, 131_072: 1 << 20, 1 << 40: 1 << 20,
	} {
		if got := MaxChunks(tokens); got != want {
			t.Errorf("%d tokens: %d chunks, want %d", tokens, got, want)
		}
	}
	c := Config{MaxResponse: 64 << 20}
	for tokens, want := range map[int]int64{0: 64 << 20, 1: 8 << 20, 1024: 16 << 20, 1 << 20: 64 << 20} {
		if got := c.ResponseLimit(tokens); got != want {
			t.Errorf("%d tokens: %d bytes, want %d", tokens, got, want)
		}
	}
	if got := (&Config{MaxResponse: 1000}).ResponseLimit(1); got != 1000 {
		t.Errorf("a limit of 1000 bytes is %d", got)
	}
}

// A reason ends with a whole character: files hold valid UTF-8 alone.
func TestReason(t *testing.T) {
	for _, c := range []struct{ reason, want string }{
		{"stop", "stop"},
		{strings.Repeat("x", 65), strings.Repeat("x", 64)},
		{strings.Repeat("\u20ac", 22), strings.Repeat("\u20ac", 21)}, // of three bytes each
	} {
		if got := reason(c.reason); got != c.want {
			t.Errorf("%q becomes %q", c.reason, got)
		}
	}
}

// A hostile answer never ends; it begins with head and goes on with body again
// and again.
type hostile struct {
	head, body []byte
	read       int64
	left       []byte
}

func (h *hostile) Read(b []byte) (int, error) {
	if h.read == 0 {
		h.left = h.head
	}
	n := 0
	for n < len(b) {
		if len(h.left) == 0 {
			h.left = h.body
		}
		k := copy(b[n:], h.left)
		n, h.left = n+k, h.left[k:]
	}
	h.read += int64(n)
	return n, nil
}

func (h *hostile) Close() error { return nil }

// An endless answer is cut off, and little of it is kept. The bounds are of bytes
// and not of times.
func TestReceiver_memoryIsBounded(t *testing.T) {
	const mib = 1 << 20
	event := func(json string) string { return "data: " + json + "\n\n" }
	chunk := func(text string) string {
		return event(`{"choices":[{"index":0,"delta":{"content":"` + text + `"},"finish_reason":null}]}`)
	}
	long := strings.Repeat("x", mib-200)
	for _, c := range []struct {
		name, media, head, body string
		status                  int
		whole, keep             bool
		allocated               int64 // MiB in all
		class                   string
	}{
		{name: "tokens", body: chunk("w"), allocated: 2},
		{name: "tokens of a conversation", keep: true, body: chunk("w"), allocated: 2},
		{name: "long tokens of a conversation", keep: true, body: chunk(strings.Repeat("w", 40)), allocated: 3},
		{name: "empty chunks", body: chunk(""), allocated: 2},
		{name: "chunks with usage", body: event(`{"choices":[{"index":0,"delta":{"content":"w"}}],"usage":{"completion_tokens":3}}`), allocated: 2},
		{name: "escaped chunks", body: chunk(`\n`), allocated: 40},
		{name: "long chunks", body: chunk(long), allocated: 80},
		{name: "one line", head: "data: ", body: long, allocated: 8},
		{name: "one event", body: "data: " + long + "\n", allocated: 12},
		{name: "a long name", body: "event: " + long + "\n", allocated: 12},
		{name: "comments", body: ": " + long + "\n", allocated: 12},
		{name: "events of no choice", body: event(`{}`), allocated: 80},
		{name: "annotations", body: "event: note\ndata: hello\n\n", allocated: 2},
		{name: "a long reason", body: event(`{"choices":[{"index":0,"delta":{},"finish_reason":"` + long + `"}]}`), allocated: 80},
		{name: "values", body: event(`{"choices":[` + strings.Repeat("[],", mib/4) + `[]]}`), allocated: 12},
		{name: "a long error", body: event(`{"error":{"message":"` + long + `"}}`), allocated: 16, class: result.ErrServer},
		{name: "a blank error", body: event(`{"error":{"message":"e` + strings.Repeat(" ", mib-200) + `"}}`), allocated: 16, class: result.ErrServer},
		{name: "an endless refusal", status: 503, body: "no ", allocated: 2, class: result.ErrOverload},
		{name: "an endless page", media: "text/html", body: "no ", allocated: 2},
		{name: "an endless whole answer", whole: true, head: `{"choices":[{"message":{"content":"`, body: "word ", allocated: 64},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := &hostile{head: []byte(c.head), body: []byte(c.body)}
			if len(body.body) < 4096 { // fewer copies, the same bytes
				body.body = bytes.Repeat(body.body, 4096/len(body.body)+1)
			}
			media, status := c.media, c.status
			if media == "" {
				media = "text/event-stream"
			}
			if status == 0 {
				status = http.StatusOK
			}
			resp := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {media}}, Body: body}
			job := load.Job{MaxTokens: 64}
			q := Unsent(&job, 0)
			q.Status, q.Error, q.Sent = "", "", 0
			reads := 0
			v := &Receiver{
				Config: &Config{Stream: !c.whole, MaxResponse: DefaultMaxResponse},
				Now:    func() time.Duration { return time.Second },
				Mark: func() Mark {
					reads++
					return Mark{At: time.Duration(reads) * time.Microsecond, After: result.Never, Read: reads}
				},
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			ctx, cancel := context.WithCancelCause(t.Context())
			whole := v.Receive(ctx, cancel, resp, &q, c.keep)
			cancel(nil)
			runtime.ReadMemStats(&after)

			class := c.class
			if class == "" {
				class = result.ErrProtocol
			}
			if whole || q.Status != result.Failed || q.ErrorClass != class {
				t.Errorf("whole %v, %s %s: %s", whole, q.Status, q.ErrorClass, q.Error)
			}
			if most := v.Config.ResponseLimit(64) + receiveBuffer; body.read > most {
				t.Errorf("read %d bytes, bound %d", body.read, most)
			}
			if got := int64(after.TotalAlloc-before.TotalAlloc) >> 20; got > c.allocated {
				t.Errorf("allocated %d MiB, bound %d", got, c.allocated)
			}
			kept := 4*(cap(q.ChunkUS)+cap(q.ChunkTokens)) + len(q.Error) + len(q.FinishReason) + len(q.Answer)
			if kept > 128<<10 {
				t.Errorf("%d bytes are kept with the request", kept)
			}
			body.body, body.left = nil, nil
			runtime.GC()
			runtime.ReadMemStats(&after)
			if got := int64(after.HeapAlloc) - int64(before.HeapAlloc); got > 6<<20 {
				t.Errorf("the receiver and the request hold %d bytes", got)
			}
			runtime.KeepAlive(v)
			runtime.KeepAlive(&q)
		})
	}
}

var _ io.ReadCloser = (*hostile)(nil)
