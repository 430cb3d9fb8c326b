package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/dialect"
	"sweep.dev/sweep/sim/text"
)

// body is a request for completions; what is not here has no effect.
type body struct {
	Model    string          `json:"model"`
	Messages []chatMessage   `json:"messages"`
	Prompt   json.RawMessage `json:"prompt"`
	Content  json.RawMessage `json:"content"` // to tokenize, of llama.cpp
	Inputs   json.RawMessage `json:"inputs"`  // and of TGI

	MaxTokens           *int `json:"max_tokens"`
	MaxCompletionTokens *int `json:"max_completion_tokens"`
	MinTokens           int  `json:"min_tokens"`
	IgnoreEOS           bool `json:"ignore_eos"`

	Stream        bool `json:"stream"`
	StreamOptions *struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`

	Stop        stringList `json:"stop"`
	Seed        *int64     `json:"seed"`
	Temperature *float64   `json:"temperature"`
	TopP        *float64   `json:"top_p"`
	N           *int       `json:"n"`

	KVTransfer *kvTransfer `json:"kv_transfer_params"`
}

// kvTransfer is how a proxy has one server compute the prompt and another one
// the answer, as vLLM's NIXL connector wants it
// (https://docs.vllm.ai/en/latest/features/disagg_prefill.html).
type kvTransfer struct {
	RemoteDecode  bool `json:"do_remote_decode"`
	RemotePrefill bool `json:"do_remote_prefill"`

	Engine string `json:"remote_engine_id"`
}

// transferTime returns how long the cache of a prompt is on its way from another
// server.
func (s *Server) transferTime(tokens int) time.Duration {
	bytes := float64(tokens) * s.cfg.Core.KVBytesPerToken() * float64(s.cfg.Core.GPUs)
	return s.engine.Unscale(time.Duration(bytes / KVBandwidth * float64(time.Second)))
}

// KVBandwidth is how fast a cache goes from one server to another, in bytes a
// second: one port of 200 Gb/s.
const KVBandwidth = 25e9

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// text returns the content: a string, null, or a list of parts with text.
func (m chatMessage) text() (string, error) {
	if len(m.Content) == 0 || string(m.Content) == "null" {
		return "", nil
	}
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s, nil
	}
	var parts []struct{ Type, Text string }
	if err := json.Unmarshal(m.Content, &parts); err != nil {
		return "", errors.New("content is neither a string nor a list of parts")
	}
	for _, p := range parts {
		if p.Type != "text" {
			return "", fmt.Errorf("content of type %q is not simulated", p.Type)
		}
		s += p.Text
	}
	return s, nil
}

type stringList []string

func (l *stringList) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		if s != "" {
			*l = []string{s}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(l))
}

// bodyLimit bounds what is read of one request.
const bodyLimit = 64 << 20

func (s *Server) read(w http.ResponseWriter, r *http.Request) (*body, *dialect.Error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	if err != nil {
		return nil, badRequest("", "cannot read the body: %v", err)
	}
	b := &body{}
	if err := json.Unmarshal(raw, b); err != nil {
		return nil, badRequest("", "[{'type': 'json_invalid', 'loc': ('body',), 'msg': 'JSON decode error', 'ctx': {'error': %q}}]", err.Error())
	}
	if refused := s.fields(raw, b); refused != nil {
		return nil, refused
	}
	if b.Model != "" && !s.api.AnyModel && !slices.Contains(s.cfg.Served, b.Model) {
		return nil, &dialect.Error{Message: fmt.Sprintf("The model `%s` does not exist.", b.Model), Type: "NotFoundError", Param: new("model"), Code: 404}
	}
	return b, nil
}

// fields forgets what the engine ignores of a request, and refuses what it
// does not know, if it does.
func (s *Server) fields(raw []byte, b *body) *dialect.Error {
	for _, name := range s.api.Ignores {
		switch name {
		case "ignore_eos":
			b.IgnoreEOS = false
		case "min_tokens":
			b.MinTokens = 0
		case "continuous_usage_stats":
			if b.StreamOptions != nil {
				b.StreamOptions.ContinuousUsageStats = false
			}
		}
	}
	if len(s.api.Fields) == 0 {
		return nil
	}
	var given map[string]json.RawMessage
	_ = json.Unmarshal(raw, &given) // it was an object before
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(s.api.Fields, name) {
			return badRequest("", "[{'type': 'extra_forbidden', 'loc': ('body', '%s'), 'msg': 'Extra inputs are not permitted', 'input': %s}]", name, given[name])
		}
	}
	return nil
}

// tokens returns the prompt of a request.
func (b *body) tokens(chat bool) ([]uint32, *dialect.Error) {
	if chat {
		if len(b.Messages) == 0 {
			return nil, badRequest("messages", "messages: at least one message is required")
		}
		var ms []text.Message
		for i, m := range b.Messages {
			content, err := m.text()
			if err != nil {
				return nil, badRequest("messages", "messages[%d]: %v", i, err)
			}
			ms = append(ms, text.Message{Role: m.Role, Content: content})
		}
		return text.Chat(ms), nil
	}
	for _, other := range []json.RawMessage{b.Content, b.Inputs} {
		if b.Prompt == nil {
			b.Prompt = other
		}
	}
	var one string
	var ids []uint32
	var texts []string
	switch {
	case json.Unmarshal(b.Prompt, &one) == nil && one != "":
		return text.Tokenize(nil, one), nil
	case json.Unmarshal(b.Prompt, &ids) == nil && len(ids) > 0:
		return ids, nil
	case json.Unmarshal(b.Prompt, &texts) == nil && len(texts) == 1 && texts[0] != "":
		return text.Tokenize(nil, texts[0]), nil
	}
	return nil, badRequest("prompt", "prompt: want one text or one list of token ids that is not empty")
}

// A job is a request that was understood.
type job struct {
	n         int // which request of this process, from 1
	reply     dialect.Reply
	prompt    int // tokens
	maxTokens int
	answer    text.Answer
	req       core.Request
}

// understand checks a request and draws its answer.
func (s *Server) understand(b *body, chat bool) (*job, *dialect.Error) {
	prompt, refused := b.tokens(chat)
	if refused != nil {
		return nil, refused
	}
	limit := s.cfg.Core.MaxModelLen
	maxTokens := limit - len(prompt)
	if !chat {
		maxTokens = min(16, maxTokens) // the default of /v1/completions
	}
	for _, m := range []*int{b.MaxTokens, b.MaxCompletionTokens} {
		if m == nil {
			continue
		}
		if *m < 1 {
			return nil, badRequest("max_tokens", "max_tokens must be at least 1, got %d.", *m)
		}
		maxTokens = *m
	}
	asked := b.MaxTokens != nil || b.MaxCompletionTokens != nil
	if most := s.cfg.Settings.InputTokens; most > 0 && len(prompt) > most {
		return nil, badRequest("", "Input validation error: `inputs` must have less than %d tokens. Given: %d", most, len(prompt))
	}
	if s.api.Cuts && len(prompt) < limit {
		maxTokens = min(maxTokens, limit-len(prompt))
	}
	if len(prompt) >= limit || len(prompt)+maxTokens > limit {
		if !asked {
			maxTokens = 0
		}
		return nil, s.api.TooLong(len(prompt), maxTokens, limit)
	}
	switch {
	case b.N != nil && *b.N != 1:
		return nil, badRequest("n", "n: only 1 is simulated, got %d.", *b.N)
	case b.Temperature != nil && *b.Temperature < 0:
		return nil, badRequest("temperature", "temperature must be non-negative, got %v.", *b.Temperature)
	case b.TopP != nil && (*b.TopP <= 0 || *b.TopP > 1):
		return nil, badRequest("top_p", "top_p must be in (0, 1], got %v.", *b.TopP)
	case b.MinTokens < 0 || b.MinTokens > maxTokens:
		return nil, badRequest("min_tokens", "min_tokens must be less than or equal to max_tokens=%d, got %d.", maxTokens, b.MinTokens)
	case b.StreamOptions != nil && !b.Stream:
		return nil, badRequest("stream_options", "Stream options can only be defined when `stream=True`.")
	}
	var seed uint64
	if b.Seed != nil {
		seed = uint64(*b.Seed)
	}
	j := &job{prompt: len(prompt), maxTokens: maxTokens}
	j.reply = dialect.Reply{
		Model: s.cfg.Served[0], Created: time.Now().Unix(), Chat: chat, Prompt: len(prompt), Cached: s.cfg.PromptDetails, Scale: s.cfg.TimeScale,
		Usage: s.cfg.ForceUsage && b.StreamOptions == nil, Remote: b.KVTransfer != nil && b.KVTransfer.RemoteDecode,
	}
	if o := b.StreamOptions; o != nil && o.IncludeUsage {
		j.reply.Usage, j.reply.Continuous = true, o.ContinuousUsageStats
	}
	j.answer = text.NewAnswer(s.cfg.Core.Seed, prompt, seed)
	if !b.IgnoreEOS {
		j.answer.NaturalStop(b.MinTokens + 1)
	}
	j.answer.StopStrings(b.Stop, maxTokens)
	j.reply.StopString = j.answer.Stop
	j.req = core.Request{Prompt: prompt, MaxTokens: maxTokens, StopAt: j.answer.StopAt, Token: j.answer.Token}
	if b.KVTransfer != nil && b.KVTransfer.RemotePrefill {
		j.req.Received = len(prompt)
	}
	return j, nil
}
