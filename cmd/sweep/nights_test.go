package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sweep.dev/sweep/nightly/history"
)

// nights puts quiet nights before the only night of a history, and changes that one:
// nights FILE NUMBER FACTOR. The figures of the nights before scatter by 1 % around
// FACTOR times those of the only one.
func nights(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: nights FILE NUMBER FACTOR")
	}
	path := ts.MkAbs(args[0])
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	factor, err := strconv.ParseFloat(args[2], 64)
	ts.Check(err)
	ts.Check(nightsBefore(path, n, factor))
}

// nightsBefore is the work of nights.
func nightsBefore(path string, n int, factor float64) error {
	f, err := history.Read(path)
	if err != nil {
		return err
	}
	var list []history.Night
	for i := range n {
		for _, night := range f.Nights {
			night.Date, night.Run = night.Date.Add(time.Duration(i-n)*24*time.Hour), fmt.Sprint("before", i)
			night.Subject.EngineVersion, night.Subject.Digest = "0.0.1", "before"
			figures := map[string]history.Figure{}
			for name, figure := range night.Figures {
				if figure.Mean != nil {
					v := *figure.Mean * factor * (1 + 0.01*float64(i%3-1))
					figure.Mean = &v
				}
				figures[name] = figure
			}
			night.Figures = figures
			list = append(list, night)
		}
	}
	_, err = history.Add(context.Background(), nil, path, list, nil)
	return err
}
