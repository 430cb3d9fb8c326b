package main

import (
	"context"
	"encoding/json"
	"io"
	"iter"

	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/derive"
	"sweep.dev/sweep/result"
)

// derived rebuilds every table and summary of a run from its committed trials.
// A panic is an error: it hides neither the state of the run nor that of its servers.
func derived(ctx context.Context, j job) (_ *report.Run, err error) {
	defer serving.Recovered(&err)
	var calibration []string
	if j.calibration != nil {
		calibration = j.calibration.Lines()
	}
	return derive.All(ctx, j.dir, j.path, j.plugins.sinks, calibration)
}

// writeRows writes rows as JSON lines with the columns that are not null.
func writeRows(w io.Writer, rows iter.Seq[result.Row]) error {
	enc := json.NewEncoder(plaintext.JSON(w))
	for row := range rows {
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
