package sshtest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A Proxy is a wire that can be cut.
type Proxy struct {
	Port int

	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	after int64 // bytes to the server until the next connection is cut; -1 never
	down  bool
}

// Between starts a proxy in front of a server. It ends with the test.
func Between(t testing.TB, s *Server) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Port: l.Addr().(*net.TCPAddr).Port, listener: l, to: s.Addr(), after: -1}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Cut ends every connection there is.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// Down refuses all connections until it is called with false.
func (p *Proxy) Down(down bool) {
	p.mu.Lock()
	p.down = down
	p.mu.Unlock()
	if down {
		p.Cut()
	}
}

// CutAfter cuts the next connection, and only that, when so many bytes have gone
// to the server.
func (p *Proxy) CutAfter(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after = n
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.join(c) })
	}
}

func (p *Proxy) join(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer s.Close()
	p.mu.Lock()
	if p.down {
		p.mu.Unlock()
		return
	}
	after := p.after
	p.after = -1
	p.conns = append(p.conns, c, s)
	p.mu.Unlock()
	p.wg.Go(func() {
		_, _ = io.Copy(c, s)
		c.Close()
		s.Close()
	})
	var from io.Reader = c
	if after >= 0 {
		from = io.LimitReader(c, after)
	}
	_, _ = io.Copy(s, from)
}
