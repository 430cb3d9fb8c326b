package dataset

import (
	"fmt"
	"io"
)

// The bounds of one record as it is written: a conversation of ShareGPT, a
// record of CSV. A decoder reads a record to its end before anybody can look at
// it, and keeps 40 bytes for each of its parts, so that without these a quote or
// a bracket that is never closed would take the whole file and more.
const (
	maxRecordBytes = 6*MaxPromptBytes + 1<<20 // JSON may write a character as six bytes
	maxRecordParts = 4 << 20                  // turns, or fields
)

// records reads a file of records, of which each is bounded.
type records struct {
	r     io.Reader
	sep   byte // stands once in each part at least
	bytes int  // read since the last record ended
	parts int
}

// next says that a record has ended.
func (r *records) next() { r.bytes, r.parts = 0, 0 }

func (r *records) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	r.bytes += n
	for _, c := range b[:n] {
		if c == r.sep {
			r.parts++
		}
	}
	switch {
	case r.bytes-n > maxRecordBytes: // what was read ahead belongs to other records
		return 0, fmt.Errorf("a record over %d bytes", maxRecordBytes)
	case r.parts > maxRecordParts:
		return 0, fmt.Errorf("a record of more than %d parts", maxRecordParts)
	}
	return n, err
}
