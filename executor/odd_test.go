package executor

import (
	"strings"
	"testing"

	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/rundir"
)

// TestOdd holds that a limit which is far from what the first VALID trial measured is named
// once.
func TestOdd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, `matrix: {engine: sim, concurrency: [1, 2]}`,
		`slo: {slow: p95_e2e_ms < 10000000}`, `timeouts: {request: 10h}`)
	w.must(func(c *Config) { c.State.Manifest.Decide = rundir.DecideBound })
	var got []string
	for _, e := range w.seen(event.Notice) {
		if strings.HasPrefix(e.Text, "slo.") {
			got = append(got, e.Text)
		}
	}
	if len(got) != 1 || !strings.HasPrefix(got[0], "slo.slow: p95_e2e_ms is ") || !strings.HasSuffix(got[0], "which no load is likely to miss") {
		t.Errorf("%q", got)
	}
}
