// Package kubelog reads the log of a container as the API of a cluster gives it, with the
// time of each line, and knows which lines were read before: a log that is followed breaks
// off, and lines come again when it is read on.
package kubelog

import (
	"bufio"
	"errors"
	"hash/fnv"
	"io"
	"time"
)

// MaxLine is how much of a line is kept, in bytes.
const MaxLine = 64 << 10

// A Line is one line as the API gives it, in a buffer that the next one overwrites.
type Line struct {
	At   time.Time // zero if it has none: the kubelet wrote it, not the container
	Text []byte    // at most MaxLine bytes
	Cut  int       // bytes that are not kept
	Hash uint64    // of all of it, its time included
	Ends bool      // with the end of a line
}

// A Scanner reads lines in bounded memory.
type Scanner struct {
	r   *bufio.Reader
	buf []byte
}

// NewScanner reads the lines of r.
func NewScanner(r io.Reader) *Scanner { return &Scanner{r: bufio.NewReaderSize(r, 32<<10)} }

// longestTime is the length of a timestamp with its space, at most.
const longestTime = len(time.RFC3339Nano) + 1

// Next returns the next line, or with an error what was read of it.
func (s *Scanner) Next() (Line, error) {
	hash := fnv.New64a()
	s.buf = s.buf[:0]
	length := 0
	for {
		piece, err := s.r.ReadSlice('\n')
		_, _ = hash.Write(piece)
		length += len(piece)
		if room := longestTime + MaxLine - len(s.buf); room > 0 {
			s.buf = append(s.buf, piece[:min(room, len(piece))]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		line := Line{Hash: hash.Sum64(), Ends: err == nil}
		if line.Ends {
			length--
		}
		text := s.buf[:min(len(s.buf), length)]
		line.At, text = Timed(text)
		line.Text = text[:min(len(text), MaxLine)]
		line.Cut = length - (min(len(s.buf), length) - len(text)) - len(line.Text)
		return line, err
	}
}

// Timed cuts the timestamp off a line.
func Timed(text []byte) (at time.Time, rest []byte) {
	for i := range text[:min(len(text), longestTime)] {
		if text[i] != ' ' {
			continue
		}
		if at, err := time.Parse(time.RFC3339Nano, string(text[:i])); err == nil {
			return at, text[i+1:]
		}
		break
	}
	// An empty line may have lost its space.
	if at, err := time.Parse(time.RFC3339Nano, string(text)); err == nil {
		return at, nil
	}
	return time.Time{}, text
}
