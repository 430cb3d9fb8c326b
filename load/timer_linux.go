package load

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A kernelTimer is a timerfd in the runtime's poller: an event of a file wakes
// the poller at once, where its own timers wait for the next millisecond.
type kernelTimer struct{ file *os.File }

func newKernelTimer() sleeper {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil // a sandbox that lacks it
	}
	return &kernelTimer{os.NewFile(uintptr(fd), "timerfd")}
}

func (k *kernelTimer) sleep(ctx context.Context, d time.Duration) {
	// The last sleep may have been cut short.
	_ = k.file.SetReadDeadline(time.Time{})
	raw, err := k.file.SyscallConn()
	if err != nil {
		return
	}
	err = raw.Control(func(fd uintptr) {
		spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, d.Nanoseconds()))}
		_ = unix.TimerfdSettime(int(fd), 0, &spec, nil)
	})
	if err != nil {
		return
	}
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = k.file.SetReadDeadline(time.Unix(1, 0))
	})
	var count [8]byte
	_, _ = k.file.Read(count[:])
	if !stop() {
		<-cut
	}
}

func (k *kernelTimer) close() { _ = k.file.Close() }
