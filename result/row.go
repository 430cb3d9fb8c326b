package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sweep.dev/sweep/result/col"
)

// Derive fills in the columns that follow from others, where those were
// measured: what the trial cost, and the server's throughput. It is to be
// called once the summary and what the collectors say are in the row.
func (r Row) Derive() {
	set := func(name string, v float64, ok ...bool) {
		if !slices.Contains(ok, false) && !math.IsNaN(v) && !math.IsInf(v, 0) {
			r[name] = v
		}
	}
	seconds, timed := r.Number(col.DurationS)
	price, priced := r.Number(col.USDPerHour)
	tokens, counted := r.Number(col.OutputTokens)
	energy, metered := r.Number(col.GPUEnergyJ)
	served, server := r.Number(col.ServerOutputTokens)

	rate, steady := r.Number(col.ThroughputTokS)

	usd := price * seconds / 3600
	set(col.CostUSD, usd, priced, timed)
	set(col.USDPer1MOutputTokens, price/3600/rate*1e6, priced, steady)
	set(col.USDPer1MOutputTokensWhole, usd/tokens*1e6, priced, timed, counted)
	set(col.JoulesPerOutputToken, energy/tokens, metered, counted)
	set(col.ServerThroughputTokS, served/seconds, server, timed)
}

// Number returns the value of a column of numbers, and whether it has one.
func (r Row) Number(name string) (float64, bool) {
	switch v := r[name].(type) {
	case float64:
		return v, !math.IsNaN(v)
	case int64:
		return float64(v), true
	}
	return 0, false
}

// Float returns the value of a column of numbers; 0 if it has none.
func (r Row) Float(name string) float64 {
	if v, ok := r.Number(name); ok {
		return v
	}
	return 0
}

// Conform makes r a row of exactly these columns: what is missing becomes nil,
// and so do floats that are no number; ints take the width that the column
// has, times UTC and microseconds. The error names every value that a column
// cannot hold, every null if none may be, and every name that is no column.
func (r Row) Conform(cols []Column) (Row, error) {
	values := make([]any, len(cols))
	err := r.Values(cols, values)
	out := make(Row, len(cols))
	for i, c := range cols {
		out[c.Name] = values[i]
	}
	return out, err
}

// Values is [Row.Conform] without a row: it sets the values of the columns in their order.
func (r Row) Values(cols []Column, values []any) error {
	var errs []error
	known := 0
	for i, c := range cols {
		v, ok := r[c.Name]
		if ok {
			known++
		}
		v, err := conform(c, v)
		if err != nil {
			errs = append(errs, err)
		}
		values[i] = v
	}
	if known < len(r) {
		names := map[string]bool{}
		for _, c := range cols {
			names[c.Name] = true
		}
		for _, name := range slices.Sorted(maps.Keys(r)) {
			if !names[name] {
				errs = append(errs, fmt.Errorf("%s is no column", name))
			}
		}
	}
	return errors.Join(errs...)
}

// conform makes v a value of the column c.
func conform(c Column, v any) (any, error) {
	switch x := v.(type) {
	case nil:
	case string:
		if c.Type == String {
			if utf8.ValidString(x) {
				return v, nil
			}
			return strings.ToValidUTF8(x, "\uFFFD"), nil
		}
	case bool:
		if c.Type == Bool {
			return v, nil
		}
	case int:
		return conform(c, int64(x))
	case int64:
		switch c.Type {
		case Int:
			return v, nil
		case Float:
			return float64(x), nil
		}
	case float64:
		switch {
		case math.IsNaN(x) || math.IsInf(x, 0):
			v = nil
		case c.Type == Float:
			return v, nil
		}
	case time.Time:
		if c.Type == Timestamp {
			return x.UTC().Truncate(time.Microsecond), nil
		}
	}
	if v != nil {
		return nil, fmt.Errorf("%s is %v (%T), but the column's type is %s", c.Name, v, v, c.Type)
	}
	if !c.Nullable {
		return nil, fmt.Errorf("%s may not be null", c.Name)
	}
	return nil, nil
}

// The texts that stand for floats of which JSON has no number.
const (
	infinity    = "Infinity"
	negInfinity = "-Infinity"
	notANumber  = "NaN"
)

// MarshalJSON writes the row, sorted by column, so that it comes back with the
// same types: a float has a point or an exponent, an int has neither, a float
// that is no number is a text, and an instant is RFC 3339 in UTC.
func (r Row) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(r)) {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		value, err := marshalValue(r[name])
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", name, err)
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func marshalValue(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil, string, bool, int64:
		return json.Marshal(v)
	case float64:
		return marshalFloat(v)
	case time.Time:
		return json.Marshal(v.UTC())
	}
	return nil, fmt.Errorf("a row holds no %T", v)
}

func marshalFloat(v float64) ([]byte, error) {
	switch {
	case math.IsNaN(v):
		return json.Marshal(notANumber)
	case math.IsInf(v, 1):
		return json.Marshal(infinity)
	case math.IsInf(v, -1):
		return json.Marshal(negInfinity)
	}
	text := strconv.AppendFloat(nil, v, 'g', -1, 64)
	if !bytes.ContainsAny(text, ".e") {
		text = append(text, ".0"...)
	}
	return text, nil
}
