package store

import (
	"fmt"
	"io"
	"iter"
	"os"
)

// RequestsOf is [ReadRequests] of a file by its name. The first error may be that it
// cannot be opened, as with os.Open.
func RequestsOf(name string) iter.Seq2[Request, error] { return ofFile(name, ReadRequests) }

// SamplesOf is [ReadSamples] of a file by its name, like [RequestsOf].
func SamplesOf(name string) iter.Seq2[Sample, error] { return ofFile(name, ReadSamples) }

// ofFile has the file open while its rows are asked for.
func ofFile[V any](name string, read func(r io.ReaderAt, size int64) iter.Seq2[V, error]) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		var none V
		f, err := os.Open(name)
		if err != nil {
			yield(none, err)
			return
		}
		defer f.Close() // read only
		info, err := f.Stat()
		if err != nil {
			yield(none, err)
			return
		}
		for v, err := range read(f, info.Size()) {
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			if !yield(v, err) {
				return
			}
		}
	}
}
