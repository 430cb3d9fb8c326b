// Package sse parses a stream of server-sent events as it arrives.
//
// It follows the WHATWG rules (HTML standard, "Interpreting an event stream"):
// lines end with LF, CRLF or CR, one space after the colon is dropped, data
// lines are joined by LF, a byte order mark at the start is skipped. It departs
// from them where inference servers do. An event without data is still reported if
// it has a name: they say "event: error" that way, with the reason in a comment
// beside it. A field "error" is the data of an event of that name. A line that
// begins with a brace, as a bare JSON error does, is the data of an event that has
// none yet.
//
// A [Parser] allocates nothing once its buffers have grown to the longest
// event it has seen.
package sse

import (
	"bytes"
	"errors"
)

// MaxLine bounds a line, and MaxEvent the data of an event, in bytes. A stream
// that passes either is no event stream that anybody meant to send.
const (
	MaxLine  = 1 << 20
	MaxEvent = 1 << 20
	// maxName bounds the name of an event and the comment beside it; what is
	// longer is cut.
	maxName = 1 << 10
	// keptBuffer is the size up to which a parser keeps its buffers for the next
	// stream.
	keptBuffer = 64 << 10
)

// Errors of a stream that cannot be read on.
var (
	ErrLineTooLong  = errors.New("line over 1 MiB")
	ErrEventTooLong = errors.New("event over 1 MiB")
)

// An Event is one event. Its slices are valid until the parser is used again.
type Event struct {
	Name    []byte // of the event field; empty for a plain message
	Data    []byte // data lines joined by LF
	Comment []byte // the last comment line of the event's own block
}

// A Parser cuts a byte stream into events. The zero value is ready. Each
// segment is given to Feed and then taken up by Next until that returns false:
//
//	p.Feed(segment)
//	for p.Next(&ev) { ... }
//	if err := p.Err(); err != nil { ... }
type Parser struct {
	in []byte // what was fed; the bytes before pos are done with
	// lf is the index in in of the first LF at or after pos, or len(in). It is
	// kept so that a segment of CRs is not searched for an LF once for each.
	pos, lf int

	line    []byte // the start of a line whose end has not come yet
	afterCR bool   // an LF that comes next belongs to the CR before it
	begun   bool   // the first line has been seen

	name, data, comment []byte
	dataLines           int
	handedOut           bool // the event in the buffers was returned

	err error
}

// Reset makes the parser ready for another stream. It keeps its buffers, unless
// a long event made them large.
func (p *Parser) Reset() {
	if cap(p.line)+cap(p.data) > keptBuffer {
		p.line, p.data = nil, nil
	}
	p.in, p.pos, p.lf = nil, 0, 0
	p.line, p.afterCR, p.begun, p.err = p.line[:0], false, false, nil
	p.clear()
}

// A State is what a parser has to remember of a stream between two events. The
// zero value is the start of one.
type State struct{ begun, afterCR bool }

// Between returns the state of a stream all of whose bytes so far belong to
// whole events, so that another parser can go on with it: who reads thousands of
// streams needs a parser for those alone that stand in the middle of an event.
// It is for after Next has returned false.
func (p *Parser) Between() (State, bool) {
	whole := p.err == nil && len(p.line) == 0 && p.dataLines == 0 && len(p.name) == 0 && len(p.comment) == 0
	return State{p.begun, p.afterCR}, whole
}

// Resume makes the parser ready to go on with a stream between two events. It
// keeps its buffers.
func (p *Parser) Resume(s State) {
	p.Reset()
	p.begun, p.afterCR = s.begun, s.afterCR
}

// Feed gives the parser the next segment of the stream. The segment must not change
// until Next has returned false.
func (p *Parser) Feed(segment []byte) {
	p.in, p.pos, p.lf = segment, 0, -1
}

// Next fills ev with the next event and reports whether there was one; if not,
// the segment is used up, or Err says why the stream cannot be read on.
func (p *Parser) Next(ev *Event) bool {
	if p.handedOut {
		p.clear()
	}
	for {
		line, ok := p.nextLine()
		if !ok {
			return false
		}
		if len(line) > 0 {
			p.field(line)
			continue
		}
		if p.take(ev) {
			return true
		}
		p.clear()
	}
}

// Flush fills ev with the event that the end of the stream left without its
// blank line, and reports whether there was one. The standard drops such an
// event; some servers end their streams that way.
func (p *Parser) Flush(ev *Event) bool {
	if p.err != nil {
		return false
	}
	if p.handedOut {
		p.clear()
	}
	if len(p.line) > 0 {
		p.field(p.firstLine(p.line))
		p.line = p.line[:0]
	}
	return p.err == nil && p.take(ev)
}

// Err is ErrLineTooLong or ErrEventTooLong once the stream has passed a bound.
func (p *Parser) Err() error { return p.err }

func (p *Parser) take(ev *Event) bool {
	if p.dataLines == 0 && len(p.name) == 0 {
		return false
	}
	*ev = Event{Name: p.name, Data: p.data, Comment: p.comment}
	p.handedOut = true
	return true
}

func (p *Parser) clear() {
	p.name, p.data, p.comment = p.name[:0], p.data[:0], p.comment[:0]
	p.dataLines, p.handedOut = 0, false
}

// nextLine returns the next whole line without its end.
func (p *Parser) nextLine() ([]byte, bool) {
	if p.err != nil || p.pos == len(p.in) {
		return nil, false
	}
	if p.afterCR {
		p.afterCR = false
		if p.in[p.pos] == '\n' {
			p.pos++
		}
	}
	if p.lf < p.pos {
		p.lf = len(p.in)
		if i := bytes.IndexByte(p.in[p.pos:], '\n'); i >= 0 {
			p.lf = p.pos + i
		}
	}
	rest := p.in[p.pos:p.lf]
	if i := bytes.IndexByte(rest, '\r'); i >= 0 {
		rest = rest[:i]
		p.afterCR = true
	}
	if len(p.line)+len(rest) > MaxLine {
		p.err = ErrLineTooLong
		return nil, false
	}
	if !p.afterCR && p.lf == len(p.in) {
		p.line = append(p.line, rest...)
		p.pos = len(p.in)
		return nil, false
	}
	p.pos += len(rest) + 1
	if len(p.line) > 0 {
		p.line = append(p.line, rest...)
		rest = p.line
		p.line = p.line[:0]
	}
	return p.firstLine(rest), true
}

// firstLine drops the byte order mark that may start a stream.
func (p *Parser) firstLine(line []byte) []byte {
	if !p.begun {
		p.begun = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return line
}

// field takes in one line that is not empty. The fields id and retry, and all
// that the standard does not know, mean nothing here.
func (p *Parser) field(line []byte) {
	if len(line) == 0 {
		return
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	switch {
	case line[0] == '{' && p.dataLines == 0:
		name, value = []byte("data"), line
	case string(name) == "error":
		p.name = append(p.name[:0], name...)
		name = []byte("data")
	}
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		if len(p.data)+len(value) >= MaxEvent {
			p.err = ErrEventTooLong
			return
		}
		if p.dataLines > 0 {
			p.data = append(p.data, '\n')
		}
		p.data = append(p.data, value...)
		p.dataLines++
	case "event":
		p.name = append(p.name[:0], value[:min(len(value), maxName)]...)
	case "":
		p.comment = append(p.comment[:0], value[:min(len(value), maxName)]...)
	}
}
