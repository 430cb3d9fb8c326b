//go:build e2e

package e2e

import "testing"

func TestLlamaCpp_honest(t *testing.T) { llamaCpp.honest(t) }
