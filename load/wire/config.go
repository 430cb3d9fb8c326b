// Package wire writes requests to a server that speaks OpenAI's chat and completions
// API, and reads its answers. The drivers share it, so that a row does not depend on
// the driver.
package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sweep.dev/sweep/load"
)

// Bounds of what a server may send back.
const (
	// DefaultMaxResponse bounds one answer in bytes.
	DefaultMaxResponse = 64 << 20
	MaxErrorBody       = 64 << 10
)

// Bounds of the connections of a driver.
const (
	DialTimeout = 5 * time.Second
	// DialsAtOnce keeps a thousand connections from overflowing the backlog of
	// the server's listener, which would cost each of the lost ones a second.
	DialsAtOnce = 32
	// SpareOpen is how many idle connections an open loop holds ready at
	// first, and MaxSpare at most. Few, because some servers (cpp-httplib)
	// have a thread for each connection and few threads: an idle one takes
	// away what a request needs. A closed loop has one for each slot and needs
	// none.
	SpareOpen = 2
	MaxSpare  = 32
)

// Config is a server and how it is to be asked. BaseURL and Model must be set;
// the zero value of everything else is the least that works everywhere.
type Config struct {
	BaseURL string // http or https, without the path of the API
	// Path is that of the API, joined to BaseURL; the default is
	// /v1/chat/completions or /v1/completions, as Chat says.
	Path  string
	Model string
	Chat  bool
	// Stream asks for server-sent events. Without it there are no times of
	// tokens.
	Stream bool
	// IncludeUsage and ContinuousUsage ask for token counts, at the end of a
	// stream and with every chunk. With IncludeUsage a stream that ends with
	// neither a count nor [DONE] has failed. If [DONE] came without a count,
	// each chunk with content is counted as one token.
	IncludeUsage    bool
	ContinuousUsage bool

	MaxTokensField string // default max_tokens
	IgnoreEOS      bool   // send ignore_eos
	MinTokens      bool   // send min_tokens with the value of max_tokens
	Temperature    *float64
	TopP           *float64
	Stop           []string
	// Body holds further fields. Those that the driver sets itself to know
	// what it measures are refused.
	Body map[string]any

	// Headers adds to the headers of each request. It is a function so that
	// keys are held only by their owner.
	Headers func(http.Header) `json:"-"`
	// Dial opens connections; nil is netguard.Dial. TLS is the configuration
	// for https; nil is Go's default.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error) `json:"-"`
	TLS  *tls.Config                                                       `json:"-"`

	// FreshConnections gives each request a connection of its own, for servers
	// that close one after an answer without saying so: reusing it would race
	// with the close. The connect is in no latency either way.
	FreshConnections bool

	NetworkPath string // for Health
	MaxResponse int64  // 0 is DefaultMaxResponse
}

// An Encoder makes the bodies of requests.
type Encoder struct {
	fixed     []byte // {"model":...,"stream":true,... without the closing brace
	chat      bool
	maxField  string
	minTokens bool
}

// reserved are the fields that Body must not hold, and what says them instead.
var reserved = map[string]string{
	"messages":       "the prompts",
	"prompt":         "the prompts",
	"model":          "the model",
	"stream":         "load.stream",
	"stream_options": "the engine profile",
	"n":              "nothing: the requests table has one answer a request",
}

func newEncoder(c *Config) (*Encoder, error) {
	e := &Encoder{chat: c.Chat, maxField: c.MaxTokensField, minTokens: c.MinTokens}
	if e.maxField == "" {
		e.maxField = "max_tokens"
	}
	body := map[string]any{"model": c.Model}
	for k, v := range c.Body {
		if by, ok := reserved[k]; ok {
			return nil, fmt.Errorf("body field %q cannot be set: it is set by %s", k, by)
		}
		if k == e.maxField {
			return nil, fmt.Errorf("body field %q cannot be set: it is set by load.max_tokens", k)
		}
		body[k] = v
	}
	set := func(k string, v any) error {
		if _, ok := body[k]; ok {
			return fmt.Errorf("body field %q is set twice: there is a setting of its own for it", k)
		}
		body[k] = v
		return nil
	}
	var err error
	if c.Stream {
		err = errors.Join(err, set("stream", true))
		options := map[string]any{}
		if c.IncludeUsage {
			options["include_usage"] = true
		}
		if c.ContinuousUsage {
			options["continuous_usage_stats"] = true
		}
		if len(options) > 0 {
			err = errors.Join(err, set("stream_options", options))
		}
	}
	if c.IgnoreEOS {
		err = errors.Join(err, set("ignore_eos", true))
	}
	if c.Temperature != nil {
		err = errors.Join(err, set("temperature", *c.Temperature))
	}
	if c.TopP != nil {
		err = errors.Join(err, set("top_p", *c.TopP))
	}
	if len(c.Stop) > 0 {
		err = errors.Join(err, set("stop", c.Stop))
	}
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	e.fixed = b[:len(b)-1]
	return e, nil
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Encode makes the body of one request. It is a fresh one each time, because
// net/http may still be reading the last one after its answer has come.
func (e *Encoder) Encode(j *load.Job) []byte {
	size := len(e.fixed) + len(j.Prompt.System) + 256
	for _, t := range j.Prompt.Turns {
		size += len(t) + len(t)/16 + 64
	}
	b := bytes.NewBuffer(make([]byte, 0, size))
	b.Write(e.fixed)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	put := func(key string, v any) {
		b.WriteString(`,"` + key + `":`)
		// Strings, numbers and messages always encode, and a buffer takes all.
		_ = enc.Encode(v)
		b.Truncate(b.Len() - 1) // the encoder's line end
	}
	if e.chat {
		put("messages", messages(&j.Prompt))
	} else {
		put("prompt", text(&j.Prompt))
	}
	if j.MaxTokens > 0 {
		put(e.maxField, j.MaxTokens)
		if e.minTokens {
			put("min_tokens", j.MaxTokens)
		}
	}
	if j.Seed != nil {
		put("seed", *j.Seed)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func messages(p *load.Prompt) []message {
	m := make([]message, 0, len(p.Turns)+1)
	if p.System != "" {
		m = append(m, message{"system", p.System})
	}
	for i, t := range p.Turns {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		m = append(m, message{role, t})
	}
	return m
}

// text returns a prompt for an API that has no messages.
func text(p *load.Prompt) string {
	parts := p.Turns
	if p.System != "" {
		parts = append([]string{p.System}, parts...)
	}
	return strings.Join(parts, "\n\n")
}

// APIPath is Path, or its default.
func (c *Config) APIPath() string {
	switch {
	case c.Path != "":
		return c.Path
	case c.Chat:
		return "/v1/chat/completions"
	}
	return "/v1/completions"
}

// endpoint checks the parts of the URL and joins them.
func (c *Config) endpoint() (*url.URL, error) {
	u, err := url.Parse(c.BaseURL)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("base URL %q is not http://host or https://host", u.Redacted())
	}
	if u.User != nil {
		return nil, errors.New("the base URL holds a password: send it in a header")
	}
	return Join(u, c.APIPath())
}

// Join returns a path of a server below its base URL. The prefix and the query of both are kept.
func Join(base *url.URL, path string) (*url.URL, error) {
	ref, err := url.Parse(path)
	if err != nil || ref.IsAbs() || ref.Host != "" {
		return nil, fmt.Errorf("path %q is not one", path)
	}
	out := *base
	out.Path = strings.TrimRight(base.Path, "/") + "/" + strings.TrimLeft(ref.Path, "/")
	// In the order in which they were given: not every server takes another.
	out.RawQuery = strings.Trim(base.RawQuery+"&"+ref.RawQuery, "&")
	return &out, nil
}

// Prepare checks the configuration, fills in its defaults and returns where
// requests go and what encodes them.
func (c *Config) Prepare() (*url.URL, *Encoder, error) {
	u, err := c.endpoint()
	if err != nil {
		return nil, nil, err
	}
	if c.Model == "" {
		return nil, nil, errors.New("no model to ask for")
	}
	e, err := newEncoder(c)
	if err != nil {
		return nil, nil, err
	}
	if c.MaxResponse == 0 {
		c.MaxResponse = DefaultMaxResponse
	}
	return u, e, nil
}

// Accept returns the media type that answers are to have.
func (c *Config) Accept() string {
	if c.Stream {
		return "text/event-stream"
	}
	return "application/json"
}

// RequestHeader adds what a job's request says beyond what all of them say.
func (c *Config) RequestHeader(h http.Header, j *load.Job, prefix string) {
	if prefix != "" {
		h.Set("X-Request-Id", fmt.Sprintf("%s-s%d-n%d", prefix, j.Shard, j.N))
	}
	if c.Headers != nil {
		c.Headers(h)
	}
	for _, f := range j.Headers {
		h.Set(f.Name, f.Value)
	}
}
