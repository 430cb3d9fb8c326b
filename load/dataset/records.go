package dataset

import (
	"bytes"
	"fmt"
	"io"
)

// The bounds of one record as it is written: a conversation of ShareGPT, a record
// of CSV. A decoder reads a record to its end and keeps 40 bytes for each of its
// parts, so that a quote or a bracket that is never closed would take the whole
// file and more.
const (
	maxRecordBytes = 6*MaxPromptBytes + 1<<20 // JSON may write a character as six bytes
	maxRecordParts = 4 << 20                  // turns, or fields
)

// records reads a file whose records are each bounded.
type records struct {
	r     io.Reader
	sep   []byte // stands once in each part at least
	bytes int    // read since the last record ended
	parts int
}

// next is called when a record has ended.
func (r *records) next() { r.bytes, r.parts = 0, 0 }

// Read reads on unless the record is too large already: how much of the last read
// belongs to the next record is not known.
func (r *records) Read(b []byte) (int, error) {
	switch {
	case r.bytes > maxRecordBytes:
		return 0, fmt.Errorf("a record over %d bytes", maxRecordBytes)
	case r.parts > maxRecordParts:
		return 0, fmt.Errorf("a record of more than %d parts", maxRecordParts)
	}
	n, err := r.r.Read(b)
	r.bytes += n
	r.parts += bytes.Count(b[:n], r.sep)
	return n, err
}
