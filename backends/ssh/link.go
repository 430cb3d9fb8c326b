package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"sweep.dev/sweep/backends"
)

// Bounds of making a lost connection again.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 10 * time.Second
	// unanswered keepalives end a connection.
	unanswered = 3
)

// maxRunning is how many calls run at once on a connection: OpenSSH's own limit
// (MaxSessions) is ten, and a watcher needs one.
const maxRunning = 8

// A link is a connection to the host that is made again when it is lost. Its
// methods may be called concurrently.
type link struct {
	b      *Backend
	users  int             // guarded by the Backend's mutex; see hold
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	running chan struct{} // one for each call at work
	asking  chan struct{} // held by who uses watcher
	watcher *watcher      // nil if there is none

	mu      sync.Mutex
	client  *gossh.Client
	changed chan struct{} // closed and replaced when client or err changes
	err     error         // why it was given up; nil before
}

// hold returns the connection of a pod, which all its holders share; it is opened if
// none is alive. release must be called once; further calls do nothing.
func (b *Backend) hold(ctx context.Context, pod string) (_ *link, release func(), err error) {
	b.mu.Lock()
	l := b.links[pod]
	if l == nil || l.over() {
		b.mu.Unlock()
		if l, err = b.open(ctx); err != nil {
			return nil, nil, err
		}
		b.mu.Lock()
		b.links[pod] = l // one that it replaces is closed by those who hold it
	}
	l.users++
	b.mu.Unlock()
	return l, sync.OnceFunc(func() {
		b.mu.Lock()
		l.users--
		last := l.users == 0
		if last && b.links[pod] == l {
			delete(b.links, pod)
		}
		b.mu.Unlock()
		if last {
			l.close()
		}
	}), nil
}

// over reports whether it is given up.
func (l *link) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil
}

// open connects. The context bounds the connecting, not the link's life; the
// caller closes it.
func (b *Backend) open(ctx context.Context) (*link, error) {
	client, err := b.dial(ctx)
	if err != nil {
		return nil, err
	}
	l := &link{
		b: b, client: client, changed: make(chan struct{}),
		running: make(chan struct{}, maxRunning), asking: make(chan struct{}, 1),
	}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.wg.Go(func() { l.keep(client) })
	return l, nil
}

// close ends the connection and everything that goes through it.
func (l *link) close() {
	l.cancel()
	l.set(nil, net.ErrClosed)
	l.wg.Wait()
}

func (l *link) set(client *gossh.Client, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil { // closed meanwhile
		if client != nil {
			_ = client.Close()
		}
		return
	}
	if l.client != nil {
		_ = l.client.Close()
	}
	l.client, l.err = client, err
	close(l.changed)
	l.changed = make(chan struct{})
}

// current returns the connection, as soon as there is one. gone is closed when it is
// that no more: the library forgets what is asked of a connection in the moment
// in which it ends, and who asks has to look for himself.
func (l *link) current(ctx context.Context) (client *gossh.Client, gone <-chan struct{}, err error) {
	for {
		l.mu.Lock()
		client, err, changed := l.client, l.err, l.changed
		l.mu.Unlock()
		switch {
		case err != nil:
			return nil, nil, err
		case client != nil:
			return client, changed, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("the connection to %s is lost: %w", l.b.address(), context.Cause(ctx))
		}
	}
}

// keep holds a connection until close, or until none can be made.
func (l *link) keep(client *gossh.Client) {
	for {
		l.alive(client)
		if l.ctx.Err() != nil {
			return
		}
		l.set(nil, nil)
		next, err := l.again()
		if l.ctx.Err() != nil {
			if next != nil {
				_ = next.Close()
			}
			return
		}
		if err != nil {
			l.set(nil, fmt.Errorf("the connection is lost: %w", err))
			return
		}
		client = next
		l.set(client, nil)
	}
}

// alive returns when the connection is over, or the host says nothing any more.
func (l *link) alive(client *gossh.Client) {
	over := make(chan struct{})
	l.wg.Go(func() {
		_ = client.Wait() // how it ended makes no difference
		close(over)
	})
	defer client.Close()
	answers := make(chan error, 1)
	tick := time.NewTicker(l.b.c.Keepalive)
	defer tick.Stop()
	asking := false
	for missed := 0; missed < unanswered; {
		select {
		case <-l.ctx.Done():
			return
		case <-over:
			return
		case err := <-answers:
			if err != nil {
				return
			}
			asking, missed = false, 0
		case <-tick.C:
			if asking {
				missed++
				continue
			}
			asking = true
			l.wg.Go(func() { // ends with the client at the latest
				_, _, err := client.SendRequest("keepalive@openssh.com", true, nil)
				answers <- err
			})
		}
	}
}

// again makes a connection, with growing pauses, within Config.Reconnect. A
// refusal is final: it will not change by itself.
func (l *link) again() (*gossh.Client, error) {
	ctx, cancel := context.WithTimeoutCause(l.ctx, l.b.c.Reconnect,
		fmt.Errorf("reconnect: no new one within %v", l.b.c.Reconnect))
	defer cancel()
	var last error
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		client, err := l.b.dial(ctx)
		if err == nil || errors.Is(err, backends.ErrRefused) {
			return client, err
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), last)
		case <-time.After(pause):
		}
	}
}

// dial opens a connection from the host to addr, which is as seen from there.
func (l *link) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	for {
		client, gone, err := l.current(ctx)
		if err != nil {
			return nil, err
		}
		conn, err := dialOn(ctx, client, gone, network, addr)
		var refused *gossh.OpenChannelError
		switch {
		case err == nil:
			return &tunnelled{Conn: conn}, nil
		case errors.As(err, &refused), ctx.Err() != nil: // the host's own answer
			return nil, fmt.Errorf("through %s: %w", l.b.address(), causeOf(ctx, err))
		}
		if err := l.next(ctx, client); err != nil {
			return nil, err
		}
	}
}

// dialOn dials on one connection, as long as that is there.
func dialOn(ctx context.Context, client *gossh.Client, gone <-chan struct{}, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() {
		cancel()
		<-watched
	}()
	return client.DialContext(ctx, network, addr)
}

// next waits until client, which has failed, is not the current one any more.
func (l *link) next(ctx context.Context, client *gossh.Client) error {
	_ = client.Close() // so that no caller takes it for a good one
	for {
		l.mu.Lock()
		now, err, changed := l.client, l.err, l.changed
		l.mu.Unlock()
		if err != nil {
			return err
		}
		if now != client {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A tunnelled connection is a channel of the SSH connection. A deadline that
// passes closes it: channels know none.
type tunnelled struct {
	net.Conn
	mu          sync.Mutex
	read, write *time.Timer
	late        bool
}

func (c *tunnelled) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.reason(err)
}

func (c *tunnelled) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.reason(err)
}

func (c *tunnelled) reason(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && c.late {
		return errLate
	}
	return err
}

// CloseWrite ends our side of it, as a TCP connection can.
func (c *tunnelled) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

func (c *tunnelled) Close() error {
	c.set(&c.read, time.Time{})
	c.set(&c.write, time.Time{})
	err := c.Conn.Close()
	if errors.Is(err, io.EOF) { // the other side was first
		return nil
	}
	return err
}

func (c *tunnelled) SetReadDeadline(t time.Time) error  { c.set(&c.read, t); return nil }
func (c *tunnelled) SetWriteDeadline(t time.Time) error { c.set(&c.write, t); return nil }

func (c *tunnelled) SetDeadline(t time.Time) error {
	c.set(&c.read, t)
	c.set(&c.write, t)
	return nil
}

func (c *tunnelled) set(timer **time.Timer, t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *timer != nil {
		(*timer).Stop()
		*timer = nil
	}
	if t.IsZero() {
		return
	}
	*timer = time.AfterFunc(time.Until(t), func() {
		c.mu.Lock()
		c.late = true
		c.mu.Unlock()
		_ = c.Conn.Close()
	})
}
