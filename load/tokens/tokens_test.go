package tokens

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// An engine is a server with a tokenizer of its own. Letters of a word and the
// space before them are one token where it knows the word, and pieces of three
// letters else.
type engine struct {
	knows     func(word string) bool // after a space
	begins    func(word string) bool // without one
	merges    func(a, b string) bool // both together are one token
	everyByte bool                   // every byte is a token
	bos       int                    // at the beginning of every text
	drifts    bool                   // the template has a token more for long questions

	tokenizer, usage bool
	liar             bool // the endpoint counts words
}

func all(string) bool { return true }

const system = "you are a helpful assistant of nobody"

func (e *engine) count(text string) int {
	if e.everyByte {
		return len(text)
	}
	n := 0
	words := strings.Split(text, " ")
	for i := 0; i < len(words); i++ {
		knows := e.knows
		if i == 0 {
			knows = e.begins
		}
		switch w := words[i]; {
		case !knows(w):
			n += (len(w) + 2) / 3
		case i > 0 && i+1 < len(words) && e.merges != nil && e.merges(w, words[i+1]) && e.knows(words[i+1]):
			n++
			i++
		default:
			n++
		}
	}
	return n
}

// prompt returns what the engine makes of a request.
func (e *engine) prompt(system string, turns []string) int {
	n := e.bos + 3 // and what opens the answer
	if system != "" {
		n += 4 + e.count(system)
	}
	for _, t := range turns {
		n += 5 + e.count(t)
	}
	if e.drifts && len(turns[0]) > 60 {
		n++
	}
	return n
}

func (e *engine) post(_ context.Context, path string, body any) ([]byte, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	var in struct {
		Content  string `json:"content"`
		Messages []struct{ Role, Content string }
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, err
	}
	switch {
	case path == "/tokenize" && e.tokenizer:
		n := e.count(in.Content) + e.bos
		if e.liar {
			n = len(strings.Fields(in.Content))
		}
		return json.Marshal(map[string]any{"tokens": make([]int, n)})
	case path == "/v1/chat/completions":
		system := ""
		var turns []string
		for _, m := range in.Messages {
			if m.Role == "system" {
				system = m.Content
			} else {
				turns = append(turns, m.Content)
			}
		}
		out := map[string]any{"choices": []any{}}
		if e.usage {
			out["usage"] = map[string]int{"prompt_tokens": e.prompt(system, turns)}
		}
		return json.Marshal(out)
	}
	return nil, fmt.Errorf("POST %s answered 404 Not Found", path)
}

// plain has a token for each word.
func plain() *engine { return &engine{knows: all, begins: all, tokenizer: true, usage: true} }

// odd words are not the tokenizer's, others merge with some that follow.
func odd() *engine {
	sum := func(s string) (n int) {
		for i := range len(s) {
			n += int(s[i])
		}
		return n
	}
	return &engine{
		knows:  func(w string) bool { return sum(w)%5 < 3 },
		begins: func(w string) bool { return sum(w)%2 == 0 },
		merges: func(a, b string) bool { return sum(a)%7 == 1 && sum(b)%3 == 0 },
		bos:    1, tokenizer: true, usage: true,
	}
}

func learn(t *testing.T, e *engine, system string) (Learned, error) {
	t.Helper()
	l := NewLearner(Server{Model: "m", Tokenize: "/tokenize", Field: "content"})
	return l.Learn(t.Context(), e.post, wire.Config{BaseURL: "http://127.0.0.1", Model: "m", Chat: true}, system)
}

// TestLearn: whatever the tokenizer is like, the prompts that are made of what was
// learned have the length that was asked for, as the server counts.
func TestLearn(t *testing.T) {
	for _, c := range []struct {
		name string
		make func() *engine
		by   string
		most int // questions
	}{
		{"whole words", plain, ByTokenizer, 50},
		{"odd words", odd, ByTokenizer, 400},
		{"no endpoint", func() *engine { e := odd(); e.tokenizer = false; return e }, ByUsage, 400},
		{"an endpoint that counts otherwise", func() *engine { e := odd(); e.liar = true; return e }, ByUsage, 450},
		{"pairs that merge", func() *engine { e := plain(); e.merges = odd().merges; return e }, ByTokenizer, 250},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := c.make()
			got, err := learn(t, e, system)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Exact || got.By != c.by || got.Asked > c.most {
				t.Errorf("exact %v by %s with %d questions (%s), want exact by %s with at most %d", got.Exact, got.By, got.Asked, got.Why, c.by, c.most)
			}
			t.Logf("%d questions, %d words, %d starts", got.Asked, len(got.Tokens.Words), len(got.Tokens.Starts))
			o := e.prompt("", []string{""}) - e.count("")
			if want := (source.Overhead{First: o, Turn: 10}); *got.Tokens.Plain != want {
				t.Errorf("overhead %+v, want %+v", *got.Tokens.Plain, want)
			}
			exactly(t, e, got, source.Prompts{InputTokens: 50}, 50)
			exactly(t, e, got, source.Prompts{InputTokens: 3}, 3)
			exactly(t, e, got, source.Prompts{InputTokens: 100, SharedPrefix: 0.5, PrefixGroups: 3}, 100)
			exactly(t, e, got, source.Prompts{InputTokens: 100, SharedPrefix: 1}, 100)
			share := 0.5
			exactly(t, e, got, source.Prompts{InputTokens: 70, System: system, SystemShare: &share}, 70)
			exactly(t, e, got, source.Prompts{InputTokens: 90, Distribution: source.LogNormal, Spread: 0.8, SharedPrefix: 0.3}, 0)
			exactly(t, e, got, source.Prompts{Distribution: source.Empirical, Pairs: []source.Pair{{Input: 7, Output: 9}, {Input: 700, Output: 1}}}, 0)
		})
	}
}

// exactly fails unless the server counts of each prompt what it was made for:
// so many tokens of text, where the length is the same for all, and the overhead.
func exactly(t *testing.T, e *engine, l Learned, p source.Prompts, text int) {
	t.Helper()
	p.Tokens = &l.Tokens
	src, err := source.New(source.Config{Seed: 1, Cell: "c", Trial: 1, Pace: arrivals.Steady(10, arrivals.Process{}), Requests: 50, MaxTokens: 4, Prompts: p})
	if err != nil {
		t.Fatal(err)
	}
	for j, ok := src.Next(0, nil); ok; j, ok = src.Next(0, nil) {
		usage := e.prompt(j.Prompt.System, j.Prompt.Turns)
		if usage != j.Prompt.Target {
			t.Fatalf("%+v: the server counts %d tokens of request %d, which was made for %d", p, usage, j.N, j.Prompt.Target)
		}
		overhead := e.prompt(j.Prompt.System, []string{""}) - e.count("")
		if text > 0 && usage-overhead != text {
			t.Fatalf("%+v: request %d has %d tokens of text, want %d", p, j.N, usage-overhead, text)
		}
	}
}

// TestLearn_joints: in a conversation each message is as long as if it stood
// alone.
func TestLearn_joints(t *testing.T) {
	e := odd()
	got, err := learn(t, e, "")
	if err != nil {
		t.Fatal(err)
	}
	src, err := source.New(source.Config{
		Seed: 1, Cell: "c", Trial: 1, Concurrency: 1, Requests: 12, MaxTokens: 4, Conversation: source.Conversation{Turns: 4},
		Prompts: source.Prompts{InputTokens: 30, SharedPrefix: 0.5, Tokens: &got.Tokens},
	})
	if err != nil {
		t.Fatal(err)
	}
	answer := strings.Join(got.Tokens.Words[:5], " ") // any
	answer = got.Tokens.Starts[0] + " " + answer
	var prev *result.Request
	for j, ok := src.Next(0, prev); ok; j, ok = src.Next(0, prev) {
		turns := len(j.Prompt.Turns)
		want := got.Tokens.Plain.Of(turns) + 30*(turns+1)/2 + 6*(turns-1)/2
		if n := e.prompt("", j.Prompt.Turns); turns%2 == 0 || n != want {
			t.Fatalf("%d turns are %d tokens, want %d", turns, n, want)
		}
		prev = &result.Request{Status: result.Completed, Answer: answer, Turn: j.Turn}
	}
	if prev == nil || prev.Turn != 3 {
		t.Errorf("the last request was %+v, want the fourth turn of a conversation", prev)
	}
}

func TestLearn_inexact(t *testing.T) {
	e := &engine{everyByte: true, bos: 1, tokenizer: true, usage: true}
	got, err := learn(t, e, "")
	if err != nil {
		t.Fatal(err)
	}
	if got.Exact || got.Why == "" || got.Tokens.PerWord < 4 || got.Tokens.PerWord > 8 || got.Spread <= 0 || got.Spread > 0.2 {
		t.Errorf("%+v", got)
	}
	// The spread is that of prompts as they are made.
	p := source.Prompts{InputTokens: 100, Tokens: &got.Tokens}
	src, err := source.New(source.Config{Seed: 1, Cell: "c", Trial: 1, Pace: arrivals.Steady(10, arrivals.Process{}), Requests: 400, MaxTokens: 4, Prompts: p})
	if err != nil {
		t.Fatal(err)
	}
	squares := 0.0
	for j, ok := src.Next(0, nil); ok; j, ok = src.Next(0, nil) {
		off := float64(e.prompt("", j.Prompt.Turns)-j.Prompt.Target) / 100
		squares += off * off / 400
	}
	if sd := math.Sqrt(squares); sd > 2*got.Spread || sd < got.Spread/2 {
		t.Errorf("prompts are off by %g, and it says %g", sd, got.Spread)
	}
}

// TestLearn_driftingTemplate: a server whose overhead depends on the question
// cannot be exact, and it is said.
func TestLearn_driftingTemplate(t *testing.T) {
	e := odd()
	e.drifts = true
	got, err := learn(t, e, "")
	if err != nil || got.Exact || !strings.Contains(got.Why, "1 tokens") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLearn_fails(t *testing.T) {
	e := odd()
	e.usage = false
	if _, err := learn(t, e, ""); !errors.Is(err, errNoUsage) {
		t.Errorf("no usage: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := NewLearner(Server{Model: "m", Tokenize: "/tokenize"})
	stopped := func(ctx context.Context, _ string, _ any) ([]byte, error) { return nil, ctx.Err() }
	if _, err := l.Learn(ctx, stopped, wire.Config{BaseURL: "http://127.0.0.1", Model: "m"}, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// TestLearn_failsLate: if the search by usage fails, the words of the tokenizer stay,
// and their overhead.
func TestLearn_failsLate(t *testing.T) {
	e := odd()
	e.liar = true
	var short atomic.Int64
	post := func(ctx context.Context, path string, body any) ([]byte, error) {
		if path == chat && short.Add(1) > int64(len(questions)+len(conversations)) {
			return nil, errors.New("POST answered 503 Service Unavailable")
		}
		return e.post(ctx, path, body)
	}
	l := NewLearner(Server{Model: "m", Tokenize: "/tokenize", Field: "content"})
	got, err := l.Learn(t.Context(), post, wire.Config{BaseURL: "http://127.0.0.1", Model: "m", Chat: true}, "")
	if err != nil || got.Exact || got.By != ByTokenizer || got.Tokens.Plain == nil || got.Why == "" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCounted(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
	}{
		{`{"count":3,"max_model_len":9,"tokens":[1,2,3],"token_strs":null}`, 3},
		{`{"tokens":[5,6]}`, 2},
		{`{"tokens":[]}`, 0},
		{` [{"id":1,"text":"a"},{"id":2,"text":"b"}]`, 2},
	} {
		if n, err := counted([]byte(c.text)); n != c.n || err != nil {
			t.Errorf("%s: %d, %v", c.text, n, err)
		}
	}
	for _, text := range []string{"", "{}", `{"error":{"code":404}}`, "3", "[", `{"tokens":3}`} {
		if n, err := counted([]byte(text)); err == nil {
			t.Errorf("%s: %d", text, n)
		}
	}
}
