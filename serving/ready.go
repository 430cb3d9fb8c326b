package serving

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/serving/ask"
)

// Between two looks at a server that is starting.
const (
	readyPollMin = 50 * time.Millisecond
	readyPollMax = time.Second
)

// An answered server, and what its first answers showed of it.
type answered struct {
	version string // of the engine; "" if it tells none
	// uncounted says that its streams have no usage although they were asked
	// for it, so that tokens are counted as chunks.
	uncounted bool
}

// ready returns when the engine has answered a completion of one token with
// the expected model. An open port is not readiness, and neither is a health
// check. The engine's ready line, if there is one, only says when to begin
// asking. An answer that waiting does not change ends it; see [wait].
func (d *Servers) ready(ctx context.Context, s *Server) (a answered, err error) {
	dep := s.Deployment
	api := ask.New(s.Host(d.profile.EntryRole(), 0), s.authorize, d.config.Mask, d.measurer.Asked)
	defer api.Close()
	line := d.readyLine(s.Roles)
	up, stop := backends.WhileUp(ctx, dep)
	defer stop()
	pause := readyPollMin
	last := fmt.Errorf("no answer yet")
	waiting := d.waitFor(dep, "ready")
	for {
		err := line()
		if err == nil {
			a, err = d.answers(up, api)
		}
		if err == nil {
			a.version = d.version(ctx, api)
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

// readyLine says whether the ready line stands in the entry role's log. A server
// that somebody else started has none that we could read.
func (d *Servers) readyLine(roles []backends.Role) func() error {
	for _, r := range roles {
		if d.profile.Ready.Line != "" && !d.config.Options.Given && r.Name == d.profile.EntryRole() && r.LogPath != nil {
			return newAwaitedLine(r.LogPath(0), d.profile.Ready.Line).seen
		}
	}
	return func() error { return nil }
}

// answers makes one round of the readiness rule.
func (d *Servers) answers(ctx context.Context, api *ask.Client) (answered, error) {
	p := d.profile
	// The completion below shows more than a health check, which may cost a token
	// too (SGLang): a server of somebody else is not asked both.
	if p.Ready.Health != "" && !d.config.Options.Given {
		if _, err := api.Get(ctx, p.Ready.Health); err != nil {
			return answered{}, err
		}
	}
	if p.Ready.Models != "" {
		body, err := api.Get(ctx, p.Ready.Models)
		if err != nil {
			return answered{}, err
		}
		ids, err := ask.Models(body)
		switch {
		case err != nil:
			return answered{}, fmt.Errorf("%s: %w", p.Ready.Models, err)
		case len(ids) == 0:
			return answered{}, fmt.Errorf("%s lists no model yet", p.Ready.Models)
		case !slices.Contains(ids, d.of.Server.Served):
			return answered{}, &wrongModel{want: d.of.Server.Served, got: ids}
		}
	}
	return d.completes(ctx, api)
}

// completes asks for one token, in the way in which the load will ask.
func (d *Servers) completes(ctx context.Context, api *ask.Client) (a answered, err error) {
	body := map[string]any{"model": d.of.Server.Served, cmp.Or(d.profile.API.MaxTokensField, "max_tokens"): 1}
	path := d.profile.API.Chat
	if path != "" {
		body["messages"] = []map[string]string{{"role": "user", "content": "Hello"}}
	} else {
		path = d.profile.API.Completions
		body["prompt"] = "Hello"
	}
	put := api.Post
	stream := d.of.Cells[0].Load.Stream
	if stream == nil || *stream {
		body["stream"] = true
		if d.profile.API.IncludeUsage {
			body["stream_options"] = map[string]bool{"include_usage": true}
		}
		put = func(ctx context.Context, path string, body any) (first []byte, err error) {
			first, a.uncounted, err = api.Stream(ctx, path, body)
			return first, err
		}
	}
	answer, err := put(ctx, path, body)
	var status *ask.Status
	if errors.As(err, &status) && status.IsModel() {
		if ids := api.Served(ctx, d.profile.Ready.Models); len(ids) > 0 && !slices.Contains(ids, d.of.Server.Served) {
			return a, &wrongModel{want: d.of.Server.Served, got: ids}
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
	if got.Model != "" && got.Model != d.of.Server.Served {
		return a, &wrongModel{want: d.of.Server.Served, got: []string{got.Model}}
	}
	return a, nil
}

// version asks the engine for its version; not knowing it is no failure.
func (d *Servers) version(ctx context.Context, api *ask.Client) string {
	if d.profile.API.Version == "" {
		return ""
	}
	body, err := api.Get(ctx, d.profile.API.Version)
	if err != nil {
		return ""
	}
	var v map[string]any
	if json.Unmarshal(body, &v) != nil {
		return ""
	}
	version, _ := v[d.profile.API.VersionField].(string)
	return version
}
