package stamp

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ControlSize is the room that Recv needs for a stamp.
const ControlSize = 128

// Enable asks the kernel to stamp the segments that a socket receives. The
// first of a process may come unstamped: the kernel begins to stamp at all when
// somebody first asks.
func Enable(fd int) error {
	const flags = unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW, flags); err != nil {
		return fmt.Errorf("receive timestamps: %w", err)
	}
	return nil
}

// Recv reads from a socket into b and does not wait. realtimeNS is the receive
// time of the last segment that it took, by the wall clock; 0 if there was
// no stamp. oob is room for the stamp, of ControlSize bytes. It allocates
// nothing, and the scheduler does not hear of it.
func Recv(fd int, b, oob []byte) (n int, realtimeNS int64, errno syscall.Errno) {
	if len(b) == 0 {
		return 0, 0, 0
	}
	iov := unix.Iovec{Base: &b[0]}
	iov.SetLen(len(b))
	msg := unix.Msghdr{Iov: &iov}
	msg.SetIovlen(1)
	if len(oob) > 0 {
		msg.Control = &oob[0]
		msg.SetControllen(len(oob))
	}
	for {
		r, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), unix.MSG_DONTWAIT)
		switch errno {
		case 0:
			return int(r), stampOf(oob[:min(int(msg.Controllen), len(oob))]), 0
		case unix.EINTR:
			continue
		}
		return 0, 0, errno
	}
}

// stampOf finds the stamp among control messages: the first of the three
// timespecs that the kernel writes is the one of software.
func stampOf(oob []byte) int64 {
	const size = int(unsafe.Sizeof(unix.Cmsghdr{}))
	for len(oob) >= size {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&oob[0]))
		n := int(h.Len)
		if n < size || n > len(oob) {
			return 0
		}
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SO_TIMESTAMPING_NEW && n >= unix.CmsgLen(16) {
			t := (*[2]int64)(unsafe.Pointer(&oob[unix.CmsgLen(0)])) // 64 bits on every architecture
			return t[0]*1e9 + t[1]
		}
		oob = oob[min(unix.CmsgSpace(n-size), len(oob)):]
	}
	return 0
}

// TCP returns the round trip of a connection as TCP estimates it, and how many
// segments it had to send again.
func TCP(fd int) (rtt time.Duration, retransmits int, ok bool) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil || info.Rtt == 0 {
		return 0, 0, false
	}
	return time.Duration(info.Rtt) * time.Microsecond, int(info.Total_retrans), true
}
