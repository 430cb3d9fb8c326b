// Package ask puts small questions to a server, outside of any measurement: is it
// ready, which models has it, does it complete a token. An answer other than the
// one that was asked for is an error, of which [Lasting] says whether waiting
// changes it.
package ask

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/sse"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// An Client asks a server small questions, outside of any measurement.
type Client struct {
	base string
	http *http.Client
	auth func(http.Header)
	mask secret.Mask
	sent func(path string) // called for each question that was written
}

// Bounds of one question: a server that hangs is not ready. A first completion
// may compile kernels or wake a model up.
const (
	Timeout           = 10 * time.Second
	completionTimeout = 2 * time.Minute
)

// New returns a client of one host; it sends no request to another one. auth adds the
// headers that requests must carry, mask hides secrets in the answers, and sent is
// called with the path of each request that was written.
func New(h host.Host, auth func(http.Header), mask secret.Mask, sent func(path string)) *Client {
	return &Client{base: h.URL(), auth: auth, http: clientOf(h), mask: mask, sent: sent}
}

// Close gives back the connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get returns the answer to a GET.
func (c *Client) Get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return c.do(ctx, http.MethodGet, path, nil)
}

// Post returns the answer to a body, which is sent as JSON; nothing is sent for nil.
func (c *Client) Post(ctx context.Context, path string, body any) ([]byte, error) {
	return c.PostWithin(ctx, completionTimeout, path, body)
}

// PostWithin is [Client.Post] with a limit of its own.
func (c *Client) PostWithin(ctx context.Context, limit time.Duration, path string, body any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.do(ctx, http.MethodPost, path, body)
}

// Stream posts a body that asks for a stream, and reads the answer to its end.
// It returns the first event with a choice, and whether the stream was complete
// without a count of its tokens. An answer in JSON is returned unchanged.
func (c *Client) Stream(ctx context.Context, path string, body any) (first []byte, uncounted bool, err error) {
	ctx, stop := context.WithTimeout(ctx, completionTimeout)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := c.Open(ctx, http.MethodPost, path, body)
	if err != nil {
		return nil, false, err
	}
	defer resp.Body.Close()
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media == "application/json" && !wire.IsStream(resp) {
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
		uncounted = row.TokenSource != result.FromUsage
	case result.ErrTruncated: // the load will say it of each request
	default:
		return nil, false, &badStream{row.ErrorClass, fmt.Sprintf("POST %s: %s", path, c.mask.Text(row.Error))}
	}
	return firstChoice(seen.Bytes()), uncounted, nil
}

// firstChoice returns the data of a stream's first event with a choice, or {}.
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

// maxAnswer bounds the answer to one question, in bytes: a gateway lists thousands of models.
const maxAnswer = 8 << 20

// plain returns the body of an answer, which some servers compress though nobody asked for it.
func plain(resp *http.Response) (io.Reader, error) {
	if resp.Header.Get("Content-Encoding") != "gzip" {
		return resp.Body, nil
	}
	return gzip.NewReader(resp.Body)
}

func (c *Client) do(ctx context.Context, method, path string, question any) ([]byte, error) {
	resp, err := c.Open(ctx, method, path, question)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := plain(resp)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	answer, err := io.ReadAll(io.LimitReader(body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return answer, nil
}

// Open returns an answer of 200, whose body the caller closes and ctx bounds. Another
// status is a [Status], and no answer a [NoAnswer].
func (c *Client) Open(ctx context.Context, method, path string, body any) (*http.Response, error) {
	base, err := url.Parse(c.base)
	if err != nil {
		return nil, err
	}
	u, err := wire.Join(base, path)
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
	req, err := http.NewRequestWithContext(ctx, method, u.String(), payload)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c.auth(req.Header)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, &NoAnswer{err}
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
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode/100 == 3 {
		said = strings.TrimSpace("it leads to " + c.mask.Text(to) + " " + said)
	}
	return nil, &Status{resp.StatusCode, fmt.Sprintf("%s %s answered %s: %.300s", method, path, resp.Status, said), said}
}

// Served lists the models of a server; nil if it does not say.
func (c *Client) Served(ctx context.Context, path string) []string {
	body, err := c.Get(ctx, cmp.Or(path, "/v1/models"))
	if err != nil {
		return nil
	}
	ids, err := Models(body)
	if err != nil {
		return nil
	}
	return ids
}

// Models returns the ids in a list of models: that of OpenAI, an array of such models or of names,
// or that of Ollama.
func Models(body []byte) ([]string, error) {
	var list struct{ Data, Models []listed }
	if body = bytes.TrimSpace(body); len(body) > 0 && body[0] == '[' {
		if err := json.Unmarshal(body, &list.Data); err != nil {
			return nil, err
		}
	} else if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	var ids []string
	for _, m := range slices.Concat(list.Data, list.Models) {
		if !slices.Contains(ids, string(m)) {
			ids = append(ids, string(m))
		}
	}
	return ids, nil
}

// A listed is the name of a model in a list.
type listed string

// UnmarshalJSON reads a name, or an object that has it.
func (l *listed) UnmarshalJSON(data []byte) error {
	var m struct{ ID, Model, Name string }
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, (*string)(l))
	}
	err := json.Unmarshal(data, &m)
	*l = listed(cmp.Or(m.ID, m.Model, m.Name))
	return err
}

// clientOf returns a client that connects to h alone.
func clientOf(h host.Host) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return h.Dial(ctx, network, addr)
			},
			DisableCompression: true,
		},
		// A redirect could carry a key to another host. That of a POST is not followed, as
		// the load follows none.
		CheckRedirect: netguard.SameServer,
	}
}
