package kubelock

import (
	"testing"

	"sweep.dev/sweep/internal/polltest"
)

func TestMain(m *testing.M) { polltest.Main(m, 8) }
