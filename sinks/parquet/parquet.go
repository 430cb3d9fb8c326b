// Package parquet writes the tables of a run as Parquet: cells.parquet (one
// row per trial), groups.parquet (one row per cell), requests.parquet and
// samples.parquet (those of all committed attempts), and those that only some plans have.
// docs/columns.md and docs/data.md list their columns.
package parquet

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/result/store"
	"sweep.dev/sweep/sinks"
)

// Factory returns this sink's entry in the list of sinks. It has no configuration.
func Factory() sinks.Factory {
	return sinks.Plain("parquet", "cells, groups, requests and samples as Parquet, for DuckDB, pandas and the like", Sink{})
}

// A Sink writes the Parquet files of a run, two at a time. Of each it holds one row group
// in memory.
type Sink struct{}

var _ sinks.Sink = Sink{}

// Build implements sinks.Sink.
func (Sink) Build(ctx context.Context, t sinks.Table, create sinks.File) error {
	building, ctx := errgroup.WithContext(ctx)
	building.SetLimit(2) // small enough for the memory of a large run
	groupCols, cells := t.Groups()
	type file struct {
		name  string
		write func(sinks.Writer) error
	}
	files := []file{
		{layout.CellsParquet, func(w sinks.Writer) error { return store.WriteTable(w, t.Columns, t.Rows) }},
		{layout.GroupsParquet, func(w sinks.Writer) error { return store.WriteTable(w, groupCols, cells) }},
		{layout.Requests, func(w sinks.Writer) error { return store.ConcatRequests(ctx, w, t.Requests) }},
		{layout.Samples, func(w sinks.Writer) error { return store.ConcatSamples(ctx, w, t.Samples) }},
	}
	for _, some := range []struct {
		name string
		*sinks.Rows
	}{
		{layout.ComparisonParquet, t.Comparison},
		{layout.CapacityParquet, t.Capacity},
		{layout.QualityParquet, t.Quality},
		{layout.QualityItemsParquet, t.QualityItems},
	} {
		if some.Rows != nil {
			files = append(files, file{some.name, func(w sinks.Writer) error { return store.WriteTable(w, some.Columns, some.Rows.Rows) }})
		}
	}
	for _, f := range files {
		building.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := create(f.name, f.write); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			return nil
		})
	}
	return building.Wait()
}
