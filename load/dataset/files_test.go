package dataset

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "prompts")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadPrompts(t *testing.T) {
	ask := func(limit int, system string, turns ...string) source.Entry {
		return source.Entry{Prompt: load.Prompt{System: system, Turns: turns, Target: result.Unknown}, MaxTokens: limit}
	}
	for _, c := range []struct {
		name, kind, text string
		want             []source.Entry
	}{
		{"prompts", "jsonl", "\ufeff{\"prompt\":\"a\",\"id\":7}\n\n{\"prompt\":\"b\",\"max_tokens\":9}", []source.Entry{ask(0, "", "a"), ask(9, "", "b")}},
		{
			"messages", "jsonl", `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":"a"},{"role":"user","content":"v"}]}` + "\r\n",
			[]source.Entry{ask(0, "s", "u", "a", "v")},
		},
		{
			"conversations", "sharegpt", `[
			{"id":"1","conversations":[{"from":"human","value":"u"},{"from":"gpt","value":"a"}]},
			{"id":"2","conversations":[{"from":"gpt","value":"a"}]},
			{"id":"3","conversations":[]},
			{"id":"4","conversations":[
				{"from":"system","value":"s"},
				{"from":"user","value":"w"}]}]`,
			[]source.Entry{ask(0, "", "u"), ask(0, "s", "w")},
		},
		{
			"longer conversations", "sharegpt", `[
			{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"},{"from":"human","value":"c"},{"from":"gpt","value":"d"}]},
			{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"},{"from":"gpt","value":"c"},{"from":"human","value":"d"}]}]`,
			[]source.Entry{talk(ask(0, "", "a"), "a", "b", "c"), ask(0, "", "a")},
		},
		{
			"csv", "csv", "\ufeffid,prompt,max_tokens\r\n1,a,\r\n2,\"b \"\"c\"\",\nd\",9\r\n\r\n3,e,\r\n",
			[]source.Entry{ask(0, "", "a"), ask(9, "", "b \"c\",\nd"), ask(0, "", "e")},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, c.text)
			got, rest, err := ReadPrompts(path, c.kind)
			if err != nil || rest != nil {
				t.Fatal(rest, err)
			}
			if diff := gocmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			testRest(t, path, c.kind, c.want)
		})
	}
}

func talk(e source.Entry, turns ...string) source.Entry {
	e.Turns = turns
	return e
}

func TestReadPairs(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []source.Pair
		err        string
	}{
		{"plain", "10,20\n30,40\n", []source.Pair{{Input: 10, Output: 20}, {Input: 30, Output: 40}}, ""},
		{"header", "id,output,input\n1,20,10\n", []source.Pair{{Input: 10, Output: 20}}, ""},
		{"empty", "", nil, "it is empty"},
		{"only a header", "input,output\n", nil, "no pair"},
		{"another header", "in,out\n1,2\n", nil, `:1: no column "input"`},
		{"one field", "10\n", nil, ":1: 1 fields"},
		{"no number", "10,20\n30,x\n", nil, ":2: a length is not a whole number"},
		{"zero", "10,20\n30,0\n", nil, ":2: an output of 0"},
		{"negative", "-1,20\n", nil, ":1: an input of -1"},
		{"ragged", "10,20\n30\n", nil, ":2: wrong number"},
	} {
		got, err := ReadPairs(write(t, c.text))
		if !gocmp.Equal(got, c.want) || (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
}

func TestReadPrompts_refuses(t *testing.T) {
	for _, c := range []struct{ name, kind, text, want string }{
		{"kind", "xml", "x", `kind "xml" is not known`},
		{"csv without a header", "csv", "\n", ":1: no header"},
		{"csv without a prompt", "csv", "text,max_tokens\na,1\n", `:1: no column "prompt"`},
		{"csv with an empty prompt", "csv", "prompt\na\n\"\"\n", ":3: the prompt is empty"},
		{"csv with more fields", "csv", "prompt,max_tokens\na,1\nb,2,3\n", ":3: wrong number of fields"},
		{"csv with a bare quote", "csv", "prompt\n\"a\nb\"\nc\"d\n", ":4: bare"},
		{"csv with a bound", "csv", "prompt,max_tokens\n\"a\nb\",7\nc,0\n", ":4: max_tokens is not a number"},
		{"empty", "jsonl", "\n \n", "no prompt in it"},
		{"no JSON", "jsonl", "{\"prompt\":\"a\"}\nhello", ":2: no JSON: invalid character"},
		{"no object", "jsonl", "[1]", ":1: an array where an object is due"},
		{"neither", "jsonl", "{\"text\":\"a\"}", `:1: neither "prompt" nor "messages"`},
		{"both", "jsonl", `{"prompt":"a","messages":[]}`, ":1: both"},
		{"empty prompt", "jsonl", `{"prompt":""}`, ":1: the prompt is empty"},
		{"prompt is a number", "jsonl", "\n\n{\"prompt\":1}", `:3: "prompt" is a number where a string is due`},
		{"max_tokens", "jsonl", `{"prompt":"a","max_tokens":0}`, ":1: max_tokens 0"},
		{"roles", "jsonl", `{"messages":[{"role":"assistant","content":"a"}]}`, ":1: message 1 has the role assistant, want user"},
		{"last is not the user", "jsonl", `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`, "not the user's"},
		{"empty message", "jsonl", `{"messages":[{"role":"user","content":""}]}`, "message 1 has no content"},
		{"only a system message", "jsonl", `{"messages":[{"role":"system","content":"s"}]}`, "not the user's"},
		{"long line", "jsonl", "{\"prompt\":\"a\"}\n{\"prompt\":\"" + strings.Repeat("x", MaxPromptBytes) + "\"}", ":2: line over"},
		{"no array", "sharegpt", "{}", ":1: not an array"},
		{"tool", "jsonl", `{"messages":[{"role":"user","content":"a"},{"role":"tool","content":"b"}]}`, `:1: message 2 has the role tool, want assistant`},
		{"syntax", "sharegpt", "[\n{\"conversations\":[]},\n{\"conversations\"}]", ":3: no JSON: invalid character"},
		{"type", "sharegpt", "[\n{\"conversations\":7}\n]", ":2: \"conversations\" is a number where an array is due"},
		{"cut off", "sharegpt", "[\n{\"conversations\":[]}", ":2: the file ends in the middle"},
		{"nothing", "sharegpt", "[]", "no prompt in it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := ReadPrompts(write(t, c.text), c.kind)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
	if _, _, err := ReadPrompts(filepath.Join(t.TempDir(), "none"), "jsonl"); !os.IsNotExist(unwrap(err)) {
		t.Errorf("no file: %v", err)
	}
}

func unwrap(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		if os.IsNotExist(err) {
			return err
		}
		err = u.Unwrap()
	}
}
