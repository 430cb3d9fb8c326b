package serving

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quiet is a run without a display.
type quiet struct{}

func (quiet) Emit(event.Event)                          {}
func (quiet) Record(context.Context, event.Event) error { return nil }
func (quiet) Stop(error)                                {}

// noDir is a run directory of which nothing is asked but its ledger, which is not
// used.
type noDir struct{ Dir }

func (noDir) Ledger() backends.Ledger { return nil }

// want fails unless got is want.
func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
