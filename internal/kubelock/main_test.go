package kubelock

import (
	"os"
	"testing"

	"sweep.dev/sweep/internal/polltest"
)

func TestMain(m *testing.M) {
	polltest.Parallel(8) // they wait for a cluster that is played to them
	os.Exit(m.Run())
}
