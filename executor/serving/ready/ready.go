// Package ready waits until a server may be measured, and until one of its roles is
// so far that the next one may be started.
package ready

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/serving/ask"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/plan"
)

// Between two looks at a server that is starting.
const (
	readyPollMin = 50 * time.Millisecond
	readyPollMax = time.Second
)

// A Check waits for the servers of one deployment.
type Check struct {
	Profile  *engine.Profile
	Of       plan.Deployment
	Given    bool // the server is not ours
	Patience Patience
	Mask     secret.Mask             // for what answers and logs say
	Asked    func(path string)       // called with the path of each question
	Show     func(step, last string) // called with each new answer while a step is waited for
}

// Answered holds the facts from the first answers of a server that is ready.
type Answered struct {
	Version string // of the engine; "" if it tells none
	// Uncounted says that its streams have no usage although they were asked
	// for it, so that tokens are counted as chunks.
	Uncounted bool
	// Model is the name that the server answers with, "" for none. It may be another than the
	// one that was asked for: an alias, or what a router has behind it.
	Model string
	// Listed are the models that a server lists, if the one that was asked for is not among them
	// and need not be.
	Listed []string
}

// anyModel reports whether the server may answer for another model than it is asked for: it is
// not ours, or the plan says so.
func (c *Check) anyModel() bool { return c.Given || c.Of.Server.AnyModel }

// Server returns when the engine has answered a completion of one token with
// the expected model. An open port is not readiness, and neither is a health
// check. The engine's ready line, if there is one, only says when to begin
// asking. An answer that waiting does not change ends it; see [wait].
func (c *Check) Server(ctx context.Context, dep backends.Deployment, roles []backends.Role, authorize func(http.Header)) (a Answered, err error) {
	api := ask.New(dep.Host(c.Profile.EntryRole(), 0), authorize, c.Mask, c.Asked)
	defer api.Close()
	line := c.readyLine(roles)
	up, stop := backends.WhileUp(ctx, dep)
	defer stop()
	pause := readyPollMin
	last := fmt.Errorf("no answer yet")
	waiting := c.waitFor(dep, "ready")
	for {
		err := line()
		if err == nil {
			a, err = c.answers(up, api)
		}
		if err == nil {
			a.Version = c.version(ctx, api)
			return a, nil
		}
		if up.Err() == nil {
			last = err
			if end := waiting.judge(err); end != nil {
				return a, end
			}
		}
		select {
		case <-dep.Done():
			return a, backends.End(dep)
		case <-ctx.Done():
			return a, last
		case <-time.After(pause):
			pause = min(pause*3/2, readyPollMax)
		}
	}
}

// readyLine reports whether the ready line stands in the entry role's log. A server
// that somebody else started has none that we could read.
func (c *Check) readyLine(roles []backends.Role) func() error {
	for _, r := range roles {
		if c.Profile.Ready.Line != "" && !c.Given && r.Name == c.Profile.EntryRole() && r.LogPath != nil {
			return newAwaitedLine(r.LogPath(0), c.Profile.Ready.Line).seen
		}
	}
	return func() error { return nil }
}

// answers makes one round of the readiness rule.
func (c *Check) answers(ctx context.Context, api *ask.Client) (Answered, error) {
	p := c.Profile
	// The completion below shows more than a health check, which may cost a token
	// too (SGLang): a server of somebody else is not asked both.
	if p.Ready.Health != "" && !c.Given {
		if _, err := api.Get(ctx, p.Ready.Health); err != nil {
			return Answered{}, err
		}
	}
	var listed []string
	if p.Ready.Models != "" {
		body, err := api.Get(ctx, p.Ready.Models)
		if err != nil && !c.anyModel() {
			return Answered{}, err
		}
		ids, err := ask.Models(body)
		switch {
		case c.anyModel(): // the completion shows more than a list, which gateways do not all have
			if err == nil && len(ids) > 0 && !slices.Contains(ids, c.Of.Server.Served) {
				listed = ids
			}
		case err != nil:
			return Answered{}, fmt.Errorf("%s: %w", p.Ready.Models, err)
		case len(ids) == 0:
			return Answered{}, fmt.Errorf("%s lists no model yet", p.Ready.Models)
		case !slices.Contains(ids, c.Of.Server.Served):
			return Answered{}, &WrongModel{Want: c.Of.Server.Served, Got: ids}
		}
	}
	a, err := c.completes(ctx, api)
	a.Listed = listed
	return a, err
}

// fewTokens are asked for of a server that refuses one, if the plan does not say how many.
const fewTokens = 16

// completes asks for one token, in the way in which the load will ask.
func (c *Check) completes(ctx context.Context, api *ask.Client) (a Answered, err error) {
	field := cmp.Or(c.Profile.API.MaxTokensField, "max_tokens")
	body := map[string]any{"model": c.Of.Server.Served, field: 1}
	path := c.Profile.API.Chat
	if path != "" {
		body["messages"] = []map[string]string{{"role": "user", "content": "Hello"}}
	} else {
		path = c.Profile.API.Completions
		body["prompt"] = "Hello"
	}
	put := api.Post
	stream := c.Of.Cells[0].Load.Stream
	if stream == nil || *stream {
		body["stream"] = true
		if c.Profile.API.IncludeUsage {
			body["stream_options"] = map[string]bool{"include_usage": true}
		}
		put = func(ctx context.Context, path string, body any) (first []byte, err error) {
			first, a.Uncounted, err = api.Stream(ctx, path, body)
			return first, err
		}
	}
	answer, err := put(ctx, path, body)
	var status *ask.Status
	if errors.As(err, &status) && status.Refused() {
		// Some servers take no request for one token. The load asks for more.
		body[field] = cmp.Or(c.Of.Cells[0].Load.MaxTokens, fewTokens)
		answer, err = put(ctx, path, body)
	}
	if errors.As(err, &status) && status.IsModel() {
		if ids := api.Served(ctx, c.Profile.Ready.Models); len(ids) > 0 && !slices.Contains(ids, c.Of.Server.Served) {
			return a, &WrongModel{Want: c.Of.Server.Served, Got: ids}
		}
	}
	if err != nil {
		return a, err
	}
	var got struct {
		Model   string            `json:"model"`
		Choices []json.RawMessage `json:"choices"`
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		return a, fmt.Errorf("%s: %w", path, err)
	}
	if len(got.Choices) == 0 {
		return a, fmt.Errorf("%s answered without a choice", path)
	}
	a.Model = got.Model
	if a.Model != "" && a.Model != c.Of.Server.Served && !c.anyModel() {
		return a, &WrongModel{Want: c.Of.Server.Served, Got: []string{a.Model}}
	}
	return a, nil
}

// version asks the engine for its version; not knowing it is no failure.
func (c *Check) version(ctx context.Context, api *ask.Client) string {
	if c.Profile.API.Version == "" {
		return ""
	}
	body, err := api.Get(ctx, c.Profile.API.Version)
	if err != nil {
		return ""
	}
	var v map[string]any
	if json.Unmarshal(body, &v) != nil {
		return ""
	}
	version, _ := v[c.Profile.API.VersionField].(string)
	return version
}
