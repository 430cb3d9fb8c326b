package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/load"
)

var noJob load.Job

func TestEncoder(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
		job    load.Job
		want   string
	}{
		{
			"chat",
			Config{Model: "m", Chat: true, Stream: true, IncludeUsage: true, IgnoreEOS: true, MinTokens: true},
			load.Job{Prompt: load.Prompt{Turns: []string{"hi"}}, MaxTokens: 5},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,
			"messages":[{"role":"user","content":"hi"}],"max_tokens":5,"min_tokens":5}`,
		},
		{
			"conversation",
			Config{Model: "m", Chat: true},
			load.Job{Prompt: load.Prompt{System: "s", Turns: []string{"a", "b", "c"}}},
			`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},
			{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`,
		},
		{
			"completions",
			Config{Model: "m"},
			load.Job{Prompt: load.Prompt{System: "s", Turns: []string{"a"}}, MaxTokens: 1},
			`{"model":"m","prompt":"s\n\na","max_tokens":1}`,
		},
		{
			"sampling",
			Config{Model: "m", Temperature: new(0.0), TopP: new(0.9), Stop: []string{"\n"}, MaxTokensField: "max_completion_tokens"},
			load.Job{Prompt: load.Prompt{Turns: []string{"a"}}, MaxTokens: 1, Seed: new(uint64(1<<64 - 1))},
			`{"model":"m","temperature":0,"top_p":0.9,"stop":["\n"],"prompt":"a","max_completion_tokens":1,"seed":18446744073709551615}`,
		},
		{
			"continuous usage and further fields",
			Config{
				Model: "m", Stream: true, IncludeUsage: true, ContinuousUsage: true,
				Body: map[string]any{"nvext": map[string]any{"extra_fields": []string{"timing"}}},
			},
			load.Job{Prompt: load.Prompt{Turns: []string{"a"}}},
			`{"model":"m","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},
			"nvext":{"extra_fields":["timing"]},"prompt":"a"}`,
		},
		{
			"text that JSON must escape",
			Config{Model: "m"},
			load.Job{Prompt: load.Prompt{Turns: []string{"\"\\\n<é\u2028"}}},
			`{"model":"m","prompt":"\"\\\n<é\u2028"}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := newEncoder(&c.config)
			if err != nil {
				t.Fatal(err)
			}
			decode := func(b []byte) (v any) {
				d := json.NewDecoder(strings.NewReader(string(b)))
				d.UseNumber()
				if err := d.Decode(&v); err != nil {
					t.Fatalf("%v: %s", err, b)
				}
				return v
			}
			if diff := cmp.Diff(decode([]byte(c.want)), decode(e.Encode(&c.job))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEndpoint(t *testing.T) {
	for _, c := range []struct{ base, path, want string }{
		{"http://h", "", "http://h/v1/chat/completions"},
		{"http://h:1/", "", "http://h:1/v1/chat/completions"},
		{"https://h/proxy/8000/", "/v1/chat/completions", "https://h/proxy/8000/v1/chat/completions"},
		{"http://h?key=1", "/x?n=2&itl=1", "http://h/x?key=1&n=2&itl=1"},
	} {
		u, err := (&Config{BaseURL: c.base, Path: c.path, Chat: true}).endpoint()
		if err != nil || u.String() != c.want {
			t.Errorf("%s + %s = %v, %v; want %s", c.base, c.path, u, err, c.want)
		}
	}
}

func TestClip(t *testing.T) {
	for in, want := range map[string]string{
		" a\n\x1b[31mb\x00 ":           "a  [31mb",
		"\xff":                         "\ufffd",
		strings.Repeat("é", 300):       strings.Repeat("é", 200) + "...",
		"x" + strings.Repeat("é", 300): "x" + strings.Repeat("é", 199) + "...",
	} {
		if got := Clip(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}
