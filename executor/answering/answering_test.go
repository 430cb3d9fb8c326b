package answering

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/serving/ask"
	"sweep.dev/sweep/judge/quality"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result/col"
)

func setOf(t *testing.T, n int) *quality.Set {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"prompt": "number %d", "expected": "%d"}`+"\n", i, i)
	}
	set, _, err := quality.Read(strings.NewReader(b.String()), 0)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func server(post func(ctx context.Context, path string, body map[string]any) ([]byte, error)) Server {
	api := &engine.API{Chat: "/chat", Completions: "/completions", MaxTokensField: "max_completion_tokens", Body: map[string]any{"a": 1, "b": 1}}
	return Server{API: api, Model: "m", Post: func(ctx context.Context, path string, body any) ([]byte, error) {
		return post(ctx, path, body.(map[string]any))
	}}
}

// Each item is asked twice, the second time from the end, at temperature 0.
func TestAsk(t *testing.T) {
	t.Parallel()
	var asked []string
	q := &plan.Quality{MaxTokens: 9, Concurrency: 1, Body: map[string]any{"b": 2}}
	list := Ask(t.Context(), server(func(_ context.Context, path string, body map[string]any) ([]byte, error) {
		text := body["messages"].([]quality.Message)[0].Content
		asked = append(asked, text)
		if path != "/chat" || fmt.Sprint(body["a"], body["b"], body["temperature"], body["stream"], body["max_completion_tokens"]) != "1 2 0 false 9" || body["model"] != "m" {
			t.Errorf("%s %v", path, body)
		}
		return fmt.Appendf(nil, `{"choices": [{"message": {"content": %q}, "finish_reason": "length"}], "usage": {"completion_tokens": 9}}`, text), nil
	}), q, setOf(t, 3))
	if got := strings.Join(asked, ","); got != "number 0,number 1,number 2,number 2,number 1,number 0" {
		t.Errorf("asked %s", got)
	}
	row, notes := Row(list)
	if row[col.QualityScore] != 1.0 || row[col.QualityRepeatRate] != 1.0 || row[col.QualityCut] != int64(3) || len(notes) != 1 || *list[0].Tokens != 9 {
		t.Errorf("%v %v", row, notes)
	}
}

// A model without a chat template gets the texts as one prompt.
func TestAsk_completions(t *testing.T) {
	t.Parallel()
	set, _, err := quality.Read(strings.NewReader(`{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Sky?"}], "expected": "blue"}`), 0)
	if err != nil {
		t.Fatal(err)
	}
	q := &plan.Quality{MaxTokens: 9, Concurrency: 4, Endpoint: plan.EndpointCompletions}
	list := Ask(t.Context(), server(func(_ context.Context, path string, body map[string]any) ([]byte, error) {
		if path != "/completions" || body["prompt"] != "Be brief.\n\nSky?" {
			t.Errorf("%s %v", path, body)
		}
		return []byte(`{"choices": [{"text": " blue"}]}`), nil
	}), q, set)
	if r := list[0].Right; r == nil || !*r {
		t.Errorf("%+v", list[0])
	}
}

// What the server refuses is wrong. What it does not say is not known.
func TestAsk_refusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer  string
		err     error
		refused bool
	}{
		"context too short": {"", &ask.Status{Code: 400}, true},
		"too large":         {"", &ask.Status{Code: 413}, true},
		"no choice":         {`{"choices": []}`, nil, false},
		"no JSON":           {`<html>`, nil, false},
		"half of an answer": {`{"choices": [{"message": {"content": "0`, nil, false},
		"an error":          {`{"error": "loading"}`, nil, false},
		"no key":            {"", &ask.Status{Code: 401}, false},
		"too many":          {"", &ask.Status{Code: 429}, false},
		"broken":            {"", &ask.Status{Code: 500}, false},
		"no answer":         {"", &ask.NoAnswer{Err: errors.New("connection refused")}, false},
		"cut off":           {"", errors.New("unexpected EOF"), false},
	} {
		list := Ask(t.Context(), server(func(context.Context, string, map[string]any) ([]byte, error) {
			return []byte(c.answer), c.err
		}), &plan.Quality{MaxTokens: 9, Concurrency: 1}, setOf(t, 1))
		a := list[0]
		if a.Refused != c.refused || (a.Right != nil) != c.refused || a.Text != nil || a.Again != nil || a.Error == "" && c.err != nil && !errors.As(c.err, new(*ask.Status)) {
			t.Errorf("%s: %+v", name, a)
		}
	}
	// An answer without text is one, and wrong.
	list := Ask(t.Context(), server(func(context.Context, string, map[string]any) ([]byte, error) {
		return []byte(`{"choices": [{"message": {"content": null, "reasoning_content": "hm"}, "finish_reason": "length"}]}`), nil
	}), &plan.Quality{MaxTokens: 9, Concurrency: 1}, setOf(t, 1))
	if a := list[0]; a.Text == nil || *a.Text != "" || a.Right == nil || *a.Right {
		t.Errorf("only reasoning: %+v", a)
	}
}

// A server that no longer answers is not asked for each item until its time is over.
func TestAsk_silent(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	n := 0
	list := Ask(t.Context(), server(func(context.Context, string, map[string]any) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		return nil, &ask.NoAnswer{Err: errors.New("timeout")}
	}), &plan.Quality{MaxTokens: 9, Concurrency: 2}, setOf(t, 100))
	if n < mostInRow || n > mostInRow+1 {
		t.Errorf("%d questions", n)
	}
	row, notes := Row(list)
	if row[col.QualityScore] != nil || row[col.QualityN] != int64(0) || row[col.QualityUnknown] != int64(100) || row[col.QualityRepeatRate] != nil {
		t.Errorf("%v", row)
	}
	if len(notes) != 1 || !strings.Contains(notes[0].Text, "100 of 100 quality prompts got no answer") {
		t.Errorf("%v", notes)
	}
	if last := list[99].Error; !strings.Contains(last, "not asked: 5 questions in a row got no answer, the last: timeout") {
		t.Errorf("%s", last)
	}
}
