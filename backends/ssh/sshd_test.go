//go:build e2e_ssh

package ssh_test

import (
	"strings"
	"syscall"
	"testing"

	"sweep.dev/sweep/backends/ssh/sshtest"
	"sweep.dev/sweep/internal/procfs"
)

// The process of sshd that has our connection is killed: the pod does not
// notice.
func TestSSHD_connectionKilled(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	d, ref := launch(t, configure(t, s), spec(t))
	ready(t, d)
	before := engine(t, d)
	killed := 0
	for _, pid := range procfs.Descendants(s.PID()) {
		if strings.HasPrefix(strings.Join(cmdline(pid), " "), "sshd: ") {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed++
		}
	}
	if killed == 0 {
		t.Fatal("no process of sshd has the connection")
	}
	ready(t, d)
	if err := d.Err(); err != nil {
		t.Errorf("the deployment ended: %v", err)
	}
	if after := engine(t, d); after != before {
		t.Errorf("the engine was %d and is %d", before, after)
	}
	stop(t, d)
	if left := pod(ref.Name); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
