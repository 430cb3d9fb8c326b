// Package lines reads the lines of logs in bounded memory.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
)

// Max bounds a line of a log, in bytes.
const Max = 64 << 10

// A Reader reads lines. A line that is longer than its bound comes in parts.
type Reader struct {
	in   *bufio.Reader
	err  error
	part bool // the last line goes on
	// Rest says that the last line is a further part of the one before.
	Rest bool
}

// NewReader reads the lines of r, each of longest bytes at most.
func NewReader(r io.Reader, longest int) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, longest)}
}

// Next returns the next line with its end, which is valid until the next call. It is false
// after the last.
func (r *Reader) Next() ([]byte, bool) {
	if r.err != nil {
		return nil, false
	}
	line, err := r.in.ReadSlice('\n')
	r.Rest, r.part = r.part, errors.Is(err, bufio.ErrBufferFull)
	if !r.part {
		r.err = err
	}
	return line, len(line) > 0
}

// Err returns what ended the lines; nil at their end.
func (r *Reader) Err() error {
	if errors.Is(r.err, io.EOF) {
		return nil
	}
	return r.err
}

// A Watch looks for a whole line that matches in what is written to it. It is not safe for
// concurrent use.
type Watch struct {
	Pattern *regexp.Regexp
	Found   bool
	rest    []byte // of a line that is not complete
}

func (w *Watch) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			break
		}
		w.Found = w.Found || w.Pattern.Match(Uncoloured(line))
		w.rest = rest
	}
	if n := len(w.rest); n > Max {
		w.rest = w.rest[n-Max:]
	}
	return len(p), nil
}

// Uncoloured returns a line without the sequences that colour it on a terminal, which break up
// its words.
func Uncoloured(line []byte) []byte { return escapes.ReplaceAll(line, nil) }

var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[ -/]*[@-~]`)
