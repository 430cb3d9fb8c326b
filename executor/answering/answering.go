// Package answering asks a server the items of a quality set, outside of any
// measurement.
package answering

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/serving/ask"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/judge/quality"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
)

// mostInRow is how many questions in a row may get no HTTP answer before the rest is
// left out.
const mostInRow = 5

// A Server is who is asked, and how.
type Server struct {
	API   *engine.API
	Model string // the name that it serves
	// Post puts a question: that of [ask.Client].
	Post func(ctx context.Context, path string, body any) ([]byte, error)
	Mask secret.Mask // for its answers
}

// Ask asks each item twice at temperature 0: all of them, and then all again in the
// opposite order, so that each is computed beside others. The end of ctx leaves the
// remaining answers unknown; why says so in their errors.
func Ask(ctx context.Context, s Server, q *plan.Quality, set *quality.Set) []quality.Answer {
	list := make([]quality.Answer, len(set.Items))
	a := &asking{Server: s, quality: q}
	a.each(ctx, len(list), func(ctx context.Context, n int) {
		item := &set.Items[n]
		list[n] = a.first(ctx, item)
	})
	a.each(ctx, len(list), func(ctx context.Context, n int) {
		n = len(list) - 1 - n
		if list[n].Text == nil {
			return
		}
		if r, err := a.one(ctx, &set.Items[n]); err == nil {
			list[n].Again = &r.text
		}
	})
	return list
}

// asking is one set that is asked.
type asking struct {
	Server
	quality *plan.Quality
	silent  atomic.Int64 // questions in a row without an HTTP answer

	mu   sync.Mutex
	last string // why the last of them had none
}

// each calls f for 0 to n-1, several at once and in their order.
func (a *asking) each(ctx context.Context, n int, f func(context.Context, int)) {
	var g errgroup.Group
	g.SetLimit(max(1, a.quality.Concurrency))
	for i := range n {
		g.Go(func() error {
			f(ctx, i)
			return nil
		})
	}
	_ = g.Wait() // f has no error
}

// first returns the first answer to an item, scored.
func (a *asking) first(ctx context.Context, item *quality.Item) quality.Answer {
	out := quality.Answer{Item: item.Name, Match: item.Match}
	r, err := a.one(ctx, item)
	if err == nil {
		out.Text, out.Finish, out.Tokens = &r.text, r.finish, r.tokens
		out.Right = item.Score(r.whole)
		return out
	}
	out.Error = clip(a.Mask.Text(err.Error()), 500)
	if out.Refused = refused(err); out.Refused && item.Match != quality.MatchNone {
		out.Right = new(false)
	}
	return out
}

// errGivenUp is why an item is not asked.
var errGivenUp = errors.New("not asked")

// refused reports whether an error is the server's own word on the item. A body of 200 that
// is no answer of a model is none: the page of a gateway says nothing of it.
func refused(err error) bool {
	var status *ask.Status
	return errors.As(err, &status) && status.Code >= 400 && status.Code < 500 &&
		!slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests}, status.Code)
}

// A reply is one answer.
type reply struct {
	whole  string // what is scored
	text   string // what is kept
	finish string
	tokens *int
}

// one puts one item to the server.
func (a *asking) one(ctx context.Context, item *quality.Item) (reply, error) {
	switch {
	case ctx.Err() != nil:
		return reply{}, fmt.Errorf("%w: %w", errGivenUp, context.Cause(ctx))
	case a.silent.Load() >= mostInRow:
		a.mu.Lock()
		defer a.mu.Unlock()
		return reply{}, fmt.Errorf("%w: %d questions in a row got no answer, the last: %s", errGivenUp, mostInRow, a.last)
	}
	path, body := a.question(item)
	raw, err := a.Post(ctx, path, body)
	var status *ask.Status
	if err != nil && !errors.As(err, &status) {
		a.silent.Add(1)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.last = a.Mask.Text(err.Error())
		return reply{}, err
	}
	a.silent.Store(0)
	if err != nil {
		return reply{}, err
	}
	return a.read(raw)
}

// question returns the request for an item.
func (a *asking) question(item *quality.Item) (path string, body map[string]any) {
	body = make(map[string]any, len(a.API.Body)+len(a.quality.Body)+4)
	maps.Copy(body, a.API.Body)
	maps.Copy(body, a.quality.Body)
	body["model"], body["temperature"], body["stream"] = a.Model, 0, false
	field := a.API.MaxTokensField
	if field == "" {
		field = "max_tokens"
	}
	body[field] = a.quality.MaxTokens
	if a.quality.Endpoint != plan.EndpointCompletions {
		body["messages"] = item.Messages
		return a.API.Chat, body
	}
	parts := make([]string, len(item.Messages))
	for i, m := range item.Messages {
		parts[i] = m.Content
	}
	body["prompt"] = strings.Join(parts, "\n\n")
	return a.API.Completions, body
}

// read takes the answer from a response.
func (a *asking) read(raw []byte) (reply, error) {
	c, err := wire.ReadCompletion(raw)
	if err != nil {
		return reply{}, err
	}
	r := reply{whole: c.Text, text: clip(a.Mask.Text(c.Text), quality.MaxTextBytes), finish: clip(c.Finish, 40)}
	if c.Tokens != result.Unknown {
		r.tokens = &c.Tokens
	}
	return r, nil
}

// clip cuts a text to so many bytes, between characters.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}
