// Package trace reads recorded arrivals of requests, to be sent again.
package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/internal/input"
)

// Bounds of a trace. A row without blocks takes 40 bytes.
const (
	MaxRows   = 5_000_000
	MaxBlocks = 50_000_000 // of all rows together, 4 bytes each
	maxLine   = 1 << 20    // bytes
	maxInput  = 4_000_000  // tokens of a row
	maxOutput = 1_000_000
)

// BlockTokens is the length of a block of text that requests share.
const BlockTokens = 512

// Format is how a trace is written.
type Format string

// The formats.
const (
	// Timestamps is a time on each line, or CSV with a header or JSON lines
	// with a field "timestamp". A time is a number of seconds, or a date and a
	// time of day.
	Timestamps Format = "timestamps"
	// Mooncake is that of github.com/kvcache-ai/Mooncake: JSON lines with
	// "timestamp" in milliseconds, "input_length", "output_length" and
	// "hash_ids", which names the input's blocks of 512 tokens, the last of
	// which may be shorter.
	Mooncake Format = "mooncake"
	// Azure is that of github.com/Azure/AzurePublicDataset's LLM inference
	// traces of 2023 and 2024: CSV with TIMESTAMP, a date and a time of day,
	// ContextTokens and GeneratedTokens.
	Azure Format = "azure"
	// BurstGPT is that of github.com/HPMLL/BurstGPT: CSV with Timestamp in
	// seconds, Request tokens, Response tokens and other columns.
	BurstGPT Format = "burstgpt"
)

// Lengths reports whether the format has the lengths of inputs and outputs.
func (f Format) Lengths() bool { return f != Timestamps }

// A Row is one request.
type Row struct {
	At time.Duration // since the first
	// Input and Output are tokens; 0 if the format has none.
	Input, Output int32
	// Blocks names the blocks that the input begins with, each of BlockTokens
	// but the last, which may be shorter. Rows with equal names share the text.
	// They are numbered in the order in which they first appear.
	Blocks []uint32
}

// A Trace is what was read. Rows are in the order of At; those of one time are
// in the order of the file.
type Trace struct {
	Rows []Row
	// Skipped counts the rows without any input or output tokens, which is how
	// failed requests were recorded: there is nothing to send for them.
	Skipped int
}

// Read reads the first limit rows of the trace at path, all where limit is 0.
// Errors name the file and the line.
func Read(path string, f Format, limit int) (*Trace, error) {
	file, err := input.Open(path, input.MaxData)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer file.Close()
	t, line, err := read(file, f, limit)
	switch {
	case err != nil && line == 0:
		return nil, fmt.Errorf("trace: %w", err)
	case err != nil:
		return nil, fmt.Errorf("%s:%d: %w", path, line, err)
	case len(t.Rows) == 0 && t.Skipped > 0:
		return nil, fmt.Errorf("%s: none of its %d requests has both input and output tokens", path, t.Skipped)
	case len(t.Rows) == 0:
		return nil, fmt.Errorf("%s: no request in it", path)
	}
	return t, nil
}

// A parser makes a row of a line. It returns false for a line without one, as a
// header is.
type parser interface {
	row(line []byte) (Row, bool, error)
}

func read(r io.Reader, f Format, limit int) (*Trace, int, error) {
	p, err := f.parser()
	if err != nil {
		return nil, 0, err
	}
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), maxLine)
	t := &Trace{}
	line, blocks := 0, 0
	for (limit <= 0 || len(t.Rows) < limit) && s.Scan() {
		line++
		text := s.Bytes()
		if line == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		text = bytes.TrimSpace(text)
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		row, ok, err := p.row(text)
		if err == nil {
			err = row.check()
		}
		blocks += len(row.Blocks)
		switch {
		case err != nil:
			return nil, line, err
		case !ok:
			continue
		case f.Lengths() && (row.Input == 0 || row.Output == 0):
			t.Skipped++
			continue
		case len(t.Rows) == MaxRows:
			return nil, line, fmt.Errorf("more than %d requests: set a limit", MaxRows)
		case blocks > MaxBlocks:
			return nil, line, fmt.Errorf("more than %d blocks: set a limit", MaxBlocks)
		}
		t.Rows = append(t.Rows, row)
	}
	if err := s.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("line over %d bytes", maxLine)
		}
		return nil, line + 1, err
	}
	slices.SortStableFunc(t.Rows, func(a, b Row) int { return cmp.Compare(a.At, b.At) })
	if len(t.Rows) > 0 {
		first := t.Rows[0].At
		for i := range t.Rows {
			t.Rows[i].At -= first
		}
	}
	return t, line, nil
}

func (r *Row) check() error {
	switch {
	case r.Input < 0 || r.Input > maxInput:
		return fmt.Errorf("an input of %d tokens is not between 0 and %d", r.Input, maxInput)
	case r.Output < 0 || r.Output > maxOutput:
		return fmt.Errorf("an output of %d tokens is not between 0 and %d", r.Output, maxOutput)
	case len(r.Blocks) > (int(r.Input)+BlockTokens-1)/BlockTokens:
		return fmt.Errorf("%d blocks of %d tokens do not fit an input of %d", len(r.Blocks), BlockTokens, r.Input)
	}
	return nil
}

func (f Format) parser() (parser, error) {
	switch f {
	case Timestamps:
		return &timestamps{}, nil
	case Mooncake:
		return &mooncake{ids: map[int64]uint32{}}, nil
	case Azure:
		return &table{columns: []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}, time: wallClock}, nil
	case BurstGPT:
		return &table{columns: []string{"Timestamp", "Request tokens", "Response tokens"}, time: seconds}, nil
	}
	return nil, fmt.Errorf("format %q is not known: timestamps, mooncake, azure or burstgpt", f)
}

// timestamps finds out by its first line how the file is written.
type timestamps struct{ inner parser }

func (p *timestamps) row(line []byte) (Row, bool, error) {
	if p.inner == nil {
		_, err := anyTime(string(line))
		switch {
		case line[0] == '{':
			p.inner = jsonTimes{}
		case err == nil:
			p.inner = plainTimes{}
		default:
			p.inner = &table{columns: []string{"timestamp"}, time: anyTime}
		}
	}
	return p.inner.row(line)
}

type plainTimes struct{}

func (plainTimes) row(line []byte) (Row, bool, error) {
	at, err := anyTime(string(line))
	return Row{At: at}, true, err
}

type jsonTimes struct{}

func (jsonTimes) row(line []byte) (Row, bool, error) {
	var in struct {
		Timestamp json.RawMessage `json:"timestamp"`
	}
	if err := json.Unmarshal(line, &in); err != nil {
		return Row{}, false, input.JSON(err)
	}
	if in.Timestamp == nil {
		return Row{}, false, errors.New(`no "timestamp"`)
	}
	at, err := anyTime(strings.Trim(string(in.Timestamp), `"`))
	return Row{At: at}, true, err
}

type mooncake struct{ ids map[int64]uint32 }

func (p *mooncake) row(line []byte) (Row, bool, error) {
	var in struct {
		Timestamp    *json.Number `json:"timestamp"`
		InputLength  *int32       `json:"input_length"`
		OutputLength *int32       `json:"output_length"`
		HashIDs      []int64      `json:"hash_ids"`
		SessionID    any          `json:"session_id"`
		Delay        any          `json:"delay"`
	}
	if err := json.Unmarshal(line, &in); err != nil {
		return Row{}, false, input.JSON(err)
	}
	switch {
	case in.SessionID != nil || in.Delay != nil:
		return Row{}, false, errors.New(`"session_id" or "delay": sessions are not replayed, and without them this is another load; leave both keys out to send each request at its timestamp`)
	case in.Timestamp == nil:
		return Row{}, false, errors.New(`no "timestamp"`)
	case in.InputLength == nil:
		return Row{}, false, errors.New(`no "input_length"`)
	case in.OutputLength == nil:
		return Row{}, false, errors.New(`no "output_length"`)
	}
	at, err := decimal(in.Timestamp.String(), time.Millisecond)
	row := Row{At: at, Input: *in.InputLength, Output: *in.OutputLength}
	if len(in.HashIDs) > 0 {
		row.Blocks = make([]uint32, len(in.HashIDs))
	}
	for i, id := range in.HashIDs {
		n, ok := p.ids[id]
		if !ok {
			n = uint32(len(p.ids))
			p.ids[id] = n
		}
		row.Blocks[i] = n
	}
	return row, true, err
}

// A table is CSV with a header: the columns of the time, the input and the
// output, the last two or none.
type table struct {
	columns []string
	time    func(string) (time.Duration, error)

	at     []int // of the columns; nil before the header
	fields int
}

func (p *table) row(line []byte) (Row, bool, error) {
	fields, err := split(string(line))
	if err != nil {
		return Row{}, false, err
	}
	if p.at == nil {
		return Row{}, false, p.header(fields)
	}
	if len(fields) != p.fields {
		return Row{}, false, fmt.Errorf("%d columns where the header has %d", len(fields), p.fields)
	}
	var row Row
	if row.At, err = p.time(fields[p.at[0]]); err != nil {
		return Row{}, false, err
	}
	if len(p.at) > 1 {
		row.Input, err = tokens(fields[p.at[1]])
		if err == nil {
			row.Output, err = tokens(fields[p.at[2]])
		}
	}
	return row, true, err
}

func (p *table) header(fields []string) error {
	for _, want := range p.columns {
		i := slices.IndexFunc(fields, func(f string) bool { return strings.EqualFold(f, want) })
		if i < 0 {
			return fmt.Errorf("no column %q in the header", want)
		}
		p.at = append(p.at, i)
	}
	p.fields = len(fields)
	return nil
}

// split takes a line of CSV apart. No field goes over a line.
func split(line string) ([]string, error) {
	fields := strings.Split(line, ",")
	if strings.Contains(line, `"`) {
		var err error
		if fields, err = csv.NewReader(strings.NewReader(line)).Read(); err != nil {
			return nil, errors.New("not a line of CSV: a quote is not closed or is in the middle of a field")
		}
	}
	for i, f := range fields {
		fields[i] = strings.TrimSpace(f)
	}
	return fields, nil
}

// tokens reads a count; some tools write whole numbers as 906.0.
func tokens(s string) (int32, error) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n != math.Trunc(n) || math.Abs(n) > math.MaxInt32 {
		return 0, errors.New("a field is not a number of tokens")
	}
	return int32(n), nil
}

func anyTime(s string) (time.Duration, error) {
	if at, err := seconds(s); err == nil {
		return at, nil
	}
	at, err := wallClock(s)
	if err != nil {
		return 0, errors.New("the time is neither a number of seconds nor a date and a time")
	}
	return at, nil
}

func seconds(s string) (time.Duration, error) { return decimal(s, time.Second) }

// decimal reads a number of units without losing digits, which matters for
// seconds that are counted from 1970. There are no times below 0.
func decimal(s string, unit time.Duration) (time.Duration, error) {
	if s != "" && strings.Trim(s, ".0123456789") == "" {
		if d, err := time.ParseDuration(s + strings.TrimPrefix(unit.String(), "1")); err == nil {
			return d, nil
		}
	} else if f, err := strconv.ParseFloat(s, 64); err == nil {
		if f *= float64(unit); f >= 0 && f < math.MaxInt64/2 {
			return time.Duration(math.Round(f)), nil
		}
	}
	return 0, fmt.Errorf("the time is not a number of %s", map[time.Duration]string{time.Second: "seconds", time.Millisecond: "milliseconds"}[unit])
}

// wallClock reads a date and a time of day, with a fraction of the second or
// without and in UTC unless it says its zone.
func wallClock(s string) (time.Duration, error) {
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil && t.Year() >= 1970 && t.Year() < 2200 {
			return time.Duration(t.UnixNano()), nil
		}
	}
	return 0, errors.New("the time is not a date and a time")
}
