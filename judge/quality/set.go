package quality

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a set.
const (
	MaxItems     = 5000
	MaxFileBytes = 16 << 20
	MaxLineBytes = 1 << 20
	MaxChoices   = 8 // A to H
	maxExpected  = 32
	maxNameBytes = 100
)

// A Set is the items that every server answers.
type Set struct {
	Items  []Item
	SHA256 string // of the file, in hex
}

// An Item is one prompt, and how its answer is scored.
type Item struct {
	Name  string // its "id", else the number of its line
	Line  int
	Match Match
	// Messages end with one of the user; a prompt is one message.
	Messages []Message
	// Expected are the right answers; of choices the letter of the right one.
	Expected []string
	Choices  []string
}

// A Message is one of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// A Match is how the answer to an item is scored.
type Match string

// The kinds of Match.
const (
	MatchNone     Match = ""         // it is not: answers are only compared
	MatchExact    Match = "exact"    // it is the expected text, whatever the case and punctuation
	MatchContains Match = "contains" // it has the expected text, as whole words
	MatchNumber   Match = "number"   // its last number is the expected one
	MatchChoice   Match = "choice"   // it names the letter of the right choice
)

// Open reads a set from a file of at most [MaxFileBytes]. Errors name the file and the
// line. most bounds the number of items, which are those at the beginning; 0 is all.
func Open(path string, most int) (*Set, error) {
	return open(path, MaxFileBytes, func(r io.Reader) (*Set, int, error) { return Read(r, most) })
}

// Read reads a set: JSON lines, each an object with "prompt" or "messages", and with
// "expected" (a text or a list of them, perhaps with "match"), or with "choices" and
// "answer" (its letter, its number from 0, or its text), or with neither. An "expected" or
// "answer" that is null is not known, and the item is not scored. "id" names an
// item. Other keys are refused. On an error line is that of the item, 0 for none.
func Read(r io.Reader, most int) (set *Set, line int, err error) {
	set = &Set{}
	names := map[string]int{}
	set.SHA256, line, err = lines(r, MaxLineBytes, func(text []byte, line int) error {
		if line == 1 {
			if text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")); len(text) == 0 {
				return nil
			}
		}
		item, err := parse(text, line)
		if err != nil {
			return err
		}
		if before := names[item.Name]; before > 0 {
			return fmt.Errorf("the id %q is that of line %d too", item.Name, before)
		}
		names[item.Name] = line
		if len(set.Items) == MaxItems {
			return fmt.Errorf("more than %d items", MaxItems)
		}
		set.Items = append(set.Items, item)
		return nil
	})
	switch {
	case err != nil:
		return nil, line, err
	case len(set.Items) == 0:
		return nil, 0, errors.New("no item in it")
	}
	if most > 0 && most < len(set.Items) {
		set.Items = set.Items[:most]
	}
	return set, 0, nil
}

// record is a line of the file.
type record struct {
	ID       string          `json:"id"`
	Prompt   *string         `json:"prompt"`
	Messages []Message       `json:"messages"`
	Expected json.RawMessage `json:"expected"`
	Match    Match           `json:"match"`
	Choices  []string        `json:"choices"`
	Answer   json.RawMessage `json:"answer"`
}

func parse(text []byte, line int) (Item, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var in record
	if err := d.Decode(&in); err != nil {
		return Item{}, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Item{}, errors.New("more than one value on the line")
	}
	if len(in.ID) > maxNameBytes {
		return Item{}, fmt.Errorf("an id of over %d bytes", maxNameBytes)
	}
	unlabelled := isNull(in.Answer) && in.Choices != nil
	for _, raw := range []*json.RawMessage{&in.Expected, &in.Answer} {
		if isNull(*raw) {
			*raw = nil
		}
	}
	item := Item{Name: in.ID, Line: line, Match: in.Match, Choices: in.Choices}
	if item.Name == "" {
		item.Name = strconv.Itoa(line)
	}
	if err := item.ask(&in); err != nil {
		return Item{}, err
	}
	var err error
	switch {
	case in.Expected != nil && in.Choices != nil:
		err = errors.New(`both "expected" and "choices": an item has one of them`)
	case in.Expected != nil:
		err = item.expect(in.Expected)
	case in.Choices != nil:
		err = item.choose(in.Answer, unlabelled)
	case in.Answer != nil:
		err = errors.New(`"answer" without "choices": write "expected" for a text`)
	case in.Match != MatchNone:
		err = errors.New(`"match" without "expected"`)
	}
	return item, err
}

// ask takes the prompt or the messages.
func (i *Item) ask(in *record) error {
	switch {
	case in.Prompt != nil && in.Messages != nil:
		return errors.New(`both "prompt" and "messages": only one can be sent`)
	case in.Prompt != nil:
		i.Messages = []Message{{"user", *in.Prompt}}
	case len(in.Messages) > 0:
		i.Messages = in.Messages
	default:
		return errors.New(`neither "prompt" nor "messages"`)
	}
	for n, m := range i.Messages {
		switch {
		case !slices.Contains([]string{"system", "developer", "user", "assistant"}, m.Role):
			return fmt.Errorf("message %d has the role %q: system, developer, user or assistant", n+1, m.Role)
		case strings.TrimSpace(m.Content) == "":
			return fmt.Errorf("message %d is empty", n+1)
		}
	}
	if last := i.Messages[len(i.Messages)-1]; last.Role != "user" {
		return fmt.Errorf("the last message is of the %s: it must be the user's", last.Role)
	}
	return nil
}

// expect takes the right answers of an item without choices.
func (i *Item) expect(raw json.RawMessage) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		i.Expected = []string{one}
	} else if err := json.Unmarshal(raw, &i.Expected); err != nil {
		return errors.New(`"expected" is neither a text nor a list of texts`)
	}
	if n := len(i.Expected); n == 0 || n > maxExpected {
		return fmt.Errorf(`"expected" has %d answers: 1 to %d`, n, maxExpected)
	}
	numbers := true
	for _, e := range i.Expected {
		if normal(e) == "" {
			return fmt.Errorf("the expected answer %q has no letter and no digit", e)
		}
		_, ok := numberOf(e)
		numbers = numbers && ok
	}
	switch i.Match {
	case MatchNone:
		if i.Match = MatchContains; numbers {
			i.Match = MatchNumber
		}
	case MatchExact, MatchContains:
	case MatchNumber:
		if !numbers {
			return errors.New(`"match": "number" with an expected answer that is no number`)
		}
	default:
		return fmt.Errorf("match %q: exact, contains or number", i.Match)
	}
	return nil
}

// isNull reports whether a value is there and null.
func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// choose takes the right one of an item's choices, unless it is unlabelled, and adds them to
// its prompt.
func (i *Item) choose(answer json.RawMessage, unlabelled bool) error {
	if n := len(i.Choices); n < 2 || n > MaxChoices {
		return fmt.Errorf(`"choices" has %d entries: 2 to %d`, n, MaxChoices)
	}
	if i.Match != MatchNone {
		return errors.New(`"match" is for "expected", not for "choices"`)
	}
	if !unlabelled {
		at, err := i.right(answer)
		if err != nil {
			return err
		}
		i.Match, i.Expected = MatchChoice, []string{mark(at)}
	}
	var b strings.Builder
	last := &i.Messages[len(i.Messages)-1]
	b.WriteString(last.Content)
	for n, c := range i.Choices {
		if normal(c) == "" {
			return fmt.Errorf("choice %d has no letter and no digit", n+1)
		}
		b.WriteString("\n" + mark(n) + ". " + c)
	}
	b.WriteString("\nAnswer with the letter only.")
	i.Messages = slices.Clone(i.Messages)
	i.Messages[len(i.Messages)-1].Content = b.String()
	return nil
}

// right returns which of the choices an answer names.
func (i *Item) right(answer json.RawMessage) (int, error) {
	at := -1
	var text string
	var number int
	switch {
	case answer == nil:
		return 0, errors.New(`"choices" without "answer"`)
	case json.Unmarshal(answer, &number) == nil:
		at = number
	case json.Unmarshal(answer, &text) == nil:
		if at = slices.Index(i.Choices, text); at < 0 && len(text) == 1 {
			at = int(text[0]) - 'A'
		}
	}
	if at < 0 || at >= len(i.Choices) {
		return 0, fmt.Errorf(`"answer" %s is none of the choices: write its letter, its number from 0, or its text`, answer)
	}
	return at, nil
}

func mark(n int) string { return string(rune('A' + n)) }
