package tokens

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/wire"
)

// atOnce is how many questions are under way at a time. They are short.
const atOnce = 8

// Bounds of what a given server is asked, for all kinds of prompts together and
// one question after the other.
const (
	MaxShort  = 8   // completions of one token
	MaxCounts = 256 // texts for its tokenizer
)

// errSpent is a given server that has been asked as much as it may be.
var errSpent = fmt.Errorf("a given server gets at most %d completions of one token and %d texts for its tokenizer, and has had them", MaxShort, MaxCounts)

// A Post sends body as JSON to a path of the server and returns the body of an
// answer with status 200. It is called by several goroutines at a time.
type Post func(ctx context.Context, path string, body any) ([]byte, error)

// A Server is what is asked.
type Server struct {
	// Model is the name that requests use.
	Model string
	// Tokenize is the path at which the engine counts the tokens of a text, and
	// Field what its request calls the text: "prompt" (vLLM, SGLang), "content"
	// (llama.cpp) or "inputs" (TGI). Without a path the server is asked for
	// answers of one token, whose usage says how long the prompt was.
	Tokenize, Field string
	// Given is a server that sweep did not start: it gets at most MaxShort
	// completions and MaxCounts texts.
	Given bool
}

// A counter counts the tokens of texts, so many texts at once. It may add the same
// number to each.
type counter struct {
	of     func(ctx context.Context, text string) (int, error)
	atOnce int
}

func (l *Learner) byTokenizer(s shape) counter {
	return counter{func(ctx context.Context, text string) (int, error) { return l.tokenize(ctx, s.post, text) }, l.atOnce()}
}

func (l *Learner) byUsage(s shape) counter {
	return counter{func(ctx context.Context, text string) (int, error) {
		return l.usage(ctx, s, load.Prompt{Turns: []string{text}})
	}, l.atOnce()}
}

// tokenize returns the count of the engine's tokenizer.
func (l *Learner) tokenize(ctx context.Context, post Post, text string) (int, error) {
	field := l.server.Field
	if field == "" {
		field = "prompt"
	}
	if err := l.may(ctx, &l.counts, MaxCounts); err != nil {
		return 0, err
	}
	answer, err := post(ctx, l.server.Tokenize, map[string]any{"model": l.server.Model, field: text, "add_special_tokens": false})
	if err != nil {
		return 0, err
	}
	n, err := counted(answer)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", l.server.Tokenize, err)
	}
	return n, nil
}

// may counts one more question, unless no more may be asked.
func (l *Learner) may(ctx context.Context, asked *atomic.Int64, most int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if asked.Add(1) > most && l.server.Given {
		asked.Add(-1)
		return errSpent
	}
	return nil
}

// atOnce returns how many questions may be under way at a time.
func (l *Learner) atOnce() int {
	if l.server.Given {
		return 1
	}
	return atOnce
}

// counted reads the answer of a tokenizer: {"count": 3}, {"tokens": [1, 2, 3]}
// or a list with one element for each token.
func counted(answer []byte) (int, error) {
	var list []json.RawMessage
	if bytes.HasPrefix(bytes.TrimSpace(answer), []byte("[")) {
		if err := json.Unmarshal(answer, &list); err != nil {
			return 0, err
		}
		return len(list), nil
	}
	var of struct {
		Count  *int              `json:"count"`
		Tokens []json.RawMessage `json:"tokens"`
	}
	switch err := json.Unmarshal(answer, &of); {
	case err != nil:
		return 0, err
	case of.Count != nil:
		return *of.Count, nil
	case of.Tokens == nil:
		return 0, errors.New("neither a count nor tokens in the answer")
	}
	return len(of.Tokens), nil
}

// A shape is how the prompts of a load are sent: the endpoint, the fields that
// may change the template, the system message.
type shape struct {
	post    Post
	encoder *wire.Encoder
	path    string
}

func newShape(post Post, c wire.Config) (shape, error) {
	c.Stream = false
	_, encoder, err := c.Prepare()
	if err != nil {
		return shape{}, err
	}
	return shape{post, encoder, c.APIPath()}, nil
}

// errNoUsage is a server that does not say how long a prompt was.
var errNoUsage = errors.New("no usage.prompt_tokens in the answer")

// usage returns the length of a prompt as the server counts it, told by an answer of
// one token.
func (l *Learner) usage(ctx context.Context, s shape, p load.Prompt) (int, error) {
	if err := l.may(ctx, &l.shorts, MaxShort); err != nil {
		return 0, err
	}
	answer, err := s.post(ctx, s.path, json.RawMessage(s.encoder.Encode(&load.Job{Prompt: p, MaxTokens: 1})))
	if err != nil {
		return 0, err
	}
	var got struct {
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		return 0, fmt.Errorf("%s: %w", s.path, err)
	}
	if got.Usage.PromptTokens < 1 {
		return 0, fmt.Errorf("%s: %w", s.path, errNoUsage)
	}
	return got.Usage.PromptTokens, nil
}

// each calls f for 0 to n-1, some at a time.
func each(ctx context.Context, n, atOnce int, f func(ctx context.Context, i int) (int, error)) ([]int, error) {
	out := make([]int, n)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() (err error) {
			out[i], err = f(ctx, i)
			return err
		})
	}
	return out, g.Wait()
}

// ask counts texts.
func ask(ctx context.Context, count counter, texts []string) ([]int, error) {
	return each(ctx, len(texts), count.atOnce, func(ctx context.Context, i int) (int, error) { return count.of(ctx, texts[i]) })
}

func join(words ...string) string { return strings.Join(words, " ") }
