// Package dataset reads prompts and conversations (JSONL, ShareGPT, CSV), and pairs of
// input and output lengths (CSV) from files. Errors name the file and the line; the
// size of everything is bounded.
package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
)

// Limits of a prompt file.
const (
	MaxPromptBytes = 4 << 20 // a line, a conversation
	MaxPrompts     = 1_000_000
)

// ReadPrompts reads a prompt file of the given kind. Errors name the file and
// the line.
//
// "jsonl" has an object on each line, with "prompt" (a text) or "messages" (a
// conversation as chat completions take it: a system message or none, then user
// and assistant by turns, the user's last), and perhaps "max_tokens", which
// bounds the answer to this prompt below what the plan asks for. Other keys and
// empty lines are passed over.
//
// "sharegpt" is one array of objects with "conversations". The first human turn
// of each is the prompt, with the system message before it, and all of it is the
// conversation; those that do not begin with a human are passed over.
//
// "csv" has a header and in it the column "prompt" and perhaps "max_tokens", as
// RFC 4180 has it: a prompt in quotes may have several lines.
//
// Entries over MaxHeld bytes in all stay in the file, from which rest reads them; it is
// nil if there are none.
func ReadPrompts(path, kind string) (entries []source.Entry, rest *source.Rest, err error) {
	return readPrompts(path, kind, MaxHeld)
}

// An add takes an entry, and the bytes of the file between which it is.
type add func(e source.Entry, from, to int64) error

// read reads a file of the kind; line is that of an error.
func read(kind string, r io.Reader, add add) (line int, err error) {
	switch kind {
	case "jsonl":
		return readJSONL(r, add)
	case "sharegpt":
		return readShareGPT(r, add)
	case "csv":
		return readCSV(r, add)
	}
	return 1, fmt.Errorf("kind %q is not known: jsonl, sharegpt or csv", kind)
}

func readJSONL(r io.Reader, add add) (line int, err error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, MaxPromptBytes)
	var from, to int64
	s.Split(func(data []byte, end bool) (int, []byte, error) {
		n, text, err := bufio.ScanLines(data, end)
		from, to = to, to+int64(n)
		return n, text, err
	})
	for s.Scan() {
		line++
		text := bytes.TrimSpace(s.Bytes())
		if line == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		if len(text) == 0 {
			continue
		}
		e, err := jsonlEntry(text)
		if err == nil {
			err = add(e, from, to)
		}
		if err != nil {
			return line, err
		}
	}
	if err := s.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("line over %d bytes", MaxPromptBytes)
		}
		return line + 1, err
	}
	return line, nil
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func jsonlEntry(text []byte) (source.Entry, error) {
	var in struct {
		Prompt    *string   `json:"prompt"`
		Messages  []message `json:"messages"`
		MaxTokens *int      `json:"max_tokens"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return source.Entry{}, input.JSON(err)
	}
	e := source.Entry{Prompt: load.Prompt{Target: result.Unknown}}
	switch {
	case in.Prompt != nil && in.Messages != nil:
		return source.Entry{}, errors.New(`both "prompt" and "messages": only one can be sent`)
	case in.Prompt != nil:
		if *in.Prompt == "" {
			return source.Entry{}, errors.New("the prompt is empty")
		}
		e.Prompt.Turns = []string{*in.Prompt}
	case len(in.Messages) > 0:
		if err := setMessages(&e.Prompt, in.Messages); err != nil {
			return source.Entry{}, err
		}
	default:
		return source.Entry{}, errors.New(`neither "prompt" nor "messages"`)
	}
	if m := in.MaxTokens; m != nil {
		if *m < 1 || *m > source.MaxOutputTokens {
			return source.Entry{}, fmt.Errorf("max_tokens %d is not between 1 and %d", *m, source.MaxOutputTokens)
		}
		e.MaxTokens = *m
	}
	return e, nil
}

// roles are those of OpenAI's API.
var roles = []string{"system", "developer", "user", "assistant", "tool", "function"}

func setMessages(p *load.Prompt, messages []message) error {
	if messages[0].Role == "system" || messages[0].Role == "developer" {
		p.System = messages[0].Content
		messages = messages[1:]
	}
	for i, m := range messages {
		want := "user"
		if i%2 == 1 {
			want = "assistant"
		}
		if m.Role != want {
			role := "another role" // an error quotes nothing of a file but what is known
			if slices.Contains(roles, m.Role) {
				role = "the role " + m.Role
			}
			return fmt.Errorf("message %d has %s, want %s: after a system message, user and assistant take turns; others are not sent", i+1, role, want)
		}
		if m.Content == "" {
			return fmt.Errorf("message %d has no content", i+1)
		}
		p.Turns = append(p.Turns, m.Content)
	}
	if len(p.Turns)%2 == 0 {
		return errors.New("the last message is not the user's")
	}
	return nil
}

type shareTurn struct {
	From  string `json:"from"`
	Value string `json:"value"`
}

// conversation returns what human and model said by turns, up to the last question;
// what follows a turn that is empty or out of turn is left out.
func conversation(turns []shareTurn) []string {
	var said []string
	for i, t := range turns {
		human := t.From == "human" || t.From == "user"
		if human != (i%2 == 0) || strings.TrimSpace(t.Value) == "" {
			break
		}
		said = append(said, t.Value)
	}
	if len(said)%2 == 0 && len(said) > 0 {
		said = said[:len(said)-1]
	}
	return said
}

func readShareGPT(r io.Reader, add add) (line int, err error) {
	each := &records{r: r, sep: []byte("{")}
	lines := &lineReader{r: each, line: 1}
	d := json.NewDecoder(lines)
	// fail places an error at what the decoder has read; an error of the
	// syntax says its own place.
	fail := func(err error) (int, error) {
		at := d.InputOffset()
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = max(at, syntax.Offset)
		}
		return lines.at(at), input.JSON(err)
	}
	t, err := d.Token()
	if err != nil {
		return fail(err)
	}
	if t != json.Delim('[') {
		return fail(errors.New("not an array of conversations"))
	}
	for n := int64(0); d.More(); n++ {
		from := d.InputOffset() + min(n, 1) // behind the comma
		var in struct {
			Conversations []shareTurn `json:"conversations"`
		}
		if err := d.Decode(&in); err != nil {
			return fail(err)
		}
		each.next()
		at := lines.at(d.InputOffset())
		e := source.Entry{Prompt: load.Prompt{Target: result.Unknown}}
		turns := in.Conversations
		if len(turns) > 0 && turns[0].From == "system" {
			e.Prompt.System = turns[0].Value
			turns = turns[1:]
		}
		said := conversation(turns)
		if len(said) == 0 {
			continue
		}
		if size := len(strings.Join(said, "")); size > MaxPromptBytes {
			return at, fmt.Errorf("conversation over %d bytes", MaxPromptBytes)
		}
		e.Prompt.Turns = said[:1:1]
		if len(said) > 1 {
			e.Turns = said
		}
		if err := add(e, from, d.InputOffset()); err != nil {
			return at, err
		}
	}
	if _, err := d.Token(); err != nil {
		return fail(err)
	}
	return lines.line, nil
}

// A lineReader keeps where its lines end, so that an offset can be given a
// line. Offsets are asked for in rising order.
type lineReader struct {
	r    io.Reader
	off  int64
	line int     // of the last offset that was asked for
	ends []int64 // of the lines after that
}

func (l *lineReader) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	for i, c := range b[:n] {
		if c == '\n' {
			l.ends = append(l.ends, l.off+int64(i))
		}
	}
	l.off += int64(n)
	return n, err
}

func (l *lineReader) at(off int64) int {
	n := 0
	for n < len(l.ends) && l.ends[n] < off {
		n++
	}
	l.line += n
	l.ends = append(l.ends[:0], l.ends[n:]...)
	return l.line
}
