//go:build e2e_kube

package kube

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// longest is how long a command of a test may take. One that hangs fails its test, and not
// all of them by the end of their time.
const longest = 5 * time.Minute

// command returns a program that runs for [longest] at most. Then it says where it waits.
func command(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longest) // beyond t.Context, which ends before cleanups
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("%v has not ended after %v", args, longest)
		}
		return cmd.Process.Signal(syscall.SIGQUIT)
	}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// listen runs a command that prints events, calls each with every one, and returns how the
// command ended.
func listen(t *testing.T, cmd *exec.Cmd, each func(event string)) error {
	t.Helper()
	events, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return err
	}
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return err
	}
	for lines := bufio.NewScanner(events); lines.Scan(); {
		each(lines.Text())
	}
	return cmd.Wait()
}
