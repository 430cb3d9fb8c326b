package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/load/source"
)

// MaxHeld bounds the memory of the entries of a file, in bytes.
const MaxHeld = 32 << 20

// A large file is one whose entries are not all in memory.
type large struct {
	file  *input.File
	kind  string
	first int64 // where the first entry is
	rest  []record
}

// A record is where an entry is in its file.
type record struct {
	from int64
	size int32
}

func readPrompts(path, kind string, held int) (entries []source.Entry, rest *source.Rest, err error) {
	f, err := input.Open(path, input.MaxData)
	if err != nil {
		return nil, nil, fmt.Errorf("prompts: %w", err)
	}
	defer func() {
		if rest == nil {
			_ = f.Close()
		}
	}()
	l := &large{file: f, kind: kind}
	var questions []int32
	line, err := read(kind, f, func(e source.Entry, from, to int64) error {
		held -= 128 + int(to-from) // without its texts, and about these
		switch {
		case len(entries)+len(questions) == MaxPrompts:
			return fmt.Errorf("more than %d prompts", MaxPrompts)
		case len(entries) == 0:
			l.first, entries = from, append(entries, e)
		case held >= 0:
			entries = append(entries, e)
		default:
			l.rest, questions = append(l.rest, record{from, int32(to - from)}), append(questions, int32(len(e.Questions())))
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("%s:%d: %w", path, line, err)
	case len(entries) == 0:
		return nil, nil, fmt.Errorf("%s: no prompt in it", path)
	case len(questions) > 0:
		rest = &source.Rest{Questions: questions, Read: l.entry}
	}
	return entries, rest, nil
}

var errFound = errors.New("found")

// entry reads an entry of the rest, in a file of its kind that has no other.
func (l *large) entry(i int) (e source.Entry, err error) {
	head := io.Reader(strings.NewReader(""))
	switch l.kind {
	case "csv":
		head = io.NewSectionReader(l.file, 0, l.first)
	case "sharegpt":
		head = strings.NewReader("[")
	}
	record := io.NewSectionReader(l.file, l.rest[i].from, int64(l.rest[i].size))
	_, err = read(l.kind, io.MultiReader(head, record), func(found source.Entry, _, _ int64) error {
		e = found
		return errFound
	})
	if !errors.Is(err, errFound) {
		return e, fmt.Errorf("prompts: %w", cmp.Or(err, input.ErrChanged))
	}
	return e, nil
}
