package attempt

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/executor/serving/ask"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/tokens"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
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
	known   map[string]*counted // by kind
}

// counted is how a server counts one kind of prompts.
type counted struct {
	tokens.Learned
	err    error // why it is not known
	warmed bool  // a warm-up has added what it tells
}

// tokens returns what prompts are made by; nil if it is not known.
func (c *counted) tokens() *source.Tokens {
	if c == nil || c.err != nil {
		return nil
	}
	return &c.Tokens
}

// note returns what a person should know of the lengths of prompts that are made by it.
func (c *counted) note() *result.Finding {
	switch {
	case c == nil:
		return nil
	case c.err != nil:
		return &result.Finding{Code: finding.PromptLengthUnknown, Text: fmt.Sprintf(
			"synthetic prompts have one word for each token of input_tokens, since the server does not say how it counts tokens: %v", c.err)}
	case !c.Exact:
		return &result.Finding{Code: finding.PromptLengthInexact, Text: fmt.Sprintf(
			"made-up prompts do not have exactly input_tokens tokens: %s; one of 100 tokens is off by about %.1f %%", c.Why, 100*c.Spread)}
	}
	return nil
}

// CountsTokens reports whether a load needs to know how the server counts: it makes
// up prompts, and the plan does not want them in words.
func CountsTokens(l plan.Load) bool {
	return l.Prompts.Kind == plan.PromptsSynthetic && l.Prompts.Length != plan.LengthWords
}

// countTokens finds out how the server counts this trial's made-up prompts. It
// asks before the trial resets the prefix cache; what it asks is none of the
// trial's prompts. The error is that ctx is done.
func (a *Attempt) countTokens(ctx context.Context, c *counting, h host.Host) error {
	l := a.trial.Cell.Load
	if !CountsTokens(l) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	api := a.subject.Profile.API
	shape := wire.Config{
		BaseURL: h.URL(), Model: a.subject.Of.Server.Served, Chat: l.Endpoint != plan.EndpointCompletions,
		MaxTokensField: api.MaxTokensField, Body: merge(api.Body, l.Body),
	}
	shape.Path = api.Completions
	if shape.Chat {
		shape.Path = api.Chat
	}
	kind, err := json.Marshal([]any{shape.Chat, shape.Body, l.Prompts.System})
	if err != nil {
		return fmt.Errorf("count tokens: %w", err)
	}
	got, ok := c.known[string(kind)]
	if !ok {
		client := ask.New(h, a.authorize, a.config.Mask, a.subject.Asked)
		defer client.Close()
		if c.learner == nil {
			c.learner = tokens.NewLearner(tokens.Server{Model: a.subject.Of.Server.Served, Tokenize: api.Tokenize, Field: api.TokenizeField, Given: a.config.Given})
			c.known = map[string]*counted{}
		}
		asking, cancel := serving.WithLimit(ctx, "counting the tokens of prompts", countingTimeout)
		defer cancel()
		learned, err := c.learner.Learn(asking, client.Post, shape, l.Prompts.System)
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if asking.Err() != nil {
			err = context.Cause(asking)
		}
		got = &counted{Learned: learned, err: err}
		c.known[string(kind)] = got
	}
	a.counted = got
	return nil
}

// learnFromWarmup refines how the server counts a kind of prompts by the usage
// that its first warm-up was answered with: it costs no further request.
func (a *Attempt) learnFromWarmup(c *counting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := a.trial.Cell.Load.Prompts
	mixed := p.System != "" && p.SystemShare != nil && *p.SystemShare < 1
	if a.counted.tokens() == nil || a.counted.warmed || mixed {
		return
	}
	var sent []tokens.Sent
	for r := range a.records.all() {
		if r.Status == result.Completed && r.PromptTokens > 0 && r.TargetTokens > 0 {
			sent = append(sent, tokens.Sent{Target: r.TargetTokens, Counted: r.PromptTokens})
		}
	}
	a.counted.Refine(sent, p.System != "")
	a.counted.warmed = len(sent) > 0
}
