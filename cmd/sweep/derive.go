package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/answer"
	"sweep.dev/sweep/report/details"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/sinks"
)

// derive rebuilds every table and summary of a run from its committed trials. It
// fails if ctx has ended, also where only the last file was left to write.
func derive(ctx context.Context, j job) (*report.Run, error) {
	run, err := report.Open(j.path)
	if err != nil {
		return nil, err
	}
	if j.calibration != nil {
		run.Calibration = j.calibration.Lines()
	}
	table := sinks.Table{Columns: run.Resolved.Columns, Rows: run.Rows(), Objectives: objective.OfCells(run.Outcomes()), Attempts: run.Attempts()}
	for _, dir := range table.Attempts {
		table.Requests = append(table.Requests, filepath.Join(dir, layout.Requests))
		table.Samples = append(table.Samples, filepath.Join(dir, layout.Samples))
	}
	create := func(name string, write func(sinks.Writer) error) error {
		return j.dir.Derive(name, func(w io.Writer) error { return write(w) })
	}
	for _, s := range j.plugins.sinks {
		if err := s.Build(ctx, table, create); err != nil {
			return nil, fmt.Errorf("derived tables: %w", err)
		}
	}
	err = j.dir.Derive(layout.Summary, func(w io.Writer) error { return details.Write(w, run, draw.Style{Markdown: true}) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", layout.Summary, err)
	}
	if err := j.dir.Derive(layout.Answer, func(w io.Writer) error { return answer.Write(w, run) }); err != nil {
		return nil, fmt.Errorf("%s: %w", layout.Answer, err)
	}
	return run, context.Cause(ctx)
}

// writeRows writes rows as JSON lines with the columns that are not null.
func writeRows(w io.Writer, rows []result.Row) error {
	enc := json.NewEncoder(plaintext.JSON(w))
	for _, row := range rows {
		clean := make(map[string]any, len(row))
		for k, v := range row {
			if v != nil {
				clean[k] = v
			}
		}
		if err := enc.Encode(clean); err != nil {
			return err
		}
	}
	return nil
}
