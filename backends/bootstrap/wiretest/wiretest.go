// Package wiretest is somebody between us and a pod: it records what crosses the
// wire and sends it once more.
package wiretest

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// A Wire records what goes over the connections that are made through it. The
// zero Wire is ready; it may be used concurrently.
type Wire struct {
	mu    sync.Mutex
	conns []*conn
}

type conn struct {
	net.Conn
	wire           *Wire
	addr           string
	sent, received bytes.Buffer
}

// Dial connects and records.
func (w *Wire) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	recorded := &conn{Conn: c, wire: w, addr: addr}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, recorded)
	return recorded, nil
}

func (c *conn) Write(p []byte) (int, error) {
	c.wire.mu.Lock()
	c.sent.Write(p)
	c.wire.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	c.received.Write(p[:n])
	return n, err
}

// Requests returns what was sent over each connection, in order; all is every byte
// of both directions. An Agent makes a connection for each request.
func (w *Wire) Requests() (requests []Request, all string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		requests = append(requests, Request{c.addr, bytes.Clone(c.sent.Bytes())})
		all += c.sent.String() + c.received.String()
	}
	return requests, all
}

// A Request is the bytes of one, and where they went.
type Request struct {
	Addr string
	Data []byte
}

// Send sends the bytes of a request to addr as they are, and returns the status
// of the answer.
func Send(t testing.TB, addr string, request []byte) int {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
