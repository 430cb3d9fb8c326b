package wire

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/load/sse"
	"sweep.dev/sweep/result"
)

// replay gives a stream its bytes in the given segments, a millisecond apart.
func replay(segments ...[]byte) (result.Request, *Answer) {
	r := Unsent(&noJob, 0)
	r.Status, r.Error, r.Sent = "", "", 0
	var s Answer
	s.Begin(&r, true, false)
	var p sse.Parser
	var ev sse.Event
	at := time.Duration(0)
	read := 0
	for _, b := range segments {
		at += time.Millisecond
		p.Feed(b)
		for p.Next(&ev) {
			read++
			s.Event(&ev, Mark{At: at, After: result.Never, Read: read})
		}
	}
	s.Close(io.EOF, at)
	return r, &s
}

// The streams of real servers, whole and cut in two at every byte: what is
// counted does not depend on how the network cut them.
func TestAnswer_recorded(t *testing.T) {
	for _, c := range []struct {
		file           string
		chunks, prompt int
		first, cached  int
		tokens         []int32
	}{
		{"vllm-0.32.0", 13, 19, 1, result.Unknown, []int32{0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}},
		{"dynamo-1.6.1", 13, 19, 0, 0, []int32{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0}},
		{"llamacpp-b11549", 14, 32, 1, 1, []int32{0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0}},
	} {
		t.Run(c.file, func(t *testing.T) {
			b, err := os.ReadFile("testdata/" + c.file + "-chat.sse")
			if err != nil {
				t.Fatal(err)
			}
			for cut := range len(b) + 1 {
				r, s := replay(b[:cut], b[cut:])
				if r.Status != result.Completed || r.FinishReason != "length" || r.CompletionTokens != 12 ||
					r.PromptTokens != c.prompt || r.CachedTokens != c.cached ||
					len(r.ChunkUS) != c.chunks || r.FirstTokenChunk != c.first || s.tokens != 12 && c.file != "llamacpp-b11549" {
					t.Fatalf("cut at %d: %+v", cut, r)
				}
				if diff := cmp.Diff(c.tokens[:len(r.ChunkTokens)], r.ChunkTokens); diff != "" {
					t.Fatalf("cut at %d: tokens (-want +got):\n%s", cut, diff)
				}
			}
			// Without its end it is no success, wherever that is missing.
			done := bytes.Index(b, []byte("data: [DONE]"))
			for cut := range done - 1 {
				if r, _ := replay(b[:cut]); r.Status != result.Failed || r.ErrorClass != result.ErrTruncated {
					t.Fatalf("ends after %d of %d bytes: %s %s", cut, len(b), r.Status, r.ErrorClass)
				}
			}
			if r, _ := replay(b[:done]); r.Status != result.Completed || r.TokenSource != "usage" {
				t.Errorf("without [DONE]: %+v", r)
			}
		})
	}
}

// A usage of zeros for an answer with text is unknown, and so is a prompt of zero
// tokens.
func TestAnswer_usageOfZeros(t *testing.T) {
	const text = `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}],"usage":{"prompt_tokens":0,"completion_tokens":0}}` + "\n\n"
	const end = `data: {"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":0}}` + "\n\ndata: [DONE]\n\n"
	r, _ := replay([]byte(text), []byte(end))
	if r.Status != result.Completed || r.PromptTokens != result.Unknown || r.CompletionTokens != 2 || r.TokenSource != "chunks" || r.ChunkTokens != nil {
		t.Errorf("%+v", r)
	}
}

// A stream without the usage that was asked for is complete if finish_reason and
// [DONE] came; each of its chunks with content is counted as one token.
func TestAnswer_withoutUsage(t *testing.T) {
	const (
		text   = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n"
		finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
		done   = "data: [DONE]\n\n"
	)
	for _, c := range []struct{ name, stream, class string }{
		{"finish_reason and [DONE]", text + text + finish + done, ""},
		{"no [DONE]", text + text + finish, result.ErrTruncated},
		{"no finish_reason", text + text + done, result.ErrTruncated},
		{"[DONE] alone", done, result.ErrTruncated},
		{"no token", finish + done, result.ErrNoTokens},
	} {
		r, _ := replay([]byte(c.stream))
		if r.ErrorClass != c.class {
			t.Errorf("%s: %s, class %q: %s", c.name, r.Status, r.ErrorClass, r.Error)
		}
		if c.class == "" && (r.Status != result.Completed || r.TokenSource != "chunks" || r.CompletionTokens != 2) {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

func TestAnswer_gapsAreDifferencesOfFloors(t *testing.T) {
	r := Unsent(&noJob, 0)
	r.Sent = 900 // ns
	var s Answer
	s.Begin(&r, false, false)
	chunk := &sse.Event{Data: []byte(`{"choices":[{"index":0,"text":"a"}]}`)}
	for i, at := range []time.Duration{1100, 1999, 2000, 5_000_500} {
		s.Event(chunk, Mark{At: at, After: result.Never, Read: i + 1})
	}
	if diff := cmp.Diff([]int32{1, 0, 1, 4998}, r.ChunkUS); diff != "" {
		t.Error(diff)
	}
}

func TestAnswer_everyChoiceMustFinish(t *testing.T) {
	events := func(data ...string) []byte {
		var b []byte
		for _, d := range data {
			b = append(b, "data: "+d+"\n\n"...)
		}
		return b
	}
	two := []string{
		`{"choices":[{"index":0,"text":"a"}]}`, `{"choices":[{"index":1,"text":"a"}]}`,
		`{"choices":[{"index":0,"text":"","finish_reason":"stop"}]}`, `{"usage":{"completion_tokens":2}}`, "[DONE]",
	}
	if r, _ := replay(events(two...)); r.ErrorClass != result.ErrTruncated {
		t.Errorf("one of two choices finished: %+v", r)
	}
	two[3] = `{"choices":[{"index":1,"text":"","finish_reason":"stop"}],"usage":{"completion_tokens":2}}`
	if r, _ := replay(events(two...)); r.Status != result.Completed {
		t.Errorf("both finished: %+v", r)
	}
	// Tokens without text (special ones) are tokens all the same.
	if r, _ := replay(events(`{"choices":[{"index":0,"text":"","finish_reason":"length"}],"usage":{"completion_tokens":5}}`)); r.Status != result.Completed || r.FirstToken != result.Never {
		t.Errorf("tokens without text: %+v", r)
	}
	// An annotation that is not JSON is no fault of the stream.
	if r, _ := replay([]byte("event: note\ndata: hello\n\n"), events(two...)); r.Status != result.Completed {
		t.Errorf("with an annotation: %+v", r)
	}
}

// A last delta that has all of the answer again is no text: it is neither counted nor kept.
func TestAnswer_again(t *testing.T) {
	for last, want := range map[string]struct {
		tokens int
		text   string
	}{
		`one\nand two, and three`:        {3, "one\nand two, and three"},
		`one\nand two, and three.`:       {3, "one\nand two, and three"},
		`one\nand two`:                   {4, "one\nand two, and threeone\nand two"},
		` One\nand two, and three, four`: {4, "one\nand two, and three One\nand two, and three, four"},
	} {
		r := Unsent(&noJob, 0)
		r.Sent = 0
		var s Answer
		s.Begin(&r, false, true)
		for i, data := range []string{
			`{"choices":[{"index":0,"delta":{"content":"one\nand"},"finish_reason":null}]}`,
			`{"choices":[{"index":0,"delta":{"content":" two, "},"finish_reason":null}]}`,
			`{"choices":[{"index":0,"delta":{"content":"and three"},"finish_reason":null}]}`,
			`{"choices":[{"index":0,"delta":{"content":"` + last + `"},"finish_reason":"stop"}]}`,
		} {
			s.Event(&sse.Event{Data: []byte(data)}, Mark{At: time.Duration(i), After: result.Never, Read: i + 1})
		}
		s.Close(io.EOF, 9)
		if r.Status != result.Completed || r.CompletionTokens != want.tokens || r.Answer != want.text {
			t.Errorf("%s: %d tokens, %q", last, r.CompletionTokens, r.Answer)
		}
	}
}

func TestAnswer_keepsItsText(t *testing.T) {
	r := Unsent(&noJob, 0)
	r.Sent = 0
	var s Answer
	s.Begin(&r, false, true)
	for i, data := range []string{
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`,
		`{"choices":[{"index":0,"delta":{"reasoning":"hm"}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"one"}}]}`,
		`{"choices":[{"index":0,"delta":{"content":" t\u0077o\n"}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"name":"f"}}]}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"three"},"finish_reason":"stop"}]}`,
	} {
		s.Event(&sse.Event{Data: []byte(data)}, Mark{At: time.Duration(i), After: result.Never, Read: i + 1})
	}
	s.Close(io.EOF, 9)
	if r.Status != result.Completed || r.Answer != "one two\nthree" {
		t.Errorf("%s %q: %q", r.Status, r.Error, r.Answer)
	}
}
