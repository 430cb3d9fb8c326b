//go:build e2e_ssh

package ssh_test

import (
	"testing"

	"sweep.dev/sweep/backends/ssh/sshtest"
)

func server(t testing.TB) *sshtest.Server { return sshtest.Start(t) }
