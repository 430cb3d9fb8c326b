package wire

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Where the text of a chunk is lies in the scanner's hands; FuzzScan holds it
// against textOf.
var cmpChunk = cmp.Options{
	cmp.AllowUnexported(chunk{}, usage{}),
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".text" }, cmp.Ignore()),
}

// Chunks in the dialects of the servers, with what each must mean, and whether
// the scanner must know it without a decode.
var chunks = []struct {
	name, data string
	want       chunk
	fast       bool
}{
	{
		"role only", `{"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
		chunk{choice: true, seen: 1},
		true,
	},
	{
		"role with null content", `{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1}`,
		chunk{choice: true, seen: 1},
		true,
	},
	{
		"content", `{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}`,
		chunk{choice: true, seen: 1, token: true, output: true},
		true,
	},
	{
		"escaped content", `{"choices":[{"index":0,"delta":{"content":"\n\"\u00e4é"}}]}`,
		chunk{choice: true, seen: 1, token: true, output: true},
		true,
	},
	{
		"the words of a chunk as content", `{"choices":[{"index":0,"delta":{"content":"\"usage\":{\"completion_tokens\":7},\"finish_reason\":\"stop\",\"error\":1"}}]}`,
		chunk{choice: true, seen: 1, token: true, output: true},
		true,
	},
	{
		"reasoning is a token and no output", `{"choices":[{"index":0,"delta":{"reasoning":"hm"}}]}`,
		chunk{choice: true, seen: 1, token: true},
		true,
	},
	{
		"older name of reasoning", `{"choices":[{"index":0,"delta":{"reasoning_content":"hm","content":null}}]}`,
		chunk{choice: true, seen: 1, token: true},
		true,
	},
	{
		"empty reasoning beside content", `{"choices":[{"index":0,"delta":{"content":"a","reasoning_content":""}}]}`,
		chunk{choice: true, seen: 1, token: true, output: true},
		true,
	},
	{
		"tool call", `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}}]}`,
		chunk{choice: true, seen: 1, token: true, output: true},
		true,
	},
	{
		"arguments of a tool call", `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}`,
		chunk{choice: true, seen: 1, token: true, output: true},
		true,
	},
	{
		"no tool calls", `{"choices":[{"index":0,"delta":{"tool_calls":[]}}]}`,
		chunk{choice: true, seen: 1},
		true,
	},
	{
		"completions", `{"choices":[{"index":0,"text":"Hi","logprobs":null,"finish_reason":null,"stop_reason":null}]}`,
		chunk{choice: true, seen: 1, token: true, output: true},
		true,
	},
	{
		"content in logprobs is none", `{"choices":[{"index":0,"delta":{"role":"assistant"},"logprobs":{"content":[{"token":"a","content":"x"}]}}]}`,
		chunk{choice: true, seen: 1},
		true,
	},
	{
		"text beside finish_reason", `{"choices":[{"index":0,"delta":{"content":"."},"finish_reason":"length","stop_reason":null}]}`,
		chunk{choice: true, seen: 1, finished: 1, token: true, output: true, finish: "length"},
		true,
	},
	{
		"finish alone", `{"choices":[{"finish_reason":"stop","index":0,"delta":{}}]}`,
		chunk{choice: true, seen: 1, finished: 1, finish: "stop"},
		true,
	},
	{
		"a reason nobody knows", `{"choices":[{"finish_reason":"eos_token","index":0,"delta":{}}]}`,
		chunk{choice: true, seen: 1, finished: 1, finish: "eos_token"},
		true,
	},
	{
		"an escaped reason", `{"choices":[{"finish_reason":"st\u006fp","index":0,"delta":{}}]}`,
		chunk{choice: true, seen: 1, finished: 1, finish: "stop"},
		false,
	},
	{
		"usage", `{"choices":[],"usage":{"prompt_tokens":17,"total_tokens":81,"completion_tokens":64}}`,
		chunk{usage: true, count: usage{17, -1, 64, -1, 81}},
		true,
	},
	{
		"usage with cache", `{"choices":[],"usage":{"prompt_tokens":17,"completion_tokens":64,"prompt_tokens_details":{"cached_tokens":16}}}`,
		chunk{usage: true, count: usage{17, 16, 64, -1, -1}},
		true,
	},
	{
		"usage with null details", `{"choices":[],"usage":{"prompt_tokens":17,"completion_tokens":64,"prompt_tokens_details":null,"reasoning_tokens":0}}`,
		chunk{usage: true, count: usage{17, -1, 64, 0, -1}},
		true,
	},
	{
		"continuous usage", `{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":17,"completion_tokens":3}}`,
		chunk{choice: true, seen: 1, token: true, output: true, usage: true, count: usage{17, -1, 3, -1, -1}},
		true,
	},
	{
		"no usage yet", `{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":null}`,
		chunk{choice: true, seen: 1, token: true, output: true},
		true,
	},
	{
		"counts that are none", `{"usage":{"prompt_tokens":-1,"completion_tokens":1.5}}`,
		chunk{usage: true},
		false,
	},
	{
		"two choices", `{"choices":[{"index":1,"text":"a"},{"index":0,"text":"","finish_reason":"stop"}]}`,
		chunk{choice: true, seen: 3, finished: 1, token: true, output: true, finish: "stop"},
		true,
	},
	{"no choices", `{"id":"x","sglext":{}}`, chunk{}, true},
	{"null choices", `{"choices":null}`, chunk{}, true},
	{
		"error object", `{"error":{"message":"boom","type":"InternalServerError","param":null,"code":500}}`,
		chunk{failed: true, failure: "InternalServerError: boom (code 500)"},
		false,
	},
	{
		"error text", `{"error":"out of memory","error_type":"generation"}`,
		chunk{failed: true, failure: "out of memory"},
		false,
	},
	{
		"flat error", `{"object":"error","message":"no","type":"BadRequestError","code":400}`,
		chunk{failed: true, failure: "BadRequestError: no (code 400)"},
		false,
	},
	{"null error", `{"error":null,"choices":[]}`, chunk{}, true},
	{
		"a key twice: the last one counts", `{"choices":[{"index":0,"delta":{"content":"a","content":""}}]}`,
		chunk{choice: true, seen: 1},
		false,
	},
	{
		"not streamed", `{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`,
		chunk{choice: true, seen: 1, finished: 1, token: true, output: true, finish: "stop", whole: true, usage: true, count: usage{1, -1, 2, -1, -1}},
		false,
	},
	{
		"a message beside the delta", `{"choices":[{"index":0,"delta":{"content":""},"message":{"content":"all so far"}}]}`,
		chunk{choice: true, seen: 1},
		false,
	},
	{
		"blocks of text", `{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"a"}]}}]}`,
		chunk{choice: true, seen: 1, token: true, output: true},
		false,
	},
	{
		"blocks of thought", `{"choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}}]}`,
		chunk{choice: true, seen: 1, token: true},
		false,
	},
	{
		"blocks without text", `{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":""},{"type":"reference","ids":[1]}]}}]}`,
		chunk{choice: true, seen: 1},
		false,
	},
	{
		"details of reasoning", `{"choices":[{"index":0,"delta":{"content":"","reasoning_details":[{"type":"reasoning.text","text":"hm"}]}}]}`,
		chunk{choice: true, seen: 1, token: true},
		false,
	},
	{
		"thinking", `{"choices":[{"index":0,"delta":{"content":null,"thinking":"hm"}}]}`,
		chunk{choice: true, seen: 1, token: true},
		false,
	},
	{
		"refusal", `{"choices":[{"index":0,"delta":{"content":null,"refusal":"no"}}]}`,
		chunk{choice: true, seen: 1, token: true, output: true},
		false,
	},
	{
		"names of other servers without text", `{"choices":[{"index":0,"delta":{"content":"a","refusal":null,"function_call":null,"reasoning_details":[],"thinking":""}}]}`,
		chunk{choice: true, seen: 1, token: true, output: true},
		true,
	},
	{
		"the call of a function", `{"choices":[{"index":0,"delta":{"function_call":{"arguments":"{"}}}]}`,
		chunk{choice: true, seen: 1, token: true, output: true},
		false,
	},
	{
		"arguments that are an object", `{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":{"a":1}}}]}}]}`,
		chunk{choice: true, seen: 1, token: true, output: true},
		false,
	},
	{
		"usage in a choice", `{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":17,"completion_tokens":64}}]}`,
		chunk{choice: true, seen: 1, finished: 1, finish: "stop", usage: true, count: usage{17, -1, 64, -1, -1}},
		false,
	},
	{
		"usage of Groq", `{"choices":[],"x_groq":{"id":"r","usage":{"prompt_tokens":17,"completion_tokens":64}}}`,
		chunk{usage: true, count: usage{17, -1, 64, -1, -1}},
		false,
	},
	{
		"other names", `{"choices":[],"usage":{"input_tokens":17,"output_tokens":64,"input_tokens_details":{"cached_tokens":16},"output_tokens_details":{"reasoning_tokens":9}}}`,
		chunk{usage: true, count: usage{17, 16, 64, 9, -1}},
		false,
	},
	{
		"names of Google", `{"choices":[],"usageMetadata":{"promptTokenCount":17,"candidatesTokenCount":64,"thoughtsTokenCount":9,"totalTokenCount":90}}`,
		chunk{usage: true, count: usage{17, -1, 64, 9, 90}},
		false,
	},
	{
		"floats", `{"choices":[],"usage":{"prompt_tokens":17.0,"completion_tokens":6.4e1,"total_tokens":81}}`,
		chunk{usage: true, count: usage{17, -1, 64, -1, 81}},
		false,
	},
	{
		"an empty error", `{"error":{},"choices":[{"index":0,"text":"a"}]}`,
		chunk{choice: true, seen: 1, token: true, output: true},
		false,
	},
	{
		"a detail", `{"detail":"CUDA out of memory"}`,
		chunk{failed: true, failure: "CUDA out of memory"},
		false,
	},
	{
		"a typed error", `{"type":"error","message":"overloaded"}`,
		chunk{failed: true, failure: "overloaded"},
		false,
	},
	{
		"an error by its type", `{"error_type":"generation","error_message":"out of memory"}`,
		chunk{failed: true, failure: "generation: out of memory"},
		false,
	},
	{
		"a detail of a chunk", `{"detail":"x","choices":[{"index":0,"text":"a"}]}`,
		chunk{choice: true, seen: 1, token: true, output: true},
		false,
	},
	{
		"white space", "\n { \"choices\" : [ { \"index\" : 0 , \"text\" : \"a\" } ] } \t",
		chunk{choice: true, seen: 1, token: true, output: true},
		true,
	},
}

func TestParse(t *testing.T) {
	for _, c := range chunks {
		t.Run(c.name, func(t *testing.T) {
			want := c.want
			if want.count == (usage{}) {
				want.count = noUsage
			}
			slow, err := decode([]byte(c.data))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, slow, cmpChunk); diff != "" {
				t.Errorf("decode (-want +got):\n%s", diff)
			}
			var s scanner
			if sure := s.scan([]byte(c.data)); sure != c.fast {
				t.Errorf("the scanner is sure: %v, want %v", sure, c.fast)
			} else if sure {
				if diff := cmp.Diff(want, s.c, cmpChunk); diff != "" {
					t.Errorf("scan (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestParse_malformed(t *testing.T) {
	for _, data := range []string{
		``, ` `, `{`, `{}{}`, `{} x`, `[]`, `"x"`, `7`, `{"a":01}`, `{"a":1.}`, `{"a":tru}`, `{'a':1}`,
		`{"a":"` + "\x01" + `"}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":1,}`, `{"choices":[{"delta":{"content":"a`,
	} {
		var s scanner
		if _, err := s.parse([]byte(data)); err == nil {
			t.Errorf("%q is taken for a chunk", data)
		}
	}
}

// The scanner must know every event of a real server: a decode for each would
// make the client the bottleneck.
func TestScan_recorded(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.sse")
	if len(files) < 3 {
		t.Fatalf("recorded streams: %v", files)
	}
	var s scanner
	for _, f := range files {
		for _, data := range recorded(t, f) {
			if !s.scan(data) {
				t.Errorf("%s: not sure of %s", f, data)
				continue
			}
			slow, err := decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(slow, s.c, cmpChunk); diff != "" {
				t.Errorf("%s: (-decode +scan):\n%s", f, diff)
			}
		}
	}
}

func recorded(tb testing.TB, file string) [][]byte {
	tb.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	var out [][]byte
	for line := range bytes.Lines(b) {
		if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: ")); ok && data[0] == '{' {
			out = append(out, data)
		}
	}
	return out
}

func TestScan_allocatesNothing(t *testing.T) {
	data := recorded(t, "testdata/vllm-0.32.0-chat.sse")
	s := new(scanner)
	if n := testing.AllocsPerRun(100, func() {
		for _, d := range data {
			if !s.scan(d) {
				t.Fatal("not sure")
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzScan holds the scanner against the decoder: wherever it is sure, they
// agree, and it is never sure of what is no JSON.
func FuzzScan(f *testing.F) {
	for _, c := range chunks {
		f.Add([]byte(c.data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s scanner
		if !s.scan(data) {
			return
		}
		slow, err := decode(data)
		if err != nil {
			t.Fatalf("the scanner is sure of what the decoder refuses: %v", err)
		}
		if diff := cmp.Diff(slow, s.c, cmpChunk); diff != "" {
			t.Fatalf("(-decode +scan):\n%s", diff)
		}
		if s.c.text != nil && string(s.c.text) != textOf(data) {
			t.Fatalf("text %q, decoded %q", s.c.text, textOf(data))
		}
	})
}

// The meaning of an event does not depend on the one before, however alike they are.
func TestParse_afterAnother(t *testing.T) {
	const head, tail = `{"choices":[{"index":0,"delta":{"content":"`, `"},"finish_reason":null}]}`
	texts := []string{
		"a", "word", "", " ", "ä", `\n`, `a"b`, `","reasoning":"x`, `"},"finish_reason":"stop","x":{"y":"`, "\x01", "a\\", `\"`, "a",
	}
	for _, first := range texts {
		for _, second := range texts {
			checkParse(t, []byte(head+first+tail), []byte(head+second+tail))
		}
		for _, c := range chunks {
			checkParse(t, []byte(head+first+tail), []byte(c.data))
			checkParse(t, []byte(c.data), []byte(head+first+tail))
		}
	}
	// The memo is of use: a stream's chunks are alike.
	var s scanner
	for _, text := range []string{"a", "bcd", "e"} {
		if _, ok := s.memo.again([]byte(head + text + tail)); ok != (text != "a") {
			t.Errorf("%q is taken for the one before: %v", text, ok)
		}
		if _, err := s.parse([]byte(head + text + tail)); err != nil {
			t.Fatal(err)
		}
	}
}

// checkParse parses two events one after the other and holds both against the
// decoder.
func checkParse(t *testing.T, events ...[]byte) {
	t.Helper()
	var s scanner
	for _, data := range events {
		got, err := s.parse(data)
		want, wantErr := decode(data)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%s: %v, decoded %v", data, err, wantErr)
		}
		if diff := cmp.Diff(want, got, cmpChunk); err == nil && diff != "" {
			t.Fatalf("%s: (-decode +parse):\n%s", data, diff)
		}
		if got.text != nil && string(got.text) != textOf(data) {
			t.Fatalf("%s: text %q, decoded %q", data, got.text, textOf(data))
		}
	}
}

// FuzzParse holds two events of one stream against the decoder.
func FuzzParse(f *testing.F) {
	for i, c := range chunks {
		f.Add([]byte(c.data), []byte(chunks[(i+1)%len(chunks)].data))
		f.Add([]byte(c.data), []byte(c.data))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) { checkParse(t, first, second, first) })
}

func BenchmarkScan(b *testing.B) {
	data := recorded(b, "testdata/vllm-0.32.0-chat.sse")[3]
	b.SetBytes(int64(len(data)))
	b.Run("scan", func(b *testing.B) {
		b.ReportAllocs()
		s := new(scanner)
		for b.Loop() {
			s.scan(data)
		}
	})
	b.Run("again", func(b *testing.B) {
		b.ReportAllocs()
		s := new(scanner)
		for b.Loop() {
			_, _ = s.parse(data)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			decode(data)
		}
	})
}
