//go:build slow

package main

import "testing"

// TestScripts_slow runs every testdata/slow/*.txtar: scripts of many runs, whose promises
// tests of the executor, of backends/command and of load/calibrate hold without a process.
func TestScripts_slow(t *testing.T) {
	t.Parallel()
	runScripts(t, "testdata/slow")
}
