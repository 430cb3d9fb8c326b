// Package csv writes cells.csv, one row per trial, and groups.csv, one row per
// cell.
//
// The files follow RFC 4180 with bare line feeds between the rows. What was
// not measured is empty. Floats have as many digits as it takes to read the
// same float again. A text that a spreadsheet would run as a formula gets an
// apostrophe before it; numbers never do. Control characters are taken out of texts.
package csv

import (
	"bufio"
	"context"
	"encoding/csv"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/meant"
	"sweep.dev/sweep/sinks"
)

// Config is the part of the plan under csv.
type Config struct {
	// Columns are those of cells.csv.
	Columns Columns `yaml:"columns,omitempty" doc:"Columns of cells.csv: core (for people), full (all), or a list of names, in its order." default:"core" example:"full"`
	// Raw leaves texts as they are, also those that a spreadsheet would run.
	Raw bool `yaml:"raw,omitempty" doc:"Write texts unchanged, also those that a spreadsheet would run as a formula, and with control characters." default:"false" example:"true"`
}

// Columns are names of columns in their order, or one tier of them alone; none
// is the tier core.
type Columns []string

// Words returns what a plan may write in place of a list.
func (Columns) Words() []string { return []string{string(result.Core), string(result.Full)} }

// of returns the chosen ones of all columns. The error names one that is not among
// them, and the one that was probably meant.
func (c Columns) of(all []result.Column) ([]result.Column, error) {
	switch {
	case len(c) == 1 && c[0] == string(result.Full):
		return all, nil
	case len(c) == 0, len(c) == 1 && c[0] == string(result.Core):
		return slices.DeleteFunc(slices.Clone(all), func(column result.Column) bool { return column.Tier != result.Core }), nil
	}
	names := make([]string, len(all))
	for i, column := range all {
		names[i] = column.Name
	}
	var chosen []result.Column
	for i, name := range c {
		column, ok := result.Lookup(all, name)
		switch {
		case ok && slices.Contains(c[:i], name):
			return nil, fmt.Errorf("columns: %q is there twice", name)
		case ok:
			chosen = append(chosen, column)
		case slices.Contains(c.Words(), name):
			return nil, fmt.Errorf("columns: %q stands for several columns; write columns: %s, without a list", name, name)
		default:
			if near := meant.Column(name, names); near != "" {
				return nil, fmt.Errorf("columns: there is no column %q; did you mean %q?", name, near)
			}
			return nil, fmt.Errorf("columns: there is no column %q", name)
		}
	}
	return chosen, nil
}

// Factory returns this sink's entry in the list of sinks.
func Factory() sinks.Factory {
	return sinks.Factory{
		Kind:   "csv",
		Doc:    "cells.csv and groups.csv, for spreadsheets",
		Config: Config{},
		New: func(decode func(any) error, columns []result.Column) (sinks.Sink, error) {
			var c Config
			if decode != nil {
				if err := decode(&c); err != nil {
					return nil, err
				}
			}
			return New(c, columns)
		},
	}
}

// A Sink writes the CSV files of a run.
type Sink struct {
	columns Columns
	raw     bool
}

var _ sinks.Sink = (*Sink)(nil)

// New makes a sink. The error is of a chosen column that is not among columns.
func New(c Config, columns []result.Column) (*Sink, error) {
	if _, err := c.Columns.of(columns); err != nil {
		return nil, err
	}
	return &Sink{columns: c.Columns, raw: c.Raw}, nil
}

// Build implements sinks.Sink.
func (s *Sink) Build(ctx context.Context, t sinks.Table, create sinks.File) error {
	cols, err := s.columns.of(t.Columns)
	if err != nil {
		return fmt.Errorf("%s: %w", layout.CellsCSV, err)
	}
	if err := s.write(ctx, create, layout.CellsCSV, t.Columns, cols, t.Rows); err != nil {
		return err
	}
	groupCols, cells := t.Groups()
	if err := s.write(ctx, create, layout.GroupsCSV, groupCols, groupCols, cells); err != nil {
		return err
	}
	for _, some := range []struct {
		name string
		*sinks.Rows
	}{
		{layout.ComparisonCSV, t.Comparison},
		{layout.CapacityCSV, t.Capacity},
		{layout.QualityCSV, t.Quality},
		{layout.QualityItemsCSV, t.QualityItems},
	} {
		if some.Rows == nil {
			continue
		}
		if err := s.write(ctx, create, some.name, some.Columns, some.Columns, some.Rows.Rows); err != nil {
			return err
		}
	}
	return nil
}

// Write writes rows of all their columns as the files of a run have them.
func Write(ctx context.Context, w sinks.Writer, cols []result.Column, rows iter.Seq[result.Row]) error {
	return (&Sink{}).table(ctx, w, cols, cols, rows)
}

// write makes one file of the columns cols of rows, which have the columns all.
func (s *Sink) write(ctx context.Context, create sinks.File, name string, all, cols []result.Column, rows iter.Seq[result.Row]) error {
	err := create(name, func(out sinks.Writer) error { return s.table(ctx, out, all, cols, rows) })
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (s *Sink) table(ctx context.Context, out sinks.Writer, all, cols []result.Column, rows iter.Seq[result.Row]) error {
	b := bufio.NewWriter(out)
	w := csv.NewWriter(b)
	record := make([]string, len(cols))
	for i, c := range cols {
		record[i] = c.Name
	}
	if err := w.Write(record); err != nil {
		return err
	}
	values, places := make([]any, len(all)), make([]int, len(cols))
	for i, c := range cols {
		places[i] = slices.IndexFunc(all, func(a result.Column) bool { return a.Name == c.Name })
	}
	n := 0
	for row := range rows {
		if n++; ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := row.Values(all, values); err != nil {
			return fmt.Errorf("row %d: %w", n, err)
		}
		for i, at := range places {
			record[i] = s.field(values[at])
		}
		if err := w.Write(record); err != nil {
			return err
		}
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return err
	}
	return b.Flush()
}

// field returns the text of a value.
func (s *Sink) field(v any) string {
	switch v := v.(type) {
	case string:
		if !s.raw {
			return inert(v)
		}
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return float(v)
	case bool:
		return strconv.FormatBool(v)
	case time.Time:
		return v.Format("2006-01-02T15:04:05.000000Z")
	}
	return ""
}

// float returns v without an exponent, but where that would be a row of zeros.
func float(v float64) string {
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e15) {
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// inert takes out what a terminal would obey, and keeps a spreadsheet from taking text for a
// formula: model names, versions, error texts and engine arguments come from outside.
func inert(text string) string {
	if text = plaintext.Lines(text); text == "" {
		return text
	}
	switch text[0] {
	case '=', '+', '-', '@', '\t':
		return "'" + text
	}
	return text
}
