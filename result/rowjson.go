package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"
)

// registered is the registry by name, with one text of each name for all rows.
var registered = sync.OnceValue(func() map[string]registration {
	all := map[string]registration{}
	for _, c := range Columns(Extra{}) {
		all[c.Name] = registration{c.Name, c.Type}
	}
	return all
})

type registration struct {
	name string
	typ  Type
}

// UnmarshalJSON reads what MarshalJSON wrote. A column of the registry comes
// back as its type; one that depends on the plan as the JSON says, so that a
// text stays a text.
//
// It is written by hand: a run has thousands of rows of hundreds of columns. As its callers
// do, it takes data to be valid JSON (see [json.Unmarshaler]).
func (r *Row) UnmarshalJSON(data []byte) error {
	if string(bytes.TrimSpace(data)) == "null" {
		*r = nil
		return nil
	}
	s := rowScanner{data}
	if !s.skip('{') {
		return fmt.Errorf("a row is an object, not %.20s", data)
	}
	known := registered()
	row := make(Row, bytes.Count(data, []byte{':'}))
	for !s.skip('}') {
		text := s.token()
		column, ok := known[string(text[1:len(text)-1])]
		if !ok {
			name, err := unquote(text)
			if err != nil {
				return err
			}
			column.name = name
		}
		s.skip(':')
		value, err := unmarshalValue(column.typ, s.token())
		if err != nil {
			return fmt.Errorf("column %s: %w", column.name, err)
		}
		row[column.name] = value
		s.skip(',')
	}
	*r = row
	return nil
}

// A rowScanner reads valid JSON without values in values.
type rowScanner struct{ rest []byte }

// skip skips a character, if it is the next one.
func (s *rowScanner) skip(c byte) bool {
	s.rest = bytes.TrimLeft(s.rest, " \t\r\n")
	if len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// token is the next text, number or word; of an object or an array its first character.
func (s *rowScanner) token() []byte {
	s.rest = bytes.TrimLeft(s.rest, " \t\r\n")
	n := 1
	switch {
	case s.rest[0] == '"':
		for s.rest[n] != '"' {
			if s.rest[n] == '\\' {
				n++
			}
			n++
		}
		n++
	case s.rest[0] != '{' && s.rest[0] != '[':
		if n = bytes.IndexAny(s.rest, " \t\r\n,}"); n < 0 {
			n = len(s.rest)
		}
	}
	token := s.rest[:n]
	s.rest = s.rest[n:]
	return token
}

func unquote(text []byte) (string, error) {
	if inner := text[1 : len(text)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(bytes.ToValidUTF8(inner, []byte("\uFFFD"))), nil
	}
	var s string
	err := json.Unmarshal(text, &s)
	return s, err
}

// unmarshalValue is the value of a token of JSON.
func unmarshalValue(t Type, token []byte) (any, error) {
	switch token[0] {
	case 'n':
		return nil, nil
	case 't', 'f':
		return token[0] == 't', nil
	case '"':
		text, err := unquote(token)
		switch {
		case err != nil:
			return nil, err
		case t == Timestamp:
			return time.Parse(time.RFC3339Nano, text)
		case t == Float:
			return unmarshalFloat(text)
		}
		return text, nil
	case '{', '[':
		return nil, errors.New("a row holds no values in values")
	}
	if t == Float || t != Int && bytes.ContainsAny(token, ".eE") {
		return strconv.ParseFloat(string(token), 64)
	}
	return strconv.ParseInt(string(token), 10, 64)
}

func unmarshalFloat(text string) (any, error) {
	switch text {
	case notANumber:
		return math.NaN(), nil
	case infinity:
		return math.Inf(1), nil
	case negInfinity:
		return math.Inf(-1), nil
	}
	return nil, fmt.Errorf("%q is not a number", text)
}
