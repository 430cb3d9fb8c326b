package executor

import (
	"testing"

	"go.uber.org/goleak"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/rundir/rundirtest"
)

func TestMain(m *testing.M) {
	rundirtest.InMemory()
	polltest.Parallel(16)
	goleak.VerifyTestMain(m)
}
