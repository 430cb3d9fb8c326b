package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

var errCut = errors.New("unexpected end of JSON")

// A scanner reads JSON from its front to its end, once. It takes it to be valid: of what
// is not, it tells only what it cannot go on from.
type scanner struct{ rest []byte }

func (s *scanner) space() {
	for i, c := range s.rest {
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			s.rest = s.rest[i:]
			return
		}
	}
	s.rest = nil
}

// skip skips a character, if it is the next one.
func (s *scanner) skip(c byte) bool {
	s.space()
	if len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// object reads an object: member reads the value of the member that has a name, which
// stands in quotes.
func (s *scanner) object(member func(quoted []byte) error) error {
	if !s.skip('{') {
		return s.wants("an object", s.rest)
	}
	for first := true; !s.skip('}'); first = false {
		if !first && !s.skip(',') {
			return s.wants("',' or '}'", s.rest)
		}
		quoted, err := s.token()
		if err != nil {
			return err
		}
		if quoted[0] != '"' || !s.skip(':') {
			return s.wants("a name and ':'", quoted)
		}
		if err := member(quoted); err != nil {
			return err
		}
	}
	return nil
}

// wants returns that something else stands there than what must, or nothing any more.
func (s *scanner) wants(what string, is []byte) error {
	if len(s.rest) == 0 {
		return errCut
	}
	return fmt.Errorf("want %s, not %.20s", what, is)
}

// token returns the next text, number or word; of an object or an array its first character.
func (s *scanner) token() ([]byte, error) {
	s.space()
	if len(s.rest) == 0 {
		return nil, errCut
	}
	n := 1
	switch s.rest[0] {
	case '"':
		for {
			at := bytes.IndexByte(s.rest[n:], '"')
			if at < 0 {
				return nil, errCut
			}
			n += at + 1
			if !escaped(s.rest[:n-1]) {
				break
			}
		}
	case '{', '[', '}', ']', ',', ':':
	default:
		for n < len(s.rest) && !ends(s.rest[n]) {
			n++
		}
	}
	token := s.rest[:n]
	s.rest = s.rest[n:]
	return token, nil
}

// escaped reports whether an odd number of backslashes stands at the end.
func escaped(text []byte) bool {
	n := 0
	for n < len(text) && text[len(text)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

func ends(c byte) bool {
	switch c {
	case ' ', '\n', '\t', '\r', ',', '}', ']', ':':
		return true
	}
	return false
}

// value returns the next value as it stands.
func (s *scanner) value() ([]byte, error) {
	s.space()
	from := s.rest
	for depth := 0; ; {
		token, err := s.token()
		if err != nil {
			return nil, err
		}
		switch token[0] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth <= 0 {
			return from[:len(from)-len(s.rest)], nil
		}
	}
}

// unquote returns the text of a token in quotes.
func unquote(text []byte) (string, error) {
	if inner := text[1 : len(text)-1]; bytes.IndexByte(inner, '\\') < 0 {
		if utf8.Valid(inner) {
			return string(inner), nil
		}
		return string(bytes.ToValidUTF8(inner, []byte("\uFFFD"))), nil
	}
	var s string
	err := json.Unmarshal(text, &s)
	return s, err
}
