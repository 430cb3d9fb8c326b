package store

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
)

// copyBytes is the size from which a row group is copied as it stands, without
// being unpacked. Smaller ones are joined: a run of a thousand short trials
// shall not make a table of a thousand pieces.
const copyBytes = 1 << 20

// joinBytes is how much of the small row groups, unpacked, makes a new one.
const joinBytes = 32 << 20

// ConcatRequests writes one Parquet file of the requests in all files, in
// their order. It holds one row group in memory at a time.
func ConcatRequests(ctx context.Context, w io.Writer, files []string) error {
	return concat[requestRow](ctx, w, files)
}

// ConcatSamples is ConcatRequests for samples.
func ConcatSamples(ctx context.Context, w io.Writer, files []string) error {
	return concat[sampleRow](ctx, w, files)
}

func concat[T any](ctx context.Context, w io.Writer, files []string) error {
	c := concatenation[T]{w: parquet.NewGenericWriter[T](w, writerOptions()...)}
	for _, path := range files {
		if err := c.add(ctx, path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := c.w.Close(); err != nil {
		return fmt.Errorf("write footer: %w", err)
	}
	return nil
}

// A concatenation is one file being made of many.
type concatenation[T any] struct {
	w       *parquet.GenericWriter[T]
	pending int64 // unpacked bytes of the rows that no row group was made of yet
}

func (c *concatenation[T]) add(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return err
	}
	pf, err := parquet.OpenFile(f, stat.Size(), parquet.SkipBloomFilters(true))
	if err != nil {
		return err
	}
	if !parquet.EqualNodes(c.w.Schema(), pf.Schema()) {
		return fmt.Errorf("it has other columns than this version of sweep writes")
	}
	for i, group := range pf.RowGroups() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		meta := pf.Metadata().RowGroups[i]
		if meta.TotalCompressedSize >= copyBytes {
			if _, err := c.w.WriteRowGroup(group); err != nil {
				return err
			}
			c.pending = 0 // they went out before it
			continue
		}
		if err := copyRows(c.w, group); err != nil {
			return err
		}
		if c.pending += meta.TotalByteSize; c.pending >= joinBytes {
			if err := c.w.Flush(); err != nil {
				return err
			}
			c.pending = 0
		}
	}
	return nil
}

func copyRows(w parquet.RowWriter, group parquet.RowGroup) (err error) {
	rows := group.Rows()
	defer func() {
		if cerr := rows.Close(); err == nil {
			err = cerr
		}
	}()
	_, err = parquet.CopyRows(w, rows)
	return err
}
