package epoll

import (
	"context"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"sweep.dev/sweep/load/wire"
)

// open opens a connection for s, or a spare one if s is nil: a message to the loop
// carries the result.
func (l *loop) open(s *slot) {
	if s != nil {
		s.pending = true
	}
	r := l.run
	r.helpers.Go(func() {
		select {
		case r.dialing <- struct{}{}:
		case <-r.base.Done():
			l.post(message{slot: s, fd: -1, err: context.Cause(r.base)})
			return
		}
		defer func() { <-r.dialing }()
		fd, err := r.driver.dial(r.base)
		l.post(message{slot: s, fd: fd, err: err})
	})
}

// connect gives s a connection.
func (l *loop) connect(s *slot, fd int) {
	s.fd = int32(fd)
	s.gen++
	s.retrans = 0
	s.lost = false
	if err := l.poller.add(fd, s.index, s.gen); err != nil {
		// Nothing would ever be heard from it.
		_ = unix.Close(fd)
		s.fd = -1
		return
	}
	l.sample(s)
}

// dialed takes in the connection that was opened for s.
func (l *loop) dialed(s *slot, fd int, err error) {
	s.pending = false
	if fd >= 0 {
		l.connect(s, fd)
	}
	switch s.state {
	case dialing:
		if s.fd >= 0 {
			l.write(s, s.out)
			return
		}
		if err == nil {
			err = &wire.ConnectError{Err: os.NewSyscallError("epoll_ctl", unix.ENOMEM)}
		}
		wire.NoAnswer(&s.req, nil, err, l.clock.Now())
		l.finish(s, false)
	case waiting:
	default:
		if l.run.open {
			l.rest(s)
		} else if s.fd >= 0 {
			l.hangUp(s)
		}
	}
}

// hangUp closes the connection of s.
func (l *loop) hangUp(s *slot) {
	_ = unix.Close(int(s.fd))
	s.fd = -1
	s.gen++
	if s.state == resting {
		s.state = unused
		l.idle--
		l.timers.remove(s)
	}
}

// drop closes a connection that the server has closed while nothing was asked,
// or that cannot be trusted. Where a request will need one soon, another is
// opened.
func (l *loop) drop(s *slot) {
	l.hangUp(s)
	s.lost = true
	if s.state == waiting && !s.pending {
		l.later(s)
	}
}

// failure returns an error of a connection as package net words it.
func (l *loop) failure(s *slot, op string, errno syscall.Errno) error {
	call := "recvmsg"
	if op == "write" {
		call = "write"
	}
	e := &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(call, errno)}
	if sa, err := unix.Getsockname(int(s.fd)); err == nil {
		e.Source = tcpAddr(sa)
	}
	e.Addr = l.run.remote(int(s.fd))
	return e
}

// remote returns where a connection goes; the kernel forgets that when it breaks.
func (r *run) remote(fd int) net.Addr {
	if sa, err := unix.Getpeername(fd); err == nil {
		if a := tcpAddr(sa); a != nil {
			return a
		}
	}
	if a, err := net.ResolveTCPAddr("tcp", r.driver.addr); err == nil {
		return a
	}
	return nil
}

func tcpAddr(sa unix.Sockaddr) net.Addr {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return &net.TCPAddr{IP: a.Addr[:], Port: a.Port}
	case *unix.SockaddrInet6:
		return &net.TCPAddr{IP: a.Addr[:], Port: a.Port}
	}
	return nil
}
