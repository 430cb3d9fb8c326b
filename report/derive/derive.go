// Package derive makes the tables, the summary and the answer of a run from its
// committed trials, at any time and any number of times.
package derive

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"

	"golang.org/x/sync/errgroup"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/answer"
	"sweep.dev/sweep/report/capacity"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/compare/turns"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/paired"
	"sweep.dev/sweep/report/summary"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/sinks"
)

// The memory that a run is derived in, as far as the collector can keep to it: what stays of
// a trial takes two thirds of its part.
const (
	leastMemory = 240 << 20
	trialMemory = 24 << 10
)

// frugal makes the collector work harder near the memory that so many trials may take,
// until it is undone. Without it what is garbage takes as much again as what is in use.
func frugal(trials int) (undo func()) {
	was := debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(was, int64(max(leastMemory, trials*trialMemory))))
	return func() { debug.SetMemoryLimit(was) }
}

// All rebuilds every table and summary of a run, which people know by the path of its
// directory; calibration are lines about the client. It fails if ctx has ended, also if only the last file was left to write.
func All(ctx context.Context, dir *rundir.Dir, path string, tables []sinks.Sink, calibration []string) (*report.Run, error) {
	run, err := report.OpenPacked(path)
	if err != nil {
		return nil, err
	}
	defer frugal(len(run.Trials))()
	run.Calibration = calibration
	table := sinks.NewTable(run.Resolved.Columns, run.Whole(), objective.OfCells(run.Outcomes()))
	table.Attempts = run.Attempts()
	for _, dir := range table.Attempts {
		table.Requests = append(table.Requests, filepath.Join(dir, layout.Requests))
		table.Samples = append(table.Samples, filepath.Join(dir, layout.Samples))
	}
	if turns.Compared(run.Resolved.Plan) {
		run.Unpack()
		table.Comparison = &sinks.Rows{Columns: turns.Columns(), Rows: turns.Of(compare.Of(run)).Rows()}
	}
	if len(run.Resolved.Searches) > 0 {
		table.Capacity = &sinks.Rows{Columns: capacity.Columns(run), Rows: capacity.Rows(run)}
	}
	answers, err := paired.Read(path)
	if err != nil {
		return nil, fmt.Errorf("answers to quality prompts: %w", err)
	}
	if answers != nil {
		table.QualityItems = &sinks.Rows{Columns: paired.ItemColumns(), Rows: answers.ItemRows()}
		if answers.Compares() {
			table.Quality = &sinks.Rows{Columns: paired.Columns(), Rows: answers.Rows()}
		}
	}
	broken := make(chan string, 1) // the first panic of those that write
	caught := func(err *error) {
		if v := recover(); v != nil {
			*err = fmt.Errorf("panic: %v", v)
			select {
			case broken <- fmt.Sprintf("%v\n\n%s", v, debug.Stack()):
			default:
			}
		}
	}
	create := func(name string, write func(sinks.Writer) error) (err error) {
		defer caught(&err) // a sink may call it in a goroutine of its own
		return dir.Derive(name, func(w io.Writer) error { return write(w) })
	}
	building, each := errgroup.WithContext(ctx)
	for _, s := range tables { // each has files of its own
		building.Go(func() (err error) {
			defer caught(&err)
			return s.Build(each, table, create)
		})
	}
	err = building.Wait()
	select {
	case v := <-broken:
		panic(v) // of the caller, who can still say how the run ended
	default:
	}
	if err != nil {
		return nil, fmt.Errorf("derived tables: %w", err)
	}
	run.Unpack() // after the tables, which need the memory
	// Before the summary, which names the files that there are.
	if err := dir.Derive(layout.Answer, func(w io.Writer) error { return answer.Write(w, run) }); err != nil {
		return nil, fmt.Errorf("%s: %w", layout.Answer, err)
	}
	err = dir.Derive(layout.Summary, func(w io.Writer) error {
		return summary.Write(w, run, draw.Style{Markdown: true})
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", layout.Summary, err)
	}
	return run, context.Cause(ctx)
}
