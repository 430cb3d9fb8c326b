package parquet

import (
	"bytes"
	"testing"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/store/storetest"
	"sweep.dev/sweep/sinks"
	"sweep.dev/sweep/sinks/sinktest"
)

func TestContract(t *testing.T) {
	sinktest.Run(t, sinktest.Suite{
		New: func(columns []result.Column) (sinks.Sink, error) {
			return Factory().New(func(any) error { return nil }, columns)
		},
		Files: []string{"cells.parquet", "groups.parquet", "requests.parquet", "samples.parquet"},
		Cells: "cells.parquet",
		Read: func(data []byte, columns []result.Column) ([]result.Row, error) {
			_, rows, err := storetest.ReadTable(bytes.NewReader(data), int64(len(data)))
			return rows, err
		},
	})
}
