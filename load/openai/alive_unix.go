//go:build unix

package openai

import "syscall"

// alive reports whether an idle connection is still open: a server may have
// given up on one that it heard nothing from. Where it cannot tell it says yes.
func alive(c *conn) bool {
	s, ok := c.stamps.Conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	open := true
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		// Nothing to read is what an idle connection looks like. What TLS
		// servers send after the handshake (session tickets) is no end either.
		open = n > 0 || err == syscall.EAGAIN || err == syscall.EWOULDBLOCK || err == syscall.EINTR
		return true
	})
	return open && err == nil
}
