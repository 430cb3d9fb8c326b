package executor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/sse"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
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
func (d *deployment) ready(ctx context.Context, dep backends.Deployment, roles []backends.Role) (a answered, err error) {
	api := d.api(dep)
	defer api.close()
	line := d.readyLine(roles)
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
func (d *deployment) readyLine(roles []backends.Role) func() error {
	for _, r := range roles {
		if d.profile.Ready.Line != "" && !d.Given && r.Name == d.profile.EntryRole() && r.LogPath != nil {
			return newAwaitedLine(r.LogPath(0), d.profile.Ready.Line).seen
		}
	}
	return func() error { return nil }
}

// answers makes one round of the readiness rule.
func (d *deployment) answers(ctx context.Context, api *apiClient) (answered, error) {
	p := d.profile
	// The completion below shows more than a health check, which may cost a token
	// too (SGLang): a server of somebody else is not asked both.
	if p.Ready.Health != "" && !d.Given {
		if _, err := api.get(ctx, p.Ready.Health); err != nil {
			return answered{}, err
		}
	}
	if p.Ready.Models != "" {
		body, err := api.get(ctx, p.Ready.Models)
		if err != nil {
			return answered{}, err
		}
		ids, err := modelIDs(body)
		switch {
		case err != nil:
			return answered{}, fmt.Errorf("%s: %w", p.Ready.Models, err)
		case len(ids) == 0:
			return answered{}, fmt.Errorf("%s lists no model yet", p.Ready.Models)
		case !slices.Contains(ids, d.Server.Served):
			return answered{}, &wrongModel{want: d.Server.Served, got: ids}
		}
	}
	return d.completes(ctx, api)
}

// completes asks for one token, in the way in which the load will ask.
func (d *deployment) completes(ctx context.Context, api *apiClient) (a answered, err error) {
	body := map[string]any{"model": d.Server.Served, cmp.Or(d.profile.API.MaxTokensField, "max_tokens"): 1}
	path := d.profile.API.Chat
	if path != "" {
		body["messages"] = []map[string]string{{"role": "user", "content": "Hello"}}
	} else {
		path = d.profile.API.Completions
		body["prompt"] = "Hello"
	}
	ask := api.post
	stream := d.Cells[0].Load.Stream
	if stream == nil || *stream {
		body["stream"] = true
		if d.profile.API.IncludeUsage {
			body["stream_options"] = map[string]bool{"include_usage": true}
		}
		ask = func(ctx context.Context, path string, body any) (first []byte, err error) {
			first, a.uncounted, err = api.stream(ctx, path, body)
			return first, err
		}
	}
	answer, err := ask(ctx, path, body)
	var status *badStatus
	if errors.As(err, &status) && status.isModel() {
		if ids := api.served(ctx, d.profile.Ready.Models); len(ids) > 0 && !slices.Contains(ids, d.Server.Served) {
			return a, &wrongModel{want: d.Server.Served, got: ids}
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
	if got.Model != "" && got.Model != d.Server.Served {
		return a, &wrongModel{want: d.Server.Served, got: []string{got.Model}}
	}
	return a, nil
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
	body string // without secrets
}

func (e *badStatus) Error() string { return e.text }

// An apiClient asks a server small questions, outside of any measurement.
type apiClient struct {
	base string
	http *http.Client
	auth func(http.Header)
	mask secret.Mask
	sent func(path string) // called for each question that was written
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
	return d.asker(h, d.authorizer(dep))
}

// asker asks a host of this deployment, and counts what it asks.
func (d *deployment) asker(h host.Host, auth func(http.Header)) *apiClient {
	return &apiClient{base: h.URL(), auth: auth, http: clientOf(h), mask: d.mask, sent: d.asked}
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

// stream posts a body that asks for a stream, and reads the answer to its end.
// It returns the first event with a choice, and whether the stream was complete
// without a count of its tokens. An answer in JSON is returned as it is.
func (c *apiClient) stream(ctx context.Context, path string, body any) (first []byte, uncounted bool, err error) {
	ctx, stop := context.WithTimeout(ctx, completionTimeout)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := c.ask(ctx, http.MethodPost, path, body)
	if err != nil {
		return nil, false, err
	}
	defer resp.Body.Close()
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media == "application/json" {
		first, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		return first, false, err
	}
	var seen bytes.Buffer
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(resp.Body, &seen), resp.Body}
	began := time.Now()
	now := func() time.Duration { return time.Since(began) }
	row := wire.Unsent(&load.Job{MaxTokens: 1}, 0)
	row.Sent = 0
	reads := 0
	receiver := wire.Receiver{
		Config: &wire.Config{Stream: true, IncludeUsage: true, MaxResponse: maxAnswer}, Now: now,
		Mark: func() wire.Mark { reads++; return wire.Mark{At: now(), After: result.Never, Read: reads} },
	}
	receiver.Receive(ctx, cancel, resp, &row, false)
	switch row.ErrorClass {
	case "", result.ErrNoTokens:
		uncounted = row.TokenSource != "usage"
	case result.ErrTruncated: // the load will say it of each request
	default:
		return nil, false, &badStream{row.ErrorClass, fmt.Sprintf("POST %s: %s", path, c.mask.Text(row.Error))}
	}
	return firstChoice(seen.Bytes()), uncounted, nil
}

// A badStream is an answer of 200 that is no stream, or that failed.
type badStream struct{ class, text string }

func (e *badStream) Error() string { return e.text }

// firstChoice is the data of a stream's first event with a choice, or {}.
func firstChoice(stream []byte) []byte {
	var p sse.Parser
	var ev sse.Event
	p.Feed(stream)
	for p.Next(&ev) {
		var got struct {
			Choices []json.RawMessage `json:"choices"`
		}
		if json.Unmarshal(ev.Data, &got) == nil && len(got.Choices) > 0 {
			return bytes.Clone(ev.Data)
		}
	}
	return []byte("{}")
}

// maxAnswer bounds the answer to one question, in bytes.
const maxAnswer = 1 << 20

func (c *apiClient) do(ctx context.Context, method, path string, body any) ([]byte, error) {
	resp, err := c.ask(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return answer, nil
}

// ask returns an answer of 200, whose body the caller closes. Another status is a
// *badStatus, and no answer a *noAnswer.
func (c *apiClient) ask(ctx context.Context, method, path string, body any) (*http.Response, error) {
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
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) {
		if i.Err == nil {
			c.sent(path)
		}
	}})
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
		return nil, &noAnswer{err}
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	said := c.mask.Text(string(bytes.TrimSpace(answer)))
	return nil, &badStatus{resp.StatusCode, fmt.Sprintf("%s %s answered %s: %.300s", method, path, resp.Status, said), said}
}
