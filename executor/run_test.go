package executor

import (
	"testing"
)

// Cells that share their server's axes are measured on one launch; others are
// not.
func TestRun_oneLaunchForEachServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, `matrix: {engine: sim, gpu: [a, b], concurrency: [1, 2]}`)
	rep := w.must()
	want(t, "committed", rep.Committed, 4)
	want(t, "outcomes", w.summary(), "ok/1 ok/1 ok/1 ok/1")
	want(t, "launches", w.backend.count("launch"), 2)
	want(t, "stops", w.backend.count("stop"), 2)
	want(t, "at once", w.backend.peak, 1)
	for _, s := range w.backend.list() {
		want(t, "requests of a server", len(s.prompts()), 2*(2+1))
		want(t, "cache resets of a server", s.looked("reset"), 2)
	}
	st := w.state()
	want(t, "owed pods", len(st.Owed), 0)
	want(t, "finished", st.Finished, true)
}
