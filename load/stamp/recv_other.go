//go:build !linux

package stamp

import (
	"errors"
	"syscall"
	"time"
)

// ControlSize is the room that Recv needs for a stamp.
const ControlSize = 0

// Enable cannot: this system's stamps are not known here.
func Enable(int) error { return errors.ErrUnsupported }

// Recv is not there without stamps.
func Recv(int, []byte, []byte) (n int, realtimeNS int64, errno syscall.Errno) {
	return 0, 0, syscall.ENOSYS
}

// TCP does not know.
func TCP(int) (rtt time.Duration, retransmits int, ok bool) { return 0, 0, false }
