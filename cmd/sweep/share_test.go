package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/rundir"
)

// TestShare: who watches is shown the progress of the trial that is measured, and not that
// of the one before, nor what a run that was killed has left.
func TestShare(t *testing.T) {
	t.Parallel()
	u, _, c := onTerminal(t, 80, 24)
	dir := t.TempDir()
	u.shared = filepath.Join(dir, layout.Progress)
	feed(u, runStarted, d1Started, d1Measures, progress(c.at(0), 4, 1000), progress(c.at(1), 8, 1320))
	u.tick()
	details := func(trial string) string {
		l := &liveLine{step: "measure", since: c.now(), key: rundir.Key{Cell: trial, Trial: 1}}
		if s, ok := readShared(dir, c.now())["d1"]; ok {
			l.take(s)
		}
		return strings.Join(l.details(c.now()), "  ")
	}
	want(t, "the trial that is measured", details("a"), "320 tok/s  8/24 requests  4 in flight")
	want(t, "the next trial", details("b"), "measure")
	c.pass(2 * shareStale)
	want(t, "an old progress", details("a"), "measure")
	u.unshare()
	if _, err := os.Stat(u.shared); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}
