//go:build e2e_kube

package kube

import (
	"bufio"
	"os/exec"
	"testing"
)

// listen runs a command that prints events, calls each with every one, and returns how the
// command ended.
func listen(t *testing.T, cmd *exec.Cmd, each func(event string)) error {
	t.Helper()
	events, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(events); lines.Scan(); {
		each(lines.Text())
	}
	return cmd.Wait()
}
