//go:build !linux

package guard

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"sweep.dev/sweep/internal/effect"
)

func executable() (string, error) { return os.Executable() }

// adopt does nothing: there are no subreapers here.
func adopt() error { return nil }

func keepFilesFromChildren() {
	syscall.CloseOnExec(ordersFD)
	syscall.CloseOnExec(reportsFD)
}

// commandAttr has no signal for the guard's own death: there is none here.
func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func pin([]int) (func(), error) {
	return nil, fmt.Errorf("no process can be pinned to CPUs on %s: %w", runtime.GOOS, syscall.ENOTSUP)
}

// signalTree sends sig to the command's process group; what has left it is
// lost to us.
func signalTree(command int, sig syscall.Signal) {
	var fx *effect.Effects // faults are for the parent
	_ = fx.Kill(effect.KillServer, -command, sig)
}

// tree knows of the command only.
func tree(_, command int) []int { return []int{command} }
