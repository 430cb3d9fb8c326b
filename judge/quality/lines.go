package quality

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"sweep.dev/sweep/internal/input"
)

// open reads a file of at most so many bytes. Errors name the file, and the line that read
// says, 0 for none.
func open[T any](path string, most int64, read func(io.Reader) (*T, int, error)) (*T, error) {
	f, err := input.Open(path, most)
	if err != nil {
		return nil, fmt.Errorf("quality: %w", err)
	}
	defer f.Close()
	got, line, err := read(f)
	switch {
	case err != nil && line > 0:
		return nil, fmt.Errorf("%s:%d: %w", path, line, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return got, nil
}

// lines calls take with each line of at most so many bytes that is not empty, and returns the
// SHA-256 of all. On an error line is where it is.
func lines(r io.Reader, most int, take func(text []byte, line int) error) (digest string, line int, err error) {
	sum := sha256.New()
	s := bufio.NewScanner(io.TeeReader(r, sum))
	s.Buffer(make([]byte, 0, 64<<10), most)
	for s.Scan() {
		line++
		text := bytes.TrimSpace(s.Bytes())
		if len(text) == 0 {
			continue
		}
		if err := take(text, line); err != nil {
			return "", line, err
		}
	}
	switch err := s.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return "", line + 1, fmt.Errorf("line over %d bytes", most)
	case err != nil:
		return "", line + 1, err
	}
	return hex.EncodeToString(sum.Sum(nil)), 0, nil
}
