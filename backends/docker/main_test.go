//go:build !e2e

package docker_test

import (
	"testing"

	"sweep.dev/sweep/backends/backendtest"
)

func TestMain(m *testing.M) { backendtest.Main(m) }
