package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"sweep.dev/sweep/host"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/tokens"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
)

// Findings about the lengths of made-up prompts.
const (
	// PromptLengthUnknown: the server does not say how it counts.
	PromptLengthUnknown = "prompt_length_unknown"
	// PromptLengthInexact: no words were found of which a text has exactly as
	// many tokens.
	PromptLengthInexact = "prompt_length_inexact"
)

// countingTimeout bounds how long one server is asked how it counts the prompts
// of one kind. Some 300 short questions are the most; a slow server that is asked
// for tokens to know their count takes 100 ms for each.
const countingTimeout = 2 * time.Minute

// counting is how one server counts the tokens of prompts. Each kind of prompt is
// asked about once in the life of the server. The zero value knows nothing yet.
type counting struct {
	mu      sync.Mutex
	learner *tokens.Learner
	known   map[string]counted // by kind
}

type counted struct {
	tokens *source.Tokens // nil where the server does not tell
	note   *result.Finding
}

// countTokens finds out how the server counts this trial's made-up prompts, and
// notes where their length cannot be exact. It asks before the trial resets the
// prefix cache; what it asks is none of the trial's prompts. Without made-up
// prompts, and where the plan wants words, it asks nothing and returns nil. The
// error is that ctx is done.
func (m *measurement) countTokens(ctx context.Context, c *counting, h host.Host) (*source.Tokens, error) {
	l := m.trial.cell.Load
	if l.Prompts.Kind != plan.PromptsSynthetic || l.Prompts.Length == plan.LengthWords {
		return nil, nil //nolint:nilnil // nothing has to be known
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	api := m.profile.API
	shape := wire.Config{
		BaseURL: h.URL(), Model: m.Server.Served, Chat: l.Endpoint != plan.EndpointCompletions,
		MaxTokensField: api.MaxTokensField, Body: merge(api.Body, l.Body),
	}
	shape.Path = api.Completions
	if shape.Chat {
		shape.Path = api.Chat
	}
	kind, err := json.Marshal([]any{shape.Chat, shape.Body, l.Prompts.System})
	if err != nil {
		return nil, fmt.Errorf("count tokens: %w", err)
	}
	got, ok := c.known[string(kind)]
	if !ok {
		client := &apiClient{base: h.URL(), auth: m.authorize, http: clientOf(h), mask: m.mask}
		defer client.close()
		if c.learner == nil {
			c.learner = tokens.NewLearner(tokens.Server{Model: m.Server.Served, Tokenize: api.Tokenize, Field: api.TokenizeField})
			c.known = map[string]counted{}
		}
		asking, cancel := context.WithTimeoutCause(ctx, countingTimeout, limit{"counting the tokens of prompts", countingTimeout})
		defer cancel()
		learned, err := c.learner.Learn(asking, client.post, shape, l.Prompts.System)
		if err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if asking.Err() != nil {
			err = context.Cause(asking)
		}
		got = countedOf(learned, err)
		c.known[string(kind)] = got
	}
	if got.note != nil {
		m.sink.Note(*got.note)
	}
	return got.tokens, nil
}

func countedOf(l tokens.Learned, err error) counted {
	if err != nil {
		return counted{note: &result.Finding{Code: PromptLengthUnknown, Text: fmt.Sprintf(
			"made-up prompts have one word for each token of input_tokens, since the server does not tell how it counts: %v", err)}}
	}
	got := counted{tokens: &l.Tokens}
	if !l.Exact {
		got.note = &result.Finding{Code: PromptLengthInexact, Text: fmt.Sprintf(
			"made-up prompts do not have exactly input_tokens tokens: %s; one of 100 tokens is off by about %.1f %%", l.Why, 100*l.Spread)}
	}
	return got
}
