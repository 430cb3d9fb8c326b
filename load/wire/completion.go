package wire

import (
	"errors"
	"fmt"

	"sweep.dev/sweep/result"
)

// A Completion is an answer of one choice that was not streamed.
type Completion struct {
	Text   string // output alone; "" for only reasoning or the call of a tool
	Finish string
	Tokens int // as the server counted them, [result.Unknown] if it did not
}

// ReadCompletion reads the body of an answer of 200. What is no answer of a model is an
// error that quotes it: the page of a gateway, JSON that is cut off, an error, no choice.
func ReadCompletion(body []byte) (Completion, error) {
	c, err := decodeOf(body, minValues)
	switch {
	case errors.Is(err, errTooMany):
		return Completion{}, fmt.Errorf("the answer has %w", err)
	case err != nil:
		return Completion{}, fmt.Errorf("the answer is not JSON: %w: %.80q", err, body)
	case c.failed:
		return Completion{}, fmt.Errorf("the answer is an error: %s", Clip(c.failure))
	case !c.whole && !c.token && c.finish == "":
		return Completion{}, fmt.Errorf("the answer has no choice with a text: %.80q", body)
	}
	out := Completion{Text: textOf(body), Finish: c.finish, Tokens: result.Unknown}
	if c.usage {
		out.Tokens = c.count.completion
	}
	return out, nil
}
