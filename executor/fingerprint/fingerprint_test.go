package fingerprint

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/engine"
)

// A card is a server on a clock of its own: a way of 100 ms, 0.05 ms a word, and so many ms a
// token.
type card struct {
	now     time.Time
	token   time.Duration
	longest int // words
	ends    int // tokens at most
	asked   int
	output  int // tokens that were asked for
	prompts map[string]bool
	slow    int // the question that takes 5 s more
}

func (c *card) post(ctx context.Context, _ string, body any) ([]byte, error) {
	b := body.(map[string]any)
	text, output := b["prompt"].(string), b["max_tokens"].(int)
	if c.prompts[text] {
		return nil, errors.New("a prefix cache knows it")
	}
	c.prompts[text] = true
	c.asked++
	c.output += output
	words := len(strings.Fields(text))
	if c.longest > 0 && words > c.longest {
		return nil, errors.New("too long")
	}
	if c.ends > 0 {
		output = min(output, c.ends)
	}
	took := 100*time.Millisecond + time.Duration(words)*50*time.Microsecond + time.Duration(output)*c.token
	if c.asked == c.slow {
		took += 5 * time.Second
	}
	c.now = c.now.Add(took)
	return fmt.Appendf(nil, `{"usage": {"completion_tokens": %d}}`, output), ctx.Err()
}

func (c *card) take(ctx context.Context) Print {
	c.prompts = map[string]bool{}
	return Take(ctx, Server{
		API: &engine.API{Completions: "/v1/completions", IgnoreEOS: true}, Model: "m", Salt: "abc", Post: c.post,
		Now: func() time.Time { return c.now },
	})
}

// The way to a server and one slow answer are not in its fingerprint, and what it refuses is
// not known.
func TestTake(t *testing.T) {
	t.Parallel()
	const prefill, decode = 49.95, 10 // (1000 - 1) x 0.05 ms, and 10 ms a token
	for _, c := range []struct {
		name            string
		card            card
		prefill, decode float64 // 0: not known
	}{
		{"all", card{token: 10 * time.Millisecond}, prefill, decode},
		{"one slow", card{token: 10 * time.Millisecond, slow: 8}, prefill, decode},
		{"a short context", card{token: 10 * time.Millisecond, longest: 500}, 0, decode},
		{"answers end early", card{token: 10 * time.Millisecond, ends: 3}, prefill, 0},
		{"no time", card{}, prefill, 0},
	} {
		got := c.card.take(t.Context())
		if !near(got.Prefill, c.prefill) || !near(got.Decode, c.decode) {
			t.Errorf("%s: prefill %v, decode %v", c.name, text(got.Prefill), text(got.Decode))
		}
		if c.card.asked != Asked() {
			t.Errorf("%s: asked %d times, said %d", c.name, c.card.asked, Asked())
		}
		if c.card.output != Tokens() {
			t.Errorf("%s: asked for %d tokens, said %d", c.name, c.card.output, Tokens())
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c := card{token: time.Millisecond}
	if got := c.take(ended); got.Prefill != nil || got.Decode != nil || c.asked > 1 {
		t.Errorf("a run that has ended: %+v, asked %d times", got, c.asked)
	}
}

func near(got *float64, want float64) bool {
	if got == nil {
		return want == 0
	}
	return math.Abs(*got-want) < 1e-6
}

func text(v *float64) string {
	if v == nil {
		return "not known"
	}
	return fmt.Sprint(*v)
}
