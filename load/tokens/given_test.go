package tokens

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// asking counts what an engine is asked by path, and fails if two questions
// are under way at once.
func asking(t *testing.T, e *engine) (post Post, seen map[string]int) {
	seen = map[string]int{}
	under := make(chan struct{}, 1)
	return func(ctx context.Context, path string, body any) ([]byte, error) {
		select {
		case under <- struct{}{}:
		default:
			t.Error("two questions at once")
		}
		defer func() { <-under }()
		seen[path]++
		return e.post(ctx, path, body)
	}, seen
}

const chat = "/v1/chat/completions"

// TestLearn_given: a given server is asked little, one question after the other,
// and prompts are exact if that is enough.
func TestLearn_given(t *testing.T) {
	for _, c := range []struct {
		name          string
		make          func() *engine
		by            string
		exact         bool
		counts, short int // at most
	}{
		{"whole words", plain, ByTokenizer, true, 16, 4},
		{"odd words", odd, ByTokenizer, true, MaxCounts, 4},
		{"pairs that merge", func() *engine { e := plain(); e.merges = odd().merges; return e }, ByUsage, false, MaxCounts, 6},
		{"an endpoint that counts otherwise", func() *engine { e := plain(); e.liar, e.bos = true, 1; return e }, ByTokenizer, true, 16, 4},
		{"no endpoint", func() *engine { e := plain(); e.tokenizer = false; return e }, ByUsage, true, 1, 6},
		{"no endpoint, odd words", func() *engine { e := odd(); e.tokenizer = false; return e }, ByUsage, false, 1, 6},
		{"letters", func() *engine { return &engine{everyByte: true, tokenizer: true, usage: true} }, ByTokenizer, false, 160, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := c.make()
			post, seen := asking(t, e)
			l := NewLearner(Server{Model: "m", Tokenize: "/tokenize", Field: "content", Given: true})
			got, err := l.Learn(t.Context(), post, wire.Config{BaseURL: "http://127.0.0.1", Model: "m", Chat: true}, system)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%v, %d words, %g tokens each, spread %g", seen, len(got.Tokens.Words), got.Tokens.PerWord, got.Spread)
			if got.Exact != c.exact || got.By != c.by || seen["/tokenize"] > c.counts || seen[chat] > c.short || got.Asked != seen["/tokenize"]+seen[chat] {
				t.Errorf("exact %v by %s with %v, %d asked (%s)", got.Exact, got.By, seen, got.Asked, got.Why)
			}
			if !c.exact {
				return
			}
			exactly(t, e, got, source.Prompts{InputTokens: 50}, 50)
			exactly(t, e, got, source.Prompts{InputTokens: 100, SharedPrefix: 0.5, PrefixGroups: 3}, 100)
			share := 0.5
			exactly(t, e, got, source.Prompts{InputTokens: 70, System: system, SystemShare: &share}, 70)
		})
	}
}

// TestLearn_givenBound: for any plan and any answers a server gets no more than the
// bounds.
func TestLearn_givenBound(t *testing.T) {
	for name, e := range map[string]*engine{
		"nothing is one token": {knows: func(string) bool { return false }, begins: all, tokenizer: true, usage: true},
		"no usage":             {knows: all, begins: all},
		"odd":                  odd(),
	} {
		post, seen := asking(t, e)
		l := NewLearner(Server{Model: "m", Tokenize: "/tokenize", Field: "content", Given: true})
		for i := range 20 {
			body := map[string]any{"kind": i}
			_, _ = l.Learn(t.Context(), post, wire.Config{BaseURL: "http://127.0.0.1", Model: "m", Chat: true, Body: body}, strings.Repeat("s ", i))
		}
		if seen["/tokenize"] > MaxCounts || seen[chat] > MaxShort {
			t.Errorf("%s: %v", name, seen)
		}
	}
}

// TestRefine: the usage of a warm-up stands in for questions.
func TestRefine(t *testing.T) {
	// The overhead of a kind that came too late to be asked about.
	e := &engine{knows: all, begins: all, tokenizer: true}
	got := Learned{Exact: true, Tokens: source.Tokens{PerWord: 1}}
	sent := warmed(t, e, got)
	got.Refine(sent, false)
	if got.Tokens.Plain == nil || got.Tokens.Plain.First != e.prompt("", []string{""})-e.count("") {
		t.Errorf("overhead %+v", got.Tokens.Plain)
	}
	got.Refine(sent, true)
	if got.Tokens.System == nil {
		t.Error("the overhead with a system message stays unknown")
	}
	// The length of words that four texts told roughly.
	e = &engine{everyByte: true}
	got = Learned{Spread: 0.5, Tokens: source.Tokens{PerWord: 4, Plain: &source.Overhead{First: 8}}}
	got.Refine(warmed(t, e, got), false)
	after := warmed(t, e, got)
	off := 0.0
	for _, p := range after {
		off += float64(p.Counted-p.Target) / float64(p.Target) / float64(len(after))
	}
	if math.Abs(off) > 0.02 || got.Spread <= 0 || got.Spread > 0.2 {
		t.Errorf("%g tokens per word are off by %g, and it says %g", got.Tokens.PerWord, off, got.Spread)
	}
	before := got
	got.Refine(nil, false)
	if got.Tokens.PerWord != before.Tokens.PerWord {
		t.Error("nothing was sent, and something was learned")
	}
}

// warmed returns a warm-up of prompts made by what was learned.
func warmed(t *testing.T, e *engine, l Learned) (sent []Sent) {
	t.Helper()
	src, err := source.New(source.Config{
		Phase: result.Warmup,
		Seed:  1, Cell: "c", Trial: 1, Concurrency: 1, Requests: 1, WarmupRequests: 20, MaxTokens: 4,
		Prompts: source.Prompts{InputTokens: 200, Tokens: &l.Tokens},
	})
	if err != nil {
		t.Fatal(err)
	}
	var prev *result.Request
	for j, ok := src.Next(0, nil); ok; j, ok = src.Next(0, prev) {
		n := e.prompt("", j.Prompt.Turns)
		sent = append(sent, Sent{Target: j.Prompt.Target, Counted: n})
		prev = &result.Request{Status: result.Completed}
	}
	return sent
}

// The error of a server without usage says so, also where it is given.
func TestLearn_givenNoUsage(t *testing.T) {
	e := &engine{knows: all, begins: all}
	post, seen := asking(t, e)
	l := NewLearner(Server{Model: "m", Given: true})
	_, err := l.Learn(t.Context(), post, wire.Config{BaseURL: "http://127.0.0.1", Model: "m", Chat: true}, "")
	if !errors.Is(err, errNoUsage) || seen[chat] != 1 {
		t.Errorf("%v after %v", err, seen)
	}
}
