package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
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

// nightsBefore does the work of nights.
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
	// Older nights are added before: to a new file.
	if err := os.Remove(path); err != nil {
		return err
	}
	for _, nights := range [][]history.Night{list, f.Nights} {
		if _, err := history.Add(context.Background(), nil, path, nights, f.Settings[nights[0].Run]); err != nil {
			return err
		}
	}
	return nil
}

// TestInTime holds that a night is refused before it is measured if the clock is behind the
// nights of its plan, or if its history is none.
func TestInTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "chat.jsonl")
	night := history.Night{Date: time.Date(2026, 3, 2, 2, 0, 0, 0, time.UTC), Run: "a", Plan: "chat", Key: history.Key{Cell: "x"}}
	if _, err := history.Add(t.Context(), nil, path, []history.Night{night}, nil); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "notes.txt")
	write(t, other, "by hand\n")
	for _, c := range []struct {
		path, plan string
		now        time.Time
		want       string
	}{
		{path, "chat", night.Date.Add(24 * time.Hour), ""},
		{path, "chat", night.Date.AddDate(-50, 0, 0), "the night of 1976-03-02T02:00:00Z is older than that of 2026-03-02T02:00:00Z (run a)"},
		{path, "other", night.Date.AddDate(-50, 0, 0), ""},
		{filepath.Join(dir, "none"), "chat", night.Date, ""},
		{other, "chat", night.Date, "notes.txt:1: not a history of sweep"},
	} {
		err := inTime(c.path, c.plan, c.now)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%+v: %v", c, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || exitCode(err) != exitUsage):
			t.Errorf("%v, exit %d, want %s", err, exitCode(err), c.want)
		}
	}
}
