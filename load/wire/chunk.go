package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// A chunk is what the client needs to know of one event of a stream.
type chunk struct {
	choice   bool   // it has a choice
	seen     uint64 // indices of the choices in it, one bit each
	finished uint64 // those of them that have a finish_reason
	token    bool   // content, reasoning, or the text of a tool call
	output   bool   // text that is not reasoning
	finish   string // the last finish_reason
	whole    bool   // the text is a message, which may be all of the answer again
	// text is the output where it stands for itself in the event, else nil.
	text []byte

	usage bool
	count usage

	// failure is the text of an error object; failed says that there is one.
	failed  bool
	failure string
}

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

// decode returns the definition of what an event means.
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
	c.failure, c.failed = failureOf(top)
	choices, _ := top["choices"].([]any)
	for _, v := range choices {
		if choice, ok := v.(map[string]any); ok {
			c.addChoice(choice)
		}
	}
	for _, path := range usagePlaces {
		if u, ok := at(top, path).(map[string]any); ok {
			c.readUsage(u)
		}
	}
	return c, nil
}

// flatErrors are the members by which an event without choices is an error.
var flatErrors = []string{"error_type", "error_message", "error_msg", "detail"}

// failureOf returns what an event says of a failure, in any of the forms that servers have
// for it; ok is false for none, as an empty error object is.
func failureOf(top map[string]any) (text string, ok bool) {
	switch e := top["error"].(type) {
	case nil:
	case bool:
		ok = e
		delete(top, "error")
	case string:
		ok = e != ""
	case []any:
		ok = len(e) > 0
	case map[string]any:
		ok = len(e) > 0
	default:
		ok = true
	}
	if ok || top["object"] == "error" || top["type"] == "error" {
		return errorText(top), true
	}
	if _, choices := top["choices"]; choices {
		return "", false
	}
	for _, name := range flatErrors {
		if v := top[name]; v != nil && v != "" {
			return errorText(top), true
		}
	}
	return "", false
}

func (c *chunk) addChoice(choice map[string]any) {
	c.choice = true
	bit := uint64(1) << (max(0, tokens(choice["index"])) % 64)
	c.seen |= bit
	if s, _ := choice["finish_reason"].(string); s != "" {
		c.finished |= bit
		c.finish = s
	}
	if u, ok := choice[choiceUsage].(map[string]any); ok {
		c.readUsage(u)
	}
	c.addText(choice["text"], true)
	// A message in place of the delta is the answer that was not streamed. Beside it, it is
	// what has come so far.
	delta, ok := choice["delta"].(map[string]any)
	if !ok {
		delta, c.whole = choice["message"].(map[string]any)
	}
	for name, output := range textMembers {
		c.addText(delta[name], output)
	}
	calls, _ := delta["tool_calls"].([]any)
	for _, v := range calls {
		call, _ := v.(map[string]any)
		c.addCall(call["function"])
	}
	c.addCall(delta["function_call"])
}

// textMembers are the members of a delta in which models write, and whether that is output
// or reasoning.
var textMembers = map[string]bool{
	"content": true, "refusal": true,
	"reasoning": false, "reasoning_content": false, "reasoning_details": false, "thinking": false, "thinking_blocks": false,
}

// addCall takes in the call of a function.
func (c *chunk) addCall(v any) {
	function, _ := v.(map[string]any)
	c.addText(function["name"], true)
	if arguments, ok := function["arguments"].(map[string]any); ok && len(arguments) > 0 {
		c.token, c.output = true, true
		return
	}
	c.addText(function["arguments"], true)
}

// addText takes in a text, or a list of blocks with text.
func (c *chunk) addText(v any, output bool) {
	switch v := v.(type) {
	case string:
		if v != "" {
			c.token = true
			c.output = c.output || output
		}
	case []any:
		for _, block := range v {
			c.addText(block, output)
		}
	case map[string]any:
		kind, _ := v["type"].(string)
		for _, name := range blockTexts {
			c.addText(v[name], output && !isReasoning(kind) && name != "thinking")
		}
	}
}

// blockTexts are the members of a block in which its text may be.
var blockTexts = []string{"text", "thinking", "content", "refusal", "summary", "data"}

// isReasoning reports whether a kind of block is one of reasoning.
func isReasoning(kind string) bool {
	return strings.Contains(kind, "think") || strings.Contains(kind, "reason")
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
		text, kind := oneText(v, "message", "error_message", "error_msg", "msg", "detail"), oneText(v, "type", "error_type")
		if text == "" {
			break
		}
		if kind != "" && kind != "error" {
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

// oneText returns the first of some members that is a text and not empty.
func oneText(v map[string]any, names ...string) string {
	for _, name := range names {
		if text, _ := v[name].(string); text != "" {
			return text
		}
	}
	return ""
}

// textOf returns the text of an event or an answer: what a conversation goes on
// with. Reasoning and tool calls are not part of it.
func textOf(data []byte) string {
	type content struct {
		Content json.RawMessage `json:"content"`
	}
	var v struct {
		Choices []struct {
			Text    string   `json:"text"`
			Delta   *content `json:"delta"`
			Message content  `json:"message"`
		} `json:"choices"`
	}
	if json.Unmarshal(data, &v) != nil {
		return ""
	}
	var text strings.Builder
	for _, c := range v.Choices {
		text.WriteString(c.Text)
		if c.Delta != nil {
			text.WriteString(contentOf(c.Delta.Content))
		} else {
			text.WriteString(contentOf(c.Message.Content))
		}
	}
	return text.String()
}

// contentOf returns a content that is a text, or the texts of its blocks of output.
func contentOf(data json.RawMessage) string {
	var text string
	if len(data) == 0 || json.Unmarshal(data, &text) == nil {
		return text
	}
	var blocks []struct{ Type, Text string }
	if json.Unmarshal(data, &blocks) != nil {
		return ""
	}
	for _, b := range blocks {
		if !isReasoning(b.Type) {
			text += b.Text
		}
	}
	return text
}
