package worker

import (
	"testing"
	"time"
)

// The fastest round trip tells a clock best: its answer cannot be wrong by more than half
// of it, however unevenly the slower ones went.
func TestTightest(t *testing.T) {
	t.Parallel()
	const (
		ms    = time.Millisecond
		ahead = 7 * time.Second      // the client's instants
		wall  = int64(3 * time.Hour) // and its wall clock
	)
	ask := func(from, there, back time.Duration) look {
		return look{from: from, to: from + there + back, theirs: reading{
			Mono: from + there + ahead, Wall: wall + int64(there),
		}}
	}
	got := tightest([]look{ask(0, 9*ms, ms), ask(20*ms, ms, ms), ask(30*ms, 0, 4*ms)})
	if want := (offset{By: -ahead, Error: ms, Wall: 3 * time.Hour}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
