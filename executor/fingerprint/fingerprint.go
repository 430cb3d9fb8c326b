// Package fingerprint asks a server two fixed questions before it is measured, so that a card
// that is slower than others of its name is seen: how long a fixed prompt takes, and how long
// an output token. Both are differences to a short question, so that the way to the server
// is not in them.
package fingerprint

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/result"
)

// What is asked. All are conventions: long enough that a card is busy for some milliseconds,
// and short enough for Limit.
const (
	Words  = 1000 // of the long prompt
	Output = 32   // tokens of the long answer
	Rounds = 5    // that count; one before them wakes the server up
	Least  = 3    // rounds that a median needs

	// Limit is for all rounds of a server. What is not asked by then is left out.
	Limit = 30 * time.Second
)

// Asked returns how many completions a server is asked at most.
func Asked() int { return 3 * (1 + Rounds) }

// Tokens returns the output tokens of all that a server is asked.
func Tokens() int { return (1 + Rounds) * (1 + 1 + Output) }

// A Server is who is asked, and how.
type Server struct {
	API   *engine.API
	Model string // the name that it serves
	Chat  bool   // by chat completions
	// Salt begins each prompt, so that no prefix cache knows it from another launch.
	Salt string
	// Post puts a question: that of package ask.
	Post func(ctx context.Context, path string, body any) ([]byte, error)
	// Now is the time on a monotonic clock.
	Now func() time.Time
}

// A Print is how fast a server computes while it does nothing else.
type Print struct {
	Prefill *float64 // ms of a prompt of Words words beyond a short one; nil if it is not known
	Decode  *float64 // ms of each further output token; nil if it is not known
}

// Take asks a server, one question after another, and takes the medians over rounds. The
// end of ctx, and Limit, leave out what was not asked.
func Take(ctx context.Context, s Server) (p Print) {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	var prefill, decode []float64
	for round := range 1 + Rounds {
		short, _, err := s.ask(ctx, round, 1, 1)
		if err != nil {
			break
		}
		long, _, refused := s.ask(ctx, round, Words, 1)
		whole, tokens, err := s.ask(ctx, round, 1, Output)
		if err != nil || ctx.Err() != nil {
			break
		}
		if round == 0 {
			continue
		}
		if refused == nil { // a prompt may be longer than the server takes
			prefill = append(prefill, result.Milliseconds(long-short))
		}
		if tokens > Output/2 {
			decode = append(decode, result.Milliseconds(whole-short)/float64(tokens-1))
		}
	}
	return Print{median(prefill), median(decode)}
}

// median returns that of enough values, if it is above 0.
func median(values []float64) *float64 {
	if len(values) < Least {
		return nil
	}
	m := result.Median(values)
	if m <= 0 {
		return nil // the way to the server varies by more
	}
	return &m
}

// ask puts one question. It returns how long the answer took, and how many tokens it has.
func (s *Server) ask(ctx context.Context, round, words, output int) (took time.Duration, tokens int, err error) {
	path, body := s.question(fmt.Sprintf("%s-%d-%d-%d", s.Salt, round, words, output), words, output)
	began := s.Now()
	raw, err := s.Post(ctx, path, body)
	took = s.Now().Sub(began)
	if err != nil {
		return 0, 0, err
	}
	var got struct {
		Usage struct {
			Tokens int `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return 0, 0, fmt.Errorf("answer of %s: %w", path, err)
	}
	return took, got.Usage.Tokens, nil
}

// vocabulary are words that most tokenizers have as one token each.
var vocabulary = strings.Fields("the time that people make with some new work and then look over more than one good day in a way")

// question returns a request for so many tokens to a prompt of so many words behind a mark.
func (s *Server) question(mark string, words, output int) (path string, body map[string]any) {
	body = make(map[string]any, len(s.API.Body)+6)
	maps.Copy(body, s.API.Body)
	body["model"], body["temperature"], body["stream"] = s.Model, 0, false
	field := s.API.MaxTokensField
	if field == "" {
		field = "max_tokens"
	}
	body[field] = output
	if s.API.IgnoreEOS {
		body["ignore_eos"] = true
	}
	if s.API.MinTokens {
		body["min_tokens"] = output
	}
	text := make([]string, 0, 1+words)
	text = append(text, mark)
	for i := range words {
		text = append(text, vocabulary[i%len(vocabulary)])
	}
	prompt := strings.Join(text, " ")
	if s.Chat {
		body["messages"] = []map[string]string{{"role": "user", "content": prompt}}
		return s.API.Chat, body
	}
	body["prompt"] = prompt
	return s.API.Completions, body
}
