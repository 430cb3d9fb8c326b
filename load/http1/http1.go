// Package http1 reads HTTP/1.1 answers as their bytes arrive, in place and
// without an allocation.
//
// It knows the answers that streaming servers give: status 200, an event
// stream, chunked (with extensions and trailers), of a stated length or ended by
// the close, after any number of interim answers. All else is [ErrOdd]: the caller
// gives it to net/http, which knows every form of HTTP, from the first byte that was
// not used. net/http reads every answer that this package accepts in the same way.
package http1

import (
	"bytes"
	"errors"
	"io"
)

// Bounds of what is read here; beyond them an answer is odd.
const (
	MaxHead    = 16 << 10
	maxLine    = 256 // of a chunk's size with its extensions
	maxTrailer = 4 << 10
	maxDigits  = 15 // of a length: no sum of two can overflow
)

// The reasons why a piece of an answer was not read.
var (
	// ErrMore asks for more bytes: the unused ones are the start of something.
	ErrMore = errors.New("incomplete")
	// ErrOdd leaves the answer to net/http.
	ErrOdd = errors.New("not a plain HTTP/1.1 event stream")
	// ErrMalformed and ErrTrailer are net/http's own, by their texts.
	ErrMalformed = errors.New("malformed chunked encoding")
	ErrTrailer   = errors.New("http: unexpected EOF reading trailer")
)

// A Head is what the head of an answer says.
type Head struct {
	Body Body // of an answer that is not interim
	// Interim is an answer of 1xx: the one that counts comes after it.
	Interim bool
	// Keep says that the connection may be used again after the body.
	Keep bool
}

// ParseHead reads a head from its first byte and returns how many it has. It
// uses none of them where it returns ErrMore or ErrOdd.
func ParseHead(b []byte) (h Head, n int, err error) {
	line, n, err := cutLine(b)
	if !plausible(b) || len(b) > MaxHead && err != nil {
		return Head{}, 0, ErrOdd
	}
	if err != nil {
		return Head{}, 0, err
	}
	if h.Interim, err = status(line); err != nil {
		return Head{}, 0, err
	}
	f := fields{keep: true}
	for {
		line, used, err := cutLine(b[n:])
		switch {
		case n+used > MaxHead || err != nil && len(b) > MaxHead:
			return Head{}, 0, ErrOdd
		case err != nil:
			return Head{}, 0, err
		}
		n += used
		if len(line) == 0 {
			break
		}
		name, value, err := field(line)
		if err == nil && !h.Interim {
			err = f.add(name, value)
		}
		if err != nil {
			return Head{}, 0, err
		}
	}
	if h.Interim {
		return h, n, nil
	}
	h.Body, h.Keep, err = f.body()
	if err != nil {
		return Head{}, 0, err
	}
	return h, n, nil
}

const version = "HTTP/1.1 "

// plausible reports whether b may become an answer: what cannot is not waited for.
func plausible(b []byte) bool {
	k := min(len(b), len(version))
	return string(b[:k]) == version[:k]
}

// cutLine returns the first line without its CRLF, and its length with it.
func cutLine(b []byte) (line []byte, n int, err error) {
	i := bytes.IndexByte(b, '\n')
	switch {
	case i < 0:
		return nil, 0, ErrMore
	case i == 0 || b[i-1] != '\r':
		return nil, 0, ErrOdd // a bare LF
	}
	return b[:i-1], i + 1, nil
}

func status(line []byte) (interim bool, err error) {
	rest := line[len(version):]
	if len(rest) < 3 || len(rest) > 3 && rest[3] != ' ' || !text(rest) {
		return false, ErrOdd
	}
	switch code := string(rest[:3]); {
	case code == "200":
		return false, nil
	case code[0] == '1' && digit(code[1]) && digit(code[2]) && code != "101":
		return true, nil
	}
	return false, ErrOdd
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// field cuts a line of the head or the trailer.
func field(line []byte) (name, value []byte, err error) {
	i := bytes.IndexByte(line, ':')
	if i <= 0 || !token(line[:i]) {
		return nil, nil, ErrOdd // also a folded line
	}
	value = bytes.Trim(line[i+1:], " \t")
	if !text(value) {
		return nil, nil, ErrOdd
	}
	return line[:i], value, nil
}

func token(b []byte) bool {
	for _, c := range b {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', digit(c):
		case bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) < 0:
			return false
		}
	}
	return true
}

func text(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// fields are those of a head that matter.
type fields struct {
	media, chunked, counted bool
	keep                    bool
	length                  int64
}

func (f *fields) add(name, value []byte) error {
	switch {
	case is(name, "content-type"):
		const media = "text/event-stream"
		if f.media || len(value) < len(media) || !is(value[:len(media)], media) ||
			len(value) > len(media) && bytes.IndexByte([]byte("; \t"), value[len(media)]) < 0 {
			return ErrOdd
		}
		f.media = true
	case is(name, "transfer-encoding"):
		if f.chunked || !is(value, "chunked") {
			return ErrOdd
		}
		f.chunked = true
	case is(name, "content-length"):
		if f.counted || len(value) == 0 || len(value) > maxDigits {
			return ErrOdd
		}
		f.counted = true
		for _, c := range value {
			if !digit(c) {
				return ErrOdd
			}
			f.length = 10*f.length + int64(c-'0')
		}
	case is(name, "connection"):
		switch {
		case is(value, "close"):
			f.keep = false
		case !is(value, "keep-alive"):
			return ErrOdd
		}
	case is(name, "content-encoding"), is(name, "upgrade"), is(name, "trailer"):
		return ErrOdd
	}
	return nil
}

// is compares names, which know no case.
func is(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i := range b {
		c := b[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func (f *fields) body() (b Body, keep bool, err error) {
	switch {
	case !f.media, f.chunked && f.counted:
		return Body{}, false, ErrOdd
	case f.chunked:
		return Body{at: atSize}, f.keep, nil
	case f.counted:
		return Body{at: atCounted, left: f.length}, f.keep, nil
	}
	return Body{at: atOpen}, false, nil
}

// A Body reads what follows a head.
type Body struct {
	left int64 // content until the end of the chunk or the body
	at   place
}

// A place is what the next byte belongs to.
type place uint8

const (
	atEnd     place = iota
	atCounted       // a body of a stated length
	atOpen          // a body that ends with the connection
	atSize          // the line with a chunk's size
	atData          // a chunk's content
	atDataEnd       // the CRLF after it
	atTrailer       // what follows the last chunk
)

// Next returns the next piece of content, which is a part of b, and how many
// bytes of b it has used: further pieces may be in the rest. Without a piece the
// error says why: io.EOF is the end of the body, and what b holds beyond it is
// none of it; ErrMore asks for b's unused bytes with more after them; ErrOdd
// leaves the unused bytes to net/http, after [Body.Resume]; ErrMalformed ends it.
func (p *Body) Next(b []byte) (content []byte, n int, err error) {
	for {
		switch p.at {
		case atEnd:
			return nil, n, io.EOF
		case atOpen:
			if n == len(b) {
				return nil, n, ErrMore
			}
			return b[n:], len(b), nil
		case atCounted, atData:
			k := int(min(p.left, int64(len(b)-n)))
			p.left -= int64(k)
			content = b[n : n+k]
			n += k
			if p.left == 0 {
				p.at++
				if p.at == atOpen {
					p.at = atEnd
				}
			}
			if k > 0 {
				return content, n, nil
			}
			if p.at == atCounted || p.at == atData {
				return nil, n, ErrMore
			}
		case atDataEnd:
			if len(b)-n < 2 {
				return nil, n, ErrMore
			}
			if b[n] != '\r' || b[n+1] != '\n' {
				return nil, n, ErrMalformed
			}
			n += 2
			p.at = atSize
		case atSize:
			used, err := p.size(b[n:])
			if err != nil {
				return nil, n, err
			}
			n += used
		case atTrailer:
			used, err := trailer(b[n:])
			if err != nil {
				return nil, n, err
			}
			n += used
			p.at = atEnd
		}
	}
}

// size reads the line that begins a chunk.
func (p *Body) size(b []byte) (int, error) {
	size, i := int64(0), 0
	for ; i < len(b); i++ {
		c := b[i]
		switch {
		case digit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return p.sized(b, i, size)
		}
		if i == 12 {
			return 0, ErrOdd
		}
		size = size<<4 | int64(c)
	}
	return 0, ErrMore
}

// sized reads the rest of the line, from behind the digits.
func (p *Body) sized(b []byte, i int, size int64) (int, error) {
	if i == 0 || b[i] != '\r' && b[i] != ';' {
		return 0, ErrOdd
	}
	line, n, err := cutLine(b[:min(len(b), maxLine)])
	switch {
	case err != nil && len(b) >= maxLine:
		return 0, ErrOdd
	case err != nil:
		return 0, err
	// net/http gives up on a body with much more overhead than content; up to
	// here it does not count any.
	case int64(len(line)) > 14+2*size, bytes.IndexByte(line, '\r') >= 0:
		return 0, ErrOdd
	}
	p.left, p.at = size, atData
	if size == 0 {
		p.at = atTrailer
	}
	return n, nil
}

// trailer reads the fields after the last chunk, of which none matters.
func trailer(b []byte) (n int, err error) {
	for {
		line, used, err := cutLine(b[n:])
		switch {
		case n+used > maxTrailer || err != nil && len(b) > maxTrailer:
			return 0, ErrOdd
		case err != nil:
			return 0, err
		}
		n += used
		if len(line) == 0 {
			return n, nil
		}
		if _, _, err := field(line); err != nil {
			return 0, err
		}
	}
}

// Resume returns the text to put before the bytes that an odd body left, so that they
// are a complete answer.
func (p *Body) Resume() string {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	if p.at == atTrailer {
		return head + "0\r\n"
	}
	return head
}

// EOF returns the error for the end of the connection at this point: io.EOF, or an
// error of net/http's.
func (p *Body) EOF() error {
	switch p.at {
	case atEnd, atOpen:
		return io.EOF
	case atTrailer:
		return ErrTrailer
	}
	return io.ErrUnexpectedEOF
}
