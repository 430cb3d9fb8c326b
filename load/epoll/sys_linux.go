package epoll

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls of the loop are raw: the scheduler does not hear of them,
// which saves a quarter of the CPU. None of them may wait for long, because the
// loop keeps its processor meanwhile.

// A poller is one epoll and the event by which others wake it.
type poller struct {
	fd, wake int
	coarse   bool // the kernel counts in milliseconds
	events   []unix.EpollEvent
}

// wakeIndex is the place of the wake-up among the indices of slots.
const wakeIndex = -1

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	p := &poller{fd: fd, wake: -1, events: make([]unix.EpollEvent, 512)}
	if p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
		err = unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, p.wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: wakeIndex})
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *poller) close() {
	if p.wake >= 0 {
		_ = unix.Close(p.wake)
	}
	_ = unix.Close(p.fd)
}

// add watches a connection, by edges: an event is new bytes, and what was not
// read before is not told again. gen comes back with each event.
func (p *poller) add(fd int, index, gen int32) error {
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: index, Pad: gen,
	})
}

// notify ends the wait from another goroutine.
func (p *poller) notify() {
	one := uint64(1)
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, uintptr(p.wake), uintptr(unsafe.Pointer(&one)), 8)
}

// notified takes the wake-up back.
func (p *poller) notified() {
	var n uint64
	_, _, _ = syscall.RawSyscall(unix.SYS_READ, uintptr(p.wake), uintptr(unsafe.Pointer(&n)), 8)
}

// wait waits for at most d and returns how many events there are.
func (p *poller) wait(d time.Duration) int {
	size := uintptr(len(p.events))
	if !p.coarse {
		ts := unix.NsecToTimespec(max(0, int64(d)))
		n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])), size,
			uintptr(unsafe.Pointer(&ts)), 0, 0)
		if errno == 0 {
			return int(n)
		}
		// A signal: the runtime wants the goroutine to yield, and the next
		// function call does.
		p.coarse = errno == unix.ENOSYS
		return 0
	}
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])), size,
		uintptr(max(0, d.Milliseconds())), 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// send writes what the socket takes at once.
func send(fd int, b []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
			unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			return int(n), 0
		case unix.EINTR:
			continue
		}
		return 0, errno
	}
}

// fineTimers has this thread's waits end when they are due and not 50 us later,
// until the returned function is called.
func fineTimers() func() {
	if unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) != nil {
		return func() {}
	}
	return func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) } // 0 is the default
}
