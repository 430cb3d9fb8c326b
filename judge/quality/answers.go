package quality

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxTextBytes bounds what is kept of one answer. Longer ones are cut, after they are
// scored.
const MaxTextBytes = 64 << 10

// maxStored bounds a line of a file of answers: two texts with their escapes.
const maxStored = 16 * MaxTextBytes

// A Source is who asked for answers.
type Source string

// The sources.
const (
	FromSweep  Source = ""        // sweep itself: each item twice
	FromLMEval Source = "lm_eval" // see [Samples]: each item once; refusals and cut answers are not known
)

// A Header says whose answers a file has.
type Header struct {
	Version    int    `json:"quality"` // 1
	Deployment string `json:"deployment"`
	Label      string `json:"label"`
	// Server are the values of the deployment's server axes. Baseline are those of the
	// deployment that it is compared with; nil for none.
	Server   map[string]string `json:"server"`
	Baseline map[string]string `json:"baseline,omitempty"`
	// Digest is of all that decides what is asked: the set and how it is sent.
	Digest string `json:"digest"`
	// Set is [Samples.Set] of answers from lm-eval, whose files are in Digest too.
	Set    string `json:"set,omitempty"`
	Source Source `json:"source,omitempty"`
	Items  int    `json:"items"`
}

// Asked returns the digest of what was asked, whoever answered: answers to the same can be
// compared, also those of two runs. It is "" if that is not known.
func (h *Header) Asked() string {
	if h.Source == FromSweep {
		return h.Digest
	}
	return h.Set
}

// An Answer is what a server answered to one item, twice.
type Answer struct {
	Item  string `json:"item"`
	Match Match  `json:"match,omitempty"`
	// Right says whether the first answer is right; nil if it is not scored, or not
	// known.
	Right *bool `json:"right"`
	// Text and Again are the first and the second answer; nil if there is none.
	Text   *string `json:"text"`
	Again  *string `json:"again"`
	Finish string  `json:"finish_reason,omitempty"` // of the first
	Tokens *int    `json:"tokens,omitempty"`        // of the first, as the server counted them
	// Refused: the server answered that it does not answer this. Otherwise a missing
	// answer is not known.
	Refused bool   `json:"refused,omitempty"`
	Error   string `json:"error,omitempty"` // why there is no first answer
}

// Whole reports whether each item has two answers, or was refused.
func Whole(list []Answer) bool {
	for i := range list {
		if a := &list[i]; !a.Refused && (a.Text == nil || a.Again == nil) {
			return false
		}
	}
	return true
}

// Answers are those of one server to a set.
type Answers struct {
	Header
	List []Answer // in the order of the set
}

// Write writes answers as JSON lines, the header first.
func (a *Answers) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	h := a.Header
	h.Version, h.Items = 1, len(a.List)
	if err := enc.Encode(h); err != nil {
		return err
	}
	for i := range a.List {
		if err := enc.Encode(a.List[i]); err != nil {
			return err
		}
	}
	return b.Flush()
}

// ReadAnswers reads what [Answers.Write] wrote.
func ReadAnswers(r io.Reader) (*Answers, error) {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), maxStored)
	a := &Answers{}
	if !s.Scan() {
		return nil, errors.Join(errors.New("no header"), s.Err())
	}
	if err := json.Unmarshal(s.Bytes(), &a.Header); err != nil || a.Version != 1 || a.Items < 0 || a.Items > MaxItems {
		return nil, errors.New("the first line is no header of version 1")
	}
	for s.Scan() {
		if len(bytes.TrimSpace(s.Bytes())) == 0 {
			continue
		}
		var one Answer
		if err := json.Unmarshal(s.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("answer %d: %w", len(a.List)+1, err)
		}
		if a.List = append(a.List, one); len(a.List) > a.Items {
			break
		}
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	if len(a.List) != a.Items {
		return nil, fmt.Errorf("%d answers, and the header says %d", len(a.List), a.Items)
	}
	return a, nil
}
