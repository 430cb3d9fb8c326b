package store

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"sweep.dev/sweep/result"
)

// rowGroupValues is how many values of the largest columns a row group holds
// before the next is begun: some 30 MiB unpacked, which bounds what a writer
// and a reader keep in memory at once.
const rowGroupValues = 8 << 20

// batch is how many rows are converted at a time.
const batch = 64

// codec is shared for its pool of encoders, which any number of writers may
// use. On token times the next level saves 2 % of the bytes for half as much
// time again.
var codec = &zstd.Codec{Level: zstd.SpeedFastest}

func writerOptions() []parquet.WriterOption {
	return []parquet.WriterOption{
		parquet.Compression(codec),
		// Instants grow from row to row. (The tag "delta" is refused on the
		// pointers that most of them are.)
		parquet.DefaultEncodingFor(parquet.Int64, &parquet.DeltaBinaryPacked),
		parquet.CreatedBy("sweep", "1", ""), // the same rows make the same bytes
	}
}

// write makes a Parquet file of n rows. fill sets one row and says how many
// values it has in its largest columns.
func write[T any](w io.Writer, n int, fill func(row *T, i int) (values int)) error {
	pw := parquet.NewGenericWriter[T](w, writerOptions()...)
	rows := make([]T, min(n, batch))
	values := 0
	for at := 0; at < n; at += batch {
		rows := rows[:min(batch, n-at)]
		for i := range rows {
			values += fill(&rows[i], at+i)
		}
		if _, err := pw.Write(rows); err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
		if values >= rowGroupValues {
			if err := pw.Flush(); err != nil {
				return fmt.Errorf("write row group: %w", err)
			}
			values = 0
		}
	}
	if err := pw.Close(); err != nil {
		return fmt.Errorf("write footer: %w", err)
	}
	return nil
}

// read yields the rows of a Parquet file, a batch in memory at a time. A row
// is good until the next one is asked for.
func read[T any](r io.ReaderAt, size int64) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		f, err := parquet.OpenFile(r, size, parquet.SkipBloomFilters(true))
		if err != nil {
			yield(nil, fmt.Errorf("open parquet: %w", err))
			return
		}
		pr := parquet.NewGenericReader[T](f)
		defer pr.Close()
		rows := make([]T, batch)
		for {
			n, err := pr.Read(rows)
			for i := range rows[:n] {
				if !yield(&rows[i], nil) {
					return
				}
			}
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(nil, fmt.Errorf("read rows: %w", err))
				return
			}
			clear(rows) // the reader may reuse the slices in them
		}
	}
}

// convert yields what get makes of each row.
func convert[T, V any](rows iter.Seq2[*T, error], get func(*T) V) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		for row, err := range rows {
			if err != nil {
				var zero V
				yield(zero, err)
				return
			}
			if !yield(get(row), nil) {
				return
			}
		}
	}
}

// The Go values that mean "unknown" or "none" are stored as null.

func instant(d time.Duration) *int64 {
	if d < 0 {
		return nil
	}
	return new(int64(d))
}

func count(n int) *int64 {
	if n < 0 {
		return nil
	}
	return new(int64(n))
}

// positive returns a count for which 0 is stored as null too.
func positive(n int) *int64 {
	if n == 0 {
		return nil
	}
	return count(n)
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return new(valid(s))
}

// valid returns s as UTF-8, which readers of Parquet insist on: what servers send
// need not be.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// And back.

func toInstant(p *int64) time.Duration {
	if p == nil {
		return result.Never
	}
	return time.Duration(*p)
}

func toCount(p *int64) int {
	if p == nil {
		return result.Unknown
	}
	return int(*p)
}

func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
