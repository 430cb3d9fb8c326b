package dataset

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
)

// MaxPairs bounds the pairs of a file.
const MaxPairs = 1_000_000

// ReadPairs reads pairs of lengths from a CSV file: two columns of whole numbers,
// input and output, in this order or named so in a first line. Errors name the
// file and the line.
func ReadPairs(path string) ([]source.Pair, error) {
	f, err := input.Open(path, input.MaxData)
	if err != nil {
		return nil, fmt.Errorf("pairs: %w", err)
	}
	defer f.Close()
	t := newTable(f)
	in, out := 0, 1
	var pairs []source.Pair
	for first := true; ; first = false {
		row, err := t.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && first {
			// A name where a number is due makes it a header.
			if _, bad := strconv.Atoi(row[0]); bad != nil {
				if in, err = column(row, "input"); err == nil {
					out, err = column(row, "output")
				}
				if err == nil {
					continue
				}
			} else if len(row) != 2 {
				err = fmt.Errorf("%d fields where two are due: input and output", len(row))
			}
		}
		var x source.Pair
		if err == nil {
			x, err = pairOf(row[in], row[out])
		}
		if err == nil && len(pairs) == MaxPairs {
			err = fmt.Errorf("more than %d pairs", MaxPairs)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, t.line, err)
		}
		pairs = append(pairs, x)
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("%s: no pair in it", path)
	}
	return pairs, nil
}

func pairOf(input, output string) (x source.Pair, err error) {
	for i, text := range []string{input, output} {
		n, err := strconv.Atoi(text)
		if err != nil {
			return x, errors.New("a length is not a whole number")
		}
		*[]*int{&x.Input, &x.Output}[i] = n
	}
	return x, x.Check()
}

// readCSV reads prompts from a CSV file as RFC 4180 has it, with a header.
func readCSV(r io.Reader, add add) (line int, err error) {
	t := newTable(r)
	header, err := t.next()
	if errors.Is(err, io.EOF) {
		return 1, errors.New(`no header: a first line that names the columns "prompt" and perhaps "max_tokens"`)
	}
	if err != nil {
		return t.line, err
	}
	prompt, err := column(header, "prompt")
	if err != nil {
		return t.line, err
	}
	bound, _ := column(header, "max_tokens") // -1 if there is none
	for {
		from := t.mark + t.r.InputOffset()
		row, err := t.next()
		if errors.Is(err, io.EOF) {
			return t.line, nil
		}
		if err != nil {
			return t.line, err
		}
		// A copy, as a field holds the memory of its row.
		e := source.Entry{Prompt: load.Prompt{Turns: []string{strings.Clone(row[prompt])}, Target: result.Unknown}}
		switch {
		case row[prompt] == "":
			return t.line, errors.New("the prompt is empty")
		case len(row[prompt]) > MaxPromptBytes:
			return t.line, fmt.Errorf("prompt over %d bytes", MaxPromptBytes)
		case bound >= 0 && row[bound] != "":
			if e.MaxTokens, err = strconv.Atoi(row[bound]); err != nil || e.MaxTokens < 1 || e.MaxTokens > source.MaxOutputTokens {
				return t.line, fmt.Errorf("max_tokens is not a number between 1 and %d", source.MaxOutputTokens)
			}
		}
		if err := add(e, from, t.mark+t.r.InputOffset()); err != nil {
			return t.line, err
		}
	}
}

// A table is the records of a CSV file, all of one length.
type table struct {
	r    *csv.Reader
	each *records
	line int   // on which the last record began, or its error is
	mark int64 // bytes of the byte order mark
}

func newTable(r io.Reader) *table {
	each := &records{r: r, sep: []byte(",")}
	b := bufio.NewReader(each)
	mark := 0
	if first, _ := b.Peek(3); string(first) == "\xef\xbb\xbf" {
		mark, _ = b.Discard(3)
	}
	return &table{r: csv.NewReader(b), each: each, line: 1, mark: int64(mark)}
}

func (t *table) next() ([]string, error) {
	row, err := t.r.Read()
	t.each.next()
	if syntax, ok := errors.AsType[*csv.ParseError](err); ok {
		t.line = syntax.Line
		return nil, syntax.Err
	}
	if err != nil {
		return nil, err
	}
	t.line, _ = t.r.FieldPos(0)
	return row, nil
}

// column returns the place of a name in a header.
func column(header []string, name string) (int, error) {
	if i := slices.IndexFunc(header, func(h string) bool { return strings.TrimSpace(h) == name }); i >= 0 {
		return i, nil
	}
	return -1, fmt.Errorf("no column %q in the header", name)
}
