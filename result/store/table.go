package store

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/parquet-go/parquet-go"

	"sweep.dev/sweep/result"
)

// A columnDoc is what the metadata of a table says of a column, as JSON by the
// column's name.
type columnDoc struct {
	Meaning string      `json:"meaning,omitempty"`
	Unit    string      `json:"unit,omitempty"`
	Tier    result.Tier `json:"tier,omitempty"`
}

// tableValues is how many values a row group of a table has at least, but for the last one:
// they are in memory together, and those of hundreds of columns take 10 MB.
const tableValues = 1 << 20

// WriteTable writes rows as a Parquet file of exactly these columns, in their
// order. A value that its column cannot hold is an error. The file's metadata has
// the meaning of each column that has one.
func WriteTable(w io.Writer, cols []result.Column, rows iter.Seq[result.Row]) error {
	// Hundreds of columns have a page each.
	options := append(writerOptions(), tableSchema(cols), parquet.PageBufferSize(32<<10))
	for _, c := range cols {
		doc, err := json.Marshal(columnDoc{c.Doc, c.Unit, c.Tier})
		if err != nil {
			return err
		}
		options = append(options, parquet.KeyValueMetadata(c.Name, string(doc)))
	}
	pw := parquet.NewWriter(w, options...)
	values, row := make([]any, len(cols)), make(parquet.Row, len(cols))
	n, pending := 0, 0
	for r := range rows {
		n++
		if err := r.Values(cols, values); err != nil {
			return fmt.Errorf("row %d: %w", n, err)
		}
		for i, c := range cols {
			row[i] = cellValue(c, values[i]).Level(0, definition(c, values[i]), i)
		}
		if _, err := pw.WriteRows([]parquet.Row{row}); err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
		if pending += len(cols); pending >= tableValues {
			if err := pw.Flush(); err != nil {
				return fmt.Errorf("write row group: %w", err)
			}
			pending = 0
		}
	}
	if err := pw.Close(); err != nil {
		return fmt.Errorf("write footer: %w", err)
	}
	return nil
}

func cellValue(c result.Column, v any) parquet.Value {
	switch v := v.(type) {
	case string:
		return parquet.ByteArrayValue([]byte(v))
	case int64:
		return parquet.Int64Value(v)
	case float64:
		return parquet.DoubleValue(v)
	case bool:
		return parquet.BooleanValue(v)
	case time.Time:
		return parquet.Int64Value(v.UnixMicro())
	}
	return parquet.NullValue()
}

// definition returns the definition level of a value: 1 if a column that may be
// null is not.
func definition(c result.Column, v any) int {
	if c.Nullable && v != nil {
		return 1
	}
	return 0
}

func tableSchema(cols []result.Column) *parquet.Schema {
	group := orderedGroup{Group: parquet.Group{}}
	for _, c := range cols {
		var node parquet.Node
		switch c.Type {
		case result.String:
			node = parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
		case result.Int:
			node = parquet.Int(64)
		case result.Float:
			node = parquet.Leaf(parquet.DoubleType)
		case result.Bool:
			node = parquet.Leaf(parquet.BooleanType)
		case result.Timestamp:
			node = parquet.Timestamp(parquet.Microsecond)
		}
		if c.Nullable {
			node = parquet.Optional(node)
		}
		group.Group[c.Name] = node
		group.names = append(group.names, c.Name)
	}
	return parquet.NewSchema("cells", group)
}

// An orderedGroup is a group whose fields keep their order: a parquet.Group
// sorts them by name.
type orderedGroup struct {
	parquet.Group
	names []string
}

func (g orderedGroup) Fields() []parquet.Field {
	byName := make(map[string]parquet.Field, len(g.names))
	for _, f := range g.Group.Fields() {
		byName[f.Name()] = f
	}
	fields := make([]parquet.Field, len(g.names))
	for i, name := range g.names {
		fields[i] = byName[name]
	}
	return fields
}
