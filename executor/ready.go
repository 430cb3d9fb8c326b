package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/internal/secret"
)

// Between two looks at a server that is starting.
const (
	readyPollMin = 50 * time.Millisecond
	readyPollMax = time.Second
)

// ready returns when the engine has answered a completion of one token with
// the expected model, and returns the engine's version ("" where it tells
// none). An open port is not readiness, and neither is a health check.
// The engine's ready line, where there is one, only says when to begin asking.
func (d *deployment) ready(ctx context.Context, dep backends.Deployment, roles []backends.Role) (version string, err error) {
	api := d.api(dep)
	defer api.close()
	line := d.readyLine(roles)
	up, stop := whileUp(ctx, dep)
	defer stop()
	wait := readyPollMin
	last := fmt.Errorf("no answer yet")
	for {
		err := line()
		if err == nil {
			err = d.answers(up, api)
		}
		if err == nil {
			return d.version(ctx, api), nil
		}
		if _, ok := err.(*wrongModel); ok { //nolint:errorlint // returned as it is, never wrapped
			return "", err
		}
		if up.Err() == nil {
			last = err
		}
		select {
		case <-dep.Done():
			return "", endOf(dep)
		case <-ctx.Done():
			return "", last
		case <-time.After(wait):
			wait = min(wait*3/2, readyPollMax)
		}
	}
}

// readyLine says whether the ready line stands in the entry role's log. A server
// that somebody else started has none that we could read.
func (d *deployment) readyLine(roles []backends.Role) func() error {
	for _, r := range roles {
		if d.profile.Ready.Line != "" && !d.Given && r.Name == d.profile.EntryRole() && r.LogPath != nil {
			return newAwaitedLine(r.LogPath(0), d.profile.Ready.Line).seen
		}
	}
	return func() error { return nil }
}

// answers makes one round of the readiness rule.
func (d *deployment) answers(ctx context.Context, api *apiClient) error {
	p := d.profile
	if p.Ready.Health != "" {
		if _, err := api.get(ctx, p.Ready.Health); err != nil {
			return err
		}
	}
	if p.Ready.Models != "" {
		body, err := api.get(ctx, p.Ready.Models)
		if err != nil {
			return err
		}
		var list struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		if err := json.Unmarshal(body, &list); err != nil {
			return fmt.Errorf("%s: %w", p.Ready.Models, err)
		}
		var ids []string
		for _, m := range list.Data {
			if m.ID == d.Server.Served {
				ids = nil
				break
			}
			ids = append(ids, m.ID)
		}
		if len(list.Data) == 0 {
			return fmt.Errorf("%s lists no model yet", p.Ready.Models)
		}
		if ids != nil {
			return &wrongModel{want: d.Server.Served, got: ids}
		}
	}
	return d.completes(ctx, api)
}

// completes asks for one token.
func (d *deployment) completes(ctx context.Context, api *apiClient) error {
	field := d.profile.API.MaxTokensField
	if field == "" {
		field = "max_tokens"
	}
	body := map[string]any{"model": d.Server.Served, field: 1}
	path := d.profile.API.Chat
	if path != "" {
		body["messages"] = []map[string]string{{"role": "user", "content": "Hello"}}
	} else {
		path = d.profile.API.Completions
		body["prompt"] = "Hello"
	}
	answer, err := api.post(ctx, path, body)
	if err != nil {
		return err
	}
	var got struct {
		Model   string            `json:"model"`
		Choices []json.RawMessage `json:"choices"`
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(got.Choices) == 0 {
		return fmt.Errorf("%s answered without a choice", path)
	}
	if got.Model != "" && got.Model != d.Server.Served {
		return &wrongModel{want: d.Server.Served, got: []string{got.Model}}
	}
	return nil
}

// version asks the engine for its version; not knowing it is no failure.
func (d *deployment) version(ctx context.Context, api *apiClient) string {
	if d.profile.API.Version == "" {
		return ""
	}
	body, err := api.get(ctx, d.profile.API.Version)
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

// A badStatus is an answer other than 200.
type badStatus struct {
	code int
	text string
}

func (e *badStatus) Error() string { return e.text }

// An apiClient asks a server small questions, outside of any measurement.
type apiClient struct {
	base string
	http *http.Client
	auth func(http.Header)
	mask secret.Mask
}

// Bounds of one question: a server that hangs is not ready. A first completion
// may compile kernels or wake a model up.
const (
	questionTimeout   = 10 * time.Second
	completionTimeout = 2 * time.Minute
)

func (d *deployment) api(dep backends.Deployment) *apiClient {
	h := dep.Host(d.profile.EntryRole(), 0)
	return d.apiOf(dep, h)
}

func (d *deployment) apiOf(dep backends.Deployment, h host.Host) *apiClient {
	return &apiClient{base: h.URL(), auth: d.authorizer(dep), http: clientOf(h), mask: d.mask}
}

func (c *apiClient) close() { c.http.CloseIdleConnections() }

func (c *apiClient) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	return c.do(ctx, http.MethodGet, path, nil)
}

func (c *apiClient) post(ctx context.Context, path string, body any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	return c.do(ctx, http.MethodPost, path, body)
}

func (c *apiClient) do(ctx context.Context, method, path string, body any) ([]byte, error) {
	u, err := url.JoinPath(c.base, path)
	if err != nil {
		return nil, err
	}
	var payload io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, u, payload)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c.auth(req.Header)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		text := fmt.Sprintf("%s %s answered %s: %.300s", method, path, resp.Status, c.mask.Text(string(bytes.TrimSpace(answer))))
		return nil, &badStatus{resp.StatusCode, text}
	}
	return answer, nil
}
