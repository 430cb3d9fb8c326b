package logs

import (
	"bufio"
	"errors"
	"hash/fnv"
	"io"
	"time"
)

// A rawLine is one line as the API gives it, in a buffer that the next one overwrites.
type rawLine struct {
	at   time.Time // zero if it has none: the kubelet wrote it, not the container
	text []byte    // at most MaxLine bytes
	cut  int
	hash uint64 // of all of it, its time included
	ends bool   // with the end of a line
}

// A scanner reads lines in bounded memory.
type scanner struct {
	r   *bufio.Reader
	buf []byte
}

func newScanner(r io.Reader) *scanner { return &scanner{r: bufio.NewReaderSize(r, 32<<10)} }

// longestTime is the length of a timestamp with its space, at most.
const longestTime = len(time.RFC3339Nano) + 1

// next returns the next line, or with an error what was read of it.
func (s *scanner) next() (rawLine, error) {
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
		line := rawLine{hash: hash.Sum64(), ends: err == nil}
		if line.ends {
			length--
		}
		text := s.buf[:min(len(s.buf), length)]
		line.at, text = timed(text)
		line.text = text[:min(len(text), MaxLine)]
		line.cut = length - (min(len(s.buf), length) - len(text)) - len(line.text)
		return line, err
	}
}

// timed cuts the timestamp off a line.
func timed(text []byte) (at time.Time, rest []byte) {
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
