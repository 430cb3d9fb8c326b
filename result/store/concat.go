package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// copyBytes is the size from which a row group is copied as it stands, without
// being unpacked. Smaller ones are joined: a run of a thousand short trials
// shall not make a table of a thousand pieces.
const copyBytes = 1 << 20

// joinBytes is how much of the small row groups, unpacked, makes a new one.
const joinBytes = 32 << 20

// smallRead is what a reader of a small file keeps of each column, and valuesAtOnce how
// many values are copied at a time.
const (
	smallRead    = 512
	valuesAtOnce = 1024
)

// ConcatRequests writes one Parquet file of the requests in all files, in
// their order. It holds one row group in memory at a time, and the small files that are
// opened ahead.
func ConcatRequests(ctx context.Context, w io.Writer, files []string) error {
	return concat[requestRow](ctx, w, files)
}

// ConcatSamples is ConcatRequests for samples.
func ConcatSamples(ctx context.Context, w io.Writer, files []string) error {
	return concat[sampleRow](ctx, w, files)
}

func concat[T any](ctx context.Context, w io.Writer, files []string) error {
	pw := parquet.NewGenericWriter[T](w, writerOptions()...)
	c := concatenation[T]{w: pw, schema: pw.Schema(), columns: pw.ColumnWriters(), values: make([]parquet.Value, valuesAtOnce)}
	ctx, cancel := context.WithCancel(ctx)
	ahead := make(chan *source, openAhead)
	go openAll(ctx, files, ahead)
	defer func() {
		cancel()
		for s := range ahead { // until it has ended
			s.close()
		}
	}()
	for s := range ahead {
		err := s.err
		if err == nil {
			err = c.add(ctx, s.file)
		}
		s.close()
		if err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := c.w.Close(); err != nil {
		return fmt.Errorf("write footer: %w", err)
	}
	return nil
}

// A concatenation is one file being made of many.
type concatenation[T any] struct {
	w       *parquet.GenericWriter[T]
	schema  *parquet.Schema
	columns []*parquet.ColumnWriter
	pending int64 // unpacked bytes of the rows that no row group was made of yet

	values []parquet.Value // on their way
}

// openAhead is how many files are opened while others are written: to read the footer of a
// small file takes as long as to copy it.
const openAhead = 4

// A source is one of the files, opened.
type source struct {
	path string
	file *parquet.File
	from *os.File
	err  error
}

func (s *source) close() {
	if s.from != nil {
		_ = s.from.Close() // read only
	}
}

// openAll opens files one after another until the context ends, and closes the channel.
func openAll(ctx context.Context, files []string, to chan<- *source) {
	defer close(to)
	for _, path := range files {
		s := &source{path: path}
		s.err = s.open()
		select {
		case to <- s:
		case <-ctx.Done():
			s.close()
			return
		}
	}
}

func (s *source) open() (err error) {
	if s.from, err = os.Open(s.path); err != nil {
		return err
	}
	stat, err := s.from.Stat()
	if err != nil {
		return err
	}
	var content io.ReaderAt = s.from
	size := stat.Size()
	options := []parquet.FileOption{parquet.SkipBloomFilters(true)}
	if size < copyBytes { // none of its row groups is copied as it stands
		text := make([]byte, size)
		if _, err := io.ReadFull(s.from, text); err != nil {
			return err
		}
		content = bytes.NewReader(text)
		options = append(options, parquet.SkipPageIndex(true), parquet.ReadBufferSize(smallRead))
	}
	s.file, err = parquet.OpenFile(content, size, options...)
	return err
}

func (c *concatenation[T]) add(ctx context.Context, pf *parquet.File) error {
	if !parquet.EqualNodes(c.schema, pf.Root()) {
		return fmt.Errorf("it has other columns than this version of sweep writes")
	}
	for i, group := range pf.RowGroups() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		meta := &pf.Metadata().RowGroups[i]
		if meta.TotalCompressedSize >= copyBytes {
			if _, err := c.w.WriteRowGroup(group); err != nil {
				return err
			}
			c.pending = 0 // they went out before it
			continue
		}
		for i, chunk := range group.ColumnChunks() {
			if err := c.join(c.columns[i], chunk); err != nil {
				return err
			}
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

// join adds the values of a column to the row group that is being made. It makes no rows
// of them, which takes a third of the time.
func (c *concatenation[T]) join(to *parquet.ColumnWriter, chunk parquet.ColumnChunk) (err error) {
	pages := chunk.Pages()
	defer func() { err = errors.Join(err, pages.Close()) }()
	for left := chunk.NumValues(); left > 0; {
		page, err := pages.ReadPage()
		if err != nil {
			return err
		}
		left -= page.NumValues()
		err = c.joinPage(to, page)
		parquet.Release(page)
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *concatenation[T]) joinPage(to *parquet.ColumnWriter, page parquet.Page) error {
	values, held := page.Values(), 0
	for {
		n, err := values.ReadValues(c.values[held:])
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return err
		}
		held += n
		whole := held
		if !ended { // the last row may have more values
			whole = lastRow(c.values[:held])
		}
		if whole > 0 {
			if _, err := to.WriteRowValues(c.values[:whole]); err != nil {
				return err
			}
		} else if held == len(c.values) {
			c.values = append(c.values, make([]parquet.Value, held)...)
		}
		if ended {
			return nil
		}
		held = copy(c.values, c.values[whole:held])
	}
}

// lastRow returns where the last row begins in the values of a column.
func lastRow(values []parquet.Value) int {
	for i, v := range slices.Backward(values) {
		if v.RepetitionLevel() == 0 {
			return i
		}
	}
	return 0
}
