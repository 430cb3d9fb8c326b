//go:build !e2e_ssh

package ssh_test

import (
	"testing"

	"sweep.dev/sweep/backends/ssh/sshtest"
)

// server returns what all tests of this package run against. With the build tag
// e2e_ssh it is OpenSSH.
func server(t testing.TB) *sshtest.Server { return sshtest.StartInProcess(t) }
