// Package crcline is a line of a file that is appended to: a JSON object with its
// checksum in front.
//
//	{"crc":"9ae0daaf","seq":1,"type":"run_created"}
//
// crc is the CRC-32C (Castagnoli) of the line's bytes after the checksum's comma, up
// to and with the last brace, in eight lower-case hexadecimal digits.
package crcline

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
)

// Errors of [Decode].
var (
	ErrForeign  = errors.New("there is no checksum in front")
	ErrChecksum = errors.New("checksum does not match")
)

const (
	// Prefix is how every line begins.
	Prefix = `{"crc":"`

	digits = 8
	after  = `",`
	start  = len(Prefix) + digits + len(after)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(body []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(body, castagnoli)) }

// Encode makes a line, with its newline, of a JSON object that has a field at least.
func Encode(object []byte) []byte {
	body := object[1:] // without the brace, which stands before the checksum now
	line := make([]byte, 0, start+len(body)+1)
	line = append(line, Prefix...)
	line = append(line, checksum(body)...)
	line = append(line, after...)
	line = append(line, body...)
	return append(line, '\n')
}

// Decode returns the object of a line without its newline. It does not look whether what
// the checksum stands for is JSON.
func Decode(line []byte) (object []byte, err error) {
	if len(line) <= start || !bytes.HasPrefix(line, []byte(Prefix)) {
		return nil, ErrForeign
	}
	body := line[start:]
	// Compared as text: there is one way to write a checksum.
	if string(line[len(Prefix):start]) != checksum(body)+after {
		return nil, ErrChecksum
	}
	return append([]byte{'{'}, body...), nil
}

// HoldsGood reports whether a whole line that good accepts stands anywhere in b,
// whatever is before it: damage may have taken the newline in front of it.
func HoldsGood(b []byte, good func(object []byte) bool) bool {
	for {
		i := bytes.Index(b, []byte(Prefix))
		if i < 0 {
			return false
		}
		b = b[i:]
		line, _, terminated := bytes.Cut(b, []byte{'\n'})
		if !terminated {
			return false
		}
		if object, err := Decode(line); err == nil && good(object) {
			return true
		}
		b = b[len(Prefix):]
	}
}
