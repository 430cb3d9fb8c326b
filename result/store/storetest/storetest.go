// Package storetest reads the tables of package store back, for tests.
package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"sweep.dev/sweep/result"
)

// ReadTable reads a table that store.WriteTable wrote: its columns, with as much of
// their meanings as the file says, and all its rows.
func ReadTable(r io.ReaderAt, size int64) ([]result.Column, []result.Row, error) {
	f, err := parquet.OpenFile(r, size, parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, nil, fmt.Errorf("open parquet: %w", err)
	}
	var cols []result.Column
	for _, c := range f.Root().Columns() {
		if !c.Leaf() {
			return nil, nil, fmt.Errorf("column %s is not flat", c.Name())
		}
		var doc struct {
			Meaning string      `json:"meaning"`
			Unit    string      `json:"unit"`
			Tier    result.Tier `json:"tier"`
		}
		if text, ok := f.Lookup(c.Name()); ok {
			if err := json.Unmarshal([]byte(text), &doc); err != nil {
				return nil, nil, fmt.Errorf("meaning of column %s: %w", c.Name(), err)
			}
		}
		cols = append(cols, result.Column{
			Name: c.Name(), Type: columnType(c.Type()), Nullable: c.Optional(), Unit: doc.Unit, Tier: doc.Tier, Doc: doc.Meaning,
		})
	}
	var table []result.Row
	for _, group := range f.RowGroups() {
		rows := group.Rows()
		buffer := make([]parquet.Row, 64)
		for {
			n, err := rows.ReadRows(buffer)
			for _, values := range buffer[:n] {
				row := make(result.Row, len(cols))
				for _, v := range values {
					c := cols[v.Column()]
					row[c.Name] = goValue(c, v)
				}
				table = append(table, row)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				rows.Close()
				return nil, nil, fmt.Errorf("read rows: %w", err)
			}
		}
		if err := rows.Close(); err != nil {
			return nil, nil, fmt.Errorf("read rows: %w", err)
		}
	}
	return cols, table, nil
}

func columnType(t parquet.Type) result.Type {
	if l := t.LogicalType(); l != nil {
		switch l.Value.(type) {
		case *format.StringType:
			return result.String
		case *format.TimestampType:
			return result.Timestamp
		}
	}
	switch t.Kind() {
	case parquet.Boolean:
		return result.Bool
	case parquet.Double:
		return result.Float
	}
	return result.Int
}

func goValue(c result.Column, v parquet.Value) any {
	if v.IsNull() {
		return nil
	}
	switch c.Type {
	case result.String:
		return string(v.ByteArray())
	case result.Float:
		return v.Double()
	case result.Bool:
		return v.Boolean()
	case result.Timestamp:
		return time.UnixMicro(v.Int64()).UTC()
	}
	return v.Int64()
}
