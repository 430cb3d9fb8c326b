package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sweep.dev/sweep/result"
)

// A chunk is what the client needs to know of one event of a stream.
type chunk struct {
	choice   bool   // it has a choice
	seen     uint64 // indices of the choices in it, one bit each
	finished uint64 // those of them that have a finish_reason
	token    bool   // content, reasoning, or the text of a tool call
	output   bool   // text that is not reasoning
	finish   string // the last finish_reason
	// text is the output where it stands for itself in the event, else nil.
	text []byte

	usage bool
	count usage

	// failure is the text of an error object; failed says that there is one.
	failed  bool
	failure string
}

// usage is what a server says it has read and written; Unknown if it does
// not.
type usage struct{ prompt, completion, cached int }

var noUsage = usage{result.Unknown, result.Unknown, result.Unknown}

var errNotObject = errors.New("not a JSON object")

// errTooMany is JSON that would take far more memory than its bytes.
var errTooMany = errors.New("more JSON values than an answer can have")

// parse reads one event. The scanner knows the chunks that servers send by the
// thousand. If it is not sure, the chunk is decoded. The two must always
// agree (see FuzzScan).
func (s *scanner) parse(data []byte) (chunk, error) {
	if c, ok := s.memo.again(data); ok {
		return c, nil
	}
	if !s.scan(data) {
		return decodeOf(data, minValues)
	}
	if len(s.c.text) > 0 && len(data) <= maxMemo {
		s.memo.keep(data, s.at, &s.c)
	}
	return s.c, nil
}

// decodeOf is decode of what has at most so many values, else errTooMany.
func decodeOf(data []byte, most int) (chunk, error) {
	if values(data) > most {
		return chunk{}, errTooMany
	}
	return decode(data)
}

// decode is the definition of what an event means.
func decode(data []byte) (chunk, error) {
	c := chunk{count: noUsage}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return c, err
	}
	if rest := bytes.Trim(data[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return c, errors.New("more than one JSON value")
	}
	top, ok := v.(map[string]any)
	if !ok {
		return c, errNotObject
	}
	if e, ok := top["error"]; ok && e != nil {
		c.failed, c.failure = true, errorText(e)
	} else if top["object"] == "error" {
		c.failed, c.failure = true, errorText(top)
	}
	choices, _ := top["choices"].([]any)
	for _, v := range choices {
		if choice, ok := v.(map[string]any); ok {
			c.addChoice(choice)
		}
	}
	if u, ok := top["usage"].(map[string]any); ok {
		c.usage = true
		c.count.prompt = tokens(u["prompt_tokens"])
		c.count.completion = tokens(u["completion_tokens"])
		if details, ok := u["prompt_tokens_details"].(map[string]any); ok {
			c.count.cached = tokens(details["cached_tokens"])
		}
	}
	return c, nil
}

func (c *chunk) addChoice(choice map[string]any) {
	c.choice = true
	bit := uint64(1) << (max(0, tokens(choice["index"])) % 64)
	c.seen |= bit
	if s, _ := choice["finish_reason"].(string); s != "" {
		c.finished |= bit
		c.finish = s
	}
	c.addText(choice["text"], true)
	// A message in place of the delta is the answer that was not streamed.
	for _, key := range []string{"delta", "message"} {
		delta, _ := choice[key].(map[string]any)
		c.addText(delta["content"], true)
		c.addText(delta["reasoning"], false)
		c.addText(delta["reasoning_content"], false)
		calls, _ := delta["tool_calls"].([]any)
		for _, v := range calls {
			call, _ := v.(map[string]any)
			function, _ := call["function"].(map[string]any)
			c.addText(function["name"], true)
			c.addText(function["arguments"], true)
		}
	}
}

func (c *chunk) addText(v any, output bool) {
	if s, _ := v.(string); s != "" {
		c.token = true
		c.output = c.output || output
	}
}

// tokens is a count as servers write them: digits, no sign, no exponent.
func tokens(v any) int {
	n, ok := v.(json.Number)
	if !ok {
		return result.Unknown
	}
	i, err := strconv.ParseUint(string(n), 10, 31)
	if err != nil {
		return result.Unknown
	}
	return int(i)
}

// errorText makes one line of the forms that errors have: an object with a
// message, perhaps a type and a code, or a bare text.
func errorText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case map[string]any:
		// {"error": ...} is looked into, also as the body of a status other
		// than 200.
		if inner, ok := v["error"]; ok && inner != nil {
			return errorText(inner)
		}
		text, _ := v["message"].(string)
		if text == "" {
			break
		}
		if kind, _ := v["type"].(string); kind != "" {
			text = kind + ": " + text
		}
		if code, ok := v["code"]; ok && code != nil {
			text = fmt.Sprintf("%s (code %v)", text, code)
		}
		return text
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// textOf is the text of an event or an answer: what a conversation goes on
// with. Reasoning and tool calls are not part of it.
func textOf(data []byte) string {
	type content struct {
		Content string `json:"content"`
	}
	var v struct {
		Choices []struct {
			Text    string  `json:"text"`
			Delta   content `json:"delta"`
			Message content `json:"message"`
		} `json:"choices"`
	}
	if json.Unmarshal(data, &v) != nil {
		return ""
	}
	var text strings.Builder
	for _, c := range v.Choices {
		text.WriteString(c.Text + c.Delta.Content + c.Message.Content)
	}
	return text.String()
}
