package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// cursorValues is how many values of a column a cursor has in memory.
const cursorValues = 256

// cursors go through the rows of a row group column by column. For a table of a million
// rows that takes a fraction of the time in which they are made into Go structs.
type cursors struct {
	group  parquet.RowGroup
	schema *parquet.Schema // of the file
	want   *parquet.Schema
	all    []*cursor
	err    error // the first
}

// of returns the cursor of a column.
func (c *cursors) of(name string) *cursor {
	one := &cursor{failed: &c.err}
	want, _ := c.want.Lookup(name)
	switch leaf, ok := c.schema.Lookup(name); {
	case !ok:
	case leaf.MaxRepetitionLevel > 0 || leaf.Node.Type().Kind() != want.Node.Type().Kind():
		c.err = cmp.Or(c.err, fmt.Errorf("the column %s is of the type %s", name, leaf.Node.Type()))
	default:
		one.pages = c.group.ColumnChunks()[leaf.ColumnIndex].Pages()
		one.buffer = make([]parquet.Value, cursorValues)
		one.texts = map[string]string{}
	}
	c.all = append(c.all, one)
	return one
}

// close ends the reading, and returns the first error of all.
func (c *cursors) close() error {
	for _, one := range c.all {
		if one.pages != nil {
			one.release()
			c.err = errors.Join(c.err, one.pages.Close())
		}
	}
	return c.err
}

// A cursor goes through the values of one column, one a row.
type cursor struct {
	pages  parquet.Pages // nil of a column that the file lacks
	page   parquet.Page  // nil before the first
	values parquet.ValueReader
	buffer []parquet.Value
	n, at  int               // values in the buffer, and those of them that were taken
	texts  map[string]string // of late: equal ones share their bytes
	failed *error
}

// next returns the value of the next row, good until the one after it; null if the file lacks
// the column or after an error.
func (c *cursor) next() parquet.Value {
	if c.pages == nil || *c.failed != nil {
		return parquet.NullValue()
	}
	for c.at == c.n {
		if c.values == nil {
			page, err := c.pages.ReadPage()
			if err != nil {
				*c.failed = err
				return parquet.NullValue()
			}
			c.release()
			c.page, c.values = page, page.Values()
		}
		n, err := c.values.ReadValues(c.buffer)
		if err != nil {
			c.values = nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			*c.failed = err
			return parquet.NullValue()
		}
		c.at, c.n = 0, n
	}
	c.at++
	return c.buffer[c.at-1]
}

func (c *cursor) release() {
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
}

// text returns the next value as a text; "" if it is null.
func (c *cursor) text() string {
	v := c.next()
	if v.IsNull() {
		return ""
	}
	text, ok := c.texts[string(v.ByteArray())]
	if !ok {
		if len(c.texts) == cursorValues {
			clear(c.texts)
		}
		text = string(v.ByteArray())
		c.texts[text] = text
	}
	return text
}

// number returns the next value as an integer; 0 if it is null.
func (c *cursor) number() int64 {
	if v := c.next(); !v.IsNull() {
		return v.Int64()
	}
	return 0
}

// float returns the next value as a float; 0 if it is null.
func (c *cursor) float() float64 {
	if v := c.next(); !v.IsNull() {
		return v.Double()
	}
	return 0
}
