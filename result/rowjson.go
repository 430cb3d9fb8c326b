package result

import (
	"bytes"
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
	s := scanner{data}
	return s.row(r)
}

// row reads a row, or null.
func (s *scanner) row(r *Row) error {
	if s.space(); len(s.rest) > 0 && s.rest[0] == 'n' {
		*r = nil
		_, err := s.token()
		return err
	}
	known := registered()
	row := make(Row, s.columns())
	err := s.object(func(quoted []byte) error {
		column, ok := known[string(quoted[1:len(quoted)-1])]
		if !ok {
			name, err := unquote(quoted)
			if err != nil {
				return err
			}
			column.name = name
		}
		token, err := s.token()
		if err != nil {
			return err
		}
		value, err := unmarshalValue(column.typ, token)
		if err != nil {
			return fmt.Errorf("column %s: %w", column.name, err)
		}
		row[column.name] = value
		return nil
	})
	*r = row
	return err
}

// columns returns about how many the row that comes next has.
func (s *scanner) columns() int {
	end := bytes.IndexByte(s.rest, '}')
	return bytes.Count(s.rest[:max(end, 0)], []byte{':'})
}

// unmarshalValue returns the value of a token of JSON.
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
