package wire

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/load/sse"
	"sweep.dev/sweep/result"
)

// event returns one of a stream: a chunk of a choice, with what else stands in it.
func event(choice, rest string) string {
	return fmt.Sprintf(`data: {"choices":[{"index":0,%s}]%s}`+"\n\n", choice, rest)
}

// A count is read from wherever the server puts it, and believed once.
func TestAnswer_usages(t *testing.T) {
	const done = "data: [DONE]\n\n"
	text := func(rest string) string { return event(`"delta":{"content":"w "},"finish_reason":null`, rest) }
	thought := event(`"delta":{"reasoning_content":"r "},"finish_reason":null`, "")
	finish := func(rest string) string { return event(`"delta":{},"finish_reason":"stop"`, rest) }
	usage := func(format string, values ...any) string { return `,"usage":` + fmt.Sprintf(format, values...) }
	counts := func(prompt, completion int) string {
		return usage(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, prompt, completion, prompt+completion)
	}
	alone := func(rest string) string { return `data: {"choices":[]` + rest + "}\n\n" }
	four := strings.Repeat(text(""), 4)
	unknown := []int32{-1, -1, -1, -1, 0}
	for _, c := range []struct {
		name, stream string
		source       string
		tokens       int
		chunks       []int32 // nil if none is known
	}{
		{"at the end, alone", four + finish("") + alone(counts(20, 4)) + done, result.FromUsage, 4, unknown},
		{"on the terminal chunk", four + finish(counts(20, 4)) + done, result.FromUsage, 4, unknown},
		{"behind the terminal chunk", four + finish("") + event(`"delta":{},"finish_reason":null`, counts(20, 4)) + done, result.FromUsage, 4, append(slices.Clone(unknown), 0)},
		{"on the last chunk with text", strings.Repeat(text(""), 3) + event(`"delta":{"content":"w"},"finish_reason":"stop"`, counts(20, 4)) + done, result.FromUsage, 4, nil},
		{"zeros before it", strings.Repeat(text(counts(0, 0)), 4) + finish("") + alone(counts(20, 4)) + done, result.FromUsage, 4, unknown},
		{"zeros before it, on the terminal chunk", strings.Repeat(text(counts(20, 0)), 4) + finish(counts(20, 4)) + done, result.FromUsage, 4, unknown},
		{"zeros behind it", four + finish(counts(20, 4)) + alone(counts(0, 0)) + done, result.FromUsage, 4, unknown},
		{"running", text(counts(20, 1)) + text(counts(20, 3)) + finish(counts(20, 4)) + alone(counts(20, 4)) + done, result.FromUsage, 4, []int32{1, 2, 1}},
		{"running, one behind", text(counts(20, 0)) + text(counts(20, 1)) + text(counts(20, 2)) + finish(counts(20, 3)) + done, result.FromUsage, 3, []int32{-1, -1, 1, 1}},
		{"all in one chunk", event(`"delta":{"content":"all of it"},"finish_reason":"stop"`, counts(20, 4)) + done, result.FromUsage, 4, []int32{4}},
		{"behind [DONE]", four + finish("") + done + alone(counts(20, 4)), result.FromUsage, 4, unknown},
		{"reasoning in it", thought + thought + text("") + text("") + finish(usage(`{"prompt_tokens":20,"completion_tokens":4,"total_tokens":24,"completion_tokens_details":{"reasoning_tokens":2}}`)) + done, result.FromUsage, 4, unknown},
		{"reasoning beside it", thought + thought + text("") + text("") + finish(usage(`{"prompt_tokens":20,"completion_tokens":2,"total_tokens":24,"completion_tokens_details":{"reasoning_tokens":2}}`)) + done, result.FromUsage, 4, unknown},
		{"reasoning beside it, and no total", strings.Repeat(thought, 8) + text("") + finish(usage(`{"prompt_tokens":20,"completion_tokens":1,"completion_tokens_details":{"reasoning_tokens":8}}`)) + done, result.FromUsage, 9, append(slices.Repeat([]int32{-1}, 9), 0)},
		{"what was cached beside the prompt", four + finish(usage(`{"prompt_tokens":4,"completion_tokens":4,"total_tokens":24,"cache_read_input_tokens":16}`)) + done, result.FromUsage, 4, unknown},
		{"a total that is another", four + finish(usage(`{"prompt_tokens":20,"completion_tokens":4,"total_tokens":99}`)) + done, result.Contradictory, 4, unknown},
		{"more chunks than tokens", strings.Repeat(four, 3) + finish(counts(20, 2)) + done, result.Contradictory, 2, append(slices.Repeat([]int32{-1}, 12), 0)},
		{"a message that has all of it again", four + event(`"message":{"content":"w w w w "},"finish_reason":"stop"`, counts(20, 4)) + done, result.FromUsage, 4, unknown},
	} {
		r, _ := replay([]byte(c.stream))
		if r.Status != result.Completed || r.TokenSource != c.source || r.CompletionTokens != c.tokens || !slices.Equal(r.ChunkTokens, c.chunks) {
			t.Errorf("%s: %s %s, %q says %d tokens, of the chunks %v", c.name, r.Status, r.Error, r.TokenSource, r.CompletionTokens, r.ChunkTokens)
		}
		if r.PromptTokens != 20 && c.source == result.FromUsage {
			t.Errorf("%s: a prompt of %d tokens", c.name, r.PromptTokens)
		}
	}
}

// whole returns the answer of a stream that ended, perhaps within an event.
func whole(stream string) result.Request {
	r, s := replay()
	r.Status, r.Error, r.ErrorClass, r.End = "", "", "", result.Never
	s.Begin(&r, true, false)
	var p sse.Parser
	var ev sse.Event
	m := Mark{At: time.Millisecond, After: result.Never, Read: 1}
	p.Feed([]byte(stream))
	for p.Next(&ev) {
		s.Event(&ev, m)
	}
	if p.Flush(&ev) {
		s.Rest(&ev, m)
	}
	s.Close(io.EOF, m.At)
	return r
}

// What a server says of a failure is the error, in whatever form it comes.
func TestAnswer_failures(t *testing.T) {
	const done = "data: [DONE]\n\n"
	text := event(`"delta":{"content":"w "},"finish_reason":null`, "")
	end := `data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":1}}` + "\n\n" + done
	for _, c := range []struct{ name, stream, want string }{
		{"abort", text + event(`"delta":{},"finish_reason":"abort"`, "") + end, `finish_reason "abort"`},
		{"abort before any text", event(`"delta":{},"finish_reason":"abort"`, "") + done, `finish_reason "abort"`},
		{"error", text + event(`"delta":{},"finish_reason":"error"`, "") + end, `finish_reason "error"`},
		{"a field", text + `error: {"code":500,"message":"out of memory","type":"server_error"}` + "\n\n", "server_error: out of memory (code 500)"},
		{"a field with a text", text + "error: out of memory\n\n" + done, "out of memory"},
		{"a field at the end of the stream", text + "error: out of memory", "out of memory"},
		{"bare", text + `{"error":{"message":"out of memory"}}` + "\n", "out of memory"},
		{"bare and alone", `{"error":{"message":"out of memory"}}`, "out of memory"},
		{"a named event with an object", text + "event: error\ndata: " + `{"message":"out of memory","code":7}` + "\n\n", "out of memory (code 7)"},
		{"a text", text + "data: Internal Server Error\n\n", "Internal Server Error"},
	} {
		r := whole(c.stream)
		if r.Status != result.Failed || !strings.Contains(r.Error, c.want) || r.ErrorClass == result.ErrTruncated {
			t.Errorf("%s: %s, class %s: %s", c.name, r.Status, r.ErrorClass, r.Error)
		}
	}
	r := whole(text + `data: {"error":{}}` + "\n\n" + event(`"delta":{},"finish_reason":"stop"`, "") + end)
	if r.Status != result.Completed {
		t.Errorf("an empty error: %s: %s", r.Status, r.Error)
	}
}

// An answer whose text is in no place that is known says where it may be.
func TestAnswer_sample(t *testing.T) {
	odd := event(`"delta":{"monologue":"w "},"finish_reason":null`, "")
	role := event(`"delta":{"role":"assistant"},"finish_reason":null`, "")
	end := event(`"delta":{},"finish_reason":"stop"`, `,"usage":{"prompt_tokens":20,"completion_tokens":2}`) + "data: [DONE]\n\n"
	r, _ := replay([]byte(role + odd + odd + end))
	if r.Status != result.Completed || r.FirstToken != result.Never || !strings.Contains(r.Error, `"monologue":"w "`) {
		t.Errorf("%+v", r)
	}
}
