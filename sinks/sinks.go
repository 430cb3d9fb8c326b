// Package sinks defines the derived tables of a run: pure functions of
// committed outcomes, rebuilt at will. The folders below it implement it;
// sinks/all lists them.
package sinks

import (
	"context"
	"iter"
	"sync"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/groups"
)

// A Table is what a sink is given: the committed trials of a run in the plan's
// order, and the columns that this plan has.
type Table struct {
	Columns []result.Column
	// Rows are read once for each table that is made of them: a run may have too many to
	// hold. A sink keeps none that it does not need, and may read beside another.
	Rows iter.Seq[result.Row]
	// Groups are the columns and the rows of the groups table: made at the first call, and
	// shared by the sinks.
	Groups func() ([]result.Column, iter.Seq[result.Row])
	// Requests and Samples name the Parquet files of the committed attempts,
	// in the order of Rows, for sinks that join them.
	Requests []string
	Samples  []string
	// Attempts are the folders of the committed attempts, in the order of Rows,
	// for sinks that gather what collectors kept there.
	Attempts []string
	// Comparison is that of a plan which compares by turns; nil of others.
	Comparison *Rows
	// Capacity is that of a plan which searches for the greatest load; nil of others.
	Capacity *Rows
	// Quality is how deployments answered against their baseline, of a plan with
	// quality.baseline, and QualityItems each prompt, of a plan with quality; nil of others.
	Quality, QualityItems *Rows
}

// Rows are a table of columns of its own.
type Rows struct {
	Columns []result.Column
	Rows    iter.Seq[result.Row]
}

// NewTable returns a table of rows and their groups, without files. The objectives are those of each
// cell over all its valid trials, by the cell's id.
func NewTable(columns []result.Column, rows iter.Seq[result.Row], objectives map[string][]result.SLOResult) Table {
	return Table{Columns: columns, Rows: rows, Groups: sync.OnceValues(func() ([]result.Column, iter.Seq[result.Row]) {
		return groups.Each(columns, rows, objectives)
	})}
}

// A File writes one derived file: to a temporary name beside it and renamed
// when complete, so that a reader never sees half of one. It may be called for several
// names at the same time.
type File func(name string, write func(w Writer) error) error

// A Writer is what a derived file is written to.
type Writer interface{ Write(p []byte) (int, error) }

// A Sink writes one kind of derived file. Build replaces the files of
// an earlier Build. Sinks of one run are built at the same time, each once; none writes a
// file of another.
type Sink interface {
	Build(ctx context.Context, t Table, create File) error
}

// A Factory makes a Sink from its part of the plan.
type Factory struct {
	Kind   string
	Doc    string
	Config any
	// New may be given the columns of the plan to check names against.
	New func(decode func(any) error, columns []result.Column) (Sink, error)
}

// Plain returns the entry of a sink without a configuration.
func Plain(kind, doc string, s Sink) Factory {
	return Factory{Kind: kind, Doc: doc, New: func(decode func(any) error, _ []result.Column) (Sink, error) {
		if decode != nil {
			if err := decode(&struct{}{}); err != nil {
				return nil, err
			}
		}
		return s, nil
	}}
}
