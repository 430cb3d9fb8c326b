package stamp

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair returns a connection over loopback.
func pair(tb testing.TB) (client, server net.Conn) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// stamped reports whether this system has stamps, and has the kernel give them.
func stamped(t *testing.T) bool {
	t.Helper()
	t.Cleanup(Keep(t.Context()))
	return runtime.GOOS == "linux"
}

// Once Keep has returned, the first read of a new connection is stamped.
func TestKeep(t *testing.T) {
	if !stamped(t) {
		return
	}
	client, server := pair(t)
	c := Wrap(client, NewClock(result.NewAnchor()))
	b := make([]byte, 8)
	if _, err := server.Write(b); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
	if c.Last().Lag == result.Never {
		t.Error("it came unstamped")
	}
}

// write sends the time at which it is called, and returns it.
func write(t *testing.T, c net.Conn, a result.Anchor) time.Duration {
	t.Helper()
	var b [8]byte
	now := a.Since()
	binary.LittleEndian.PutUint64(b[:], uint64(now))
	if _, err := c.Write(b[:]); err != nil {
		t.Fatal(err)
	}
	return now
}

// arrived waits until the kernel has so many bytes for the reader of a connection.
func arrived(t *testing.T, c net.Conn, n int) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, n)
	polltest.Until(t, "the bytes arrive", func() bool {
		there := 0
		if err := raw.Control(func(fd uintptr) {
			there, _, _ = syscall.Recvfrom(int(fd), b, syscall.MSG_PEEK)
		}); err != nil {
			t.Fatal(err)
		}
		return there == n
	})
}

// A stamp lies between the send and the return of the read, for every segment,
// also where the reader comes late; and nothing came before After.
func TestConn_betweenSendAndRead(t *testing.T) {
	kernel := stamped(t)
	a := result.NewAnchor()
	clock := NewClock(a)
	client, server := pair(t)
	c := Wrap(client, clock)
	defer c.Close()
	sent := make(chan time.Duration, 1)
	lateness := 0
	b := make([]byte, 64)
	for i := range 300 {
		if i%3 == 0 { // there before the read is called
			sent <- write(t, server, a)
			arrived(t, client, 8)
			time.Sleep(500 * time.Microsecond) // is how late the reader comes
		} else {
			go func() {
				time.Sleep(200 * time.Microsecond)
				sent <- write(t, server, a)
			}()
		}
		n, err := c.Read(b)
		returned := a.Since()
		if err != nil || n != 8 {
			t.Fatalf("%d bytes, %v", n, err)
		}
		at, m := <-sent, c.Last()
		if m.At < at || m.At > returned || m.Read != i+1 {
			t.Fatalf("sent %v, stamped %v, returned %v: read %d", at, m.At, returned, m.Read)
		}
		if m.After != result.Never && m.After > m.At {
			t.Fatalf("stamped %v, after %v", m.At, m.After)
		}
		if kernel && (m.Lag == result.Never || m.Lag != 0 && m.At+m.Lag > returned) {
			t.Fatalf("lag %v of %v to %v", m.Lag, m.At, returned)
		}
		// Half a millisecond passed before the reader came.
		if i%3 == 0 && m.Lag > 300*time.Microsecond {
			lateness++
		}
	}
	if n := c.Last().Unstamped; kernel && (n > 0 || lateness < 50) {
		t.Errorf("%d reads without a stamp; %d of 100 late reads have a lag", n, lateness)
	}
	if len(clock.Steps()) > 0 {
		t.Errorf("steps %v", clock.Steps())
	}
	if rtt, _, ok := c.TCP(); kernel && (!ok || rtt <= 0 || rtt > time.Second) {
		t.Errorf("round trip %v, %v", rtt, ok)
	}
}

// Several segments that one read returns have the stamp of the last, and none of them
// came before After. The rest that a short read leaves behind keeps the stamp.
func TestConn_coalesced(t *testing.T) {
	if !stamped(t) {
		t.Log("no stamps here: the bounds alone are looked at")
	}
	a := result.NewAnchor()
	client, server := pair(t)
	c := Wrap(client, NewClock(a))
	defer c.Close()
	b := make([]byte, 64)
	write(t, server, a)
	if _, err := c.Read(b); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		first := write(t, server, a)
		arrived(t, client, 8)
		second := write(t, server, a)
		arrived(t, client, 16)
		n, err := c.Read(b[:12])
		m := c.Last()
		if err != nil || n != 12 || m.At < second || m.After != result.Never && m.After > first {
			t.Fatalf("%d bytes, %v: sent %v and %v, stamped %v, after %v", n, err, first, second, m.At, m.After)
		}
		if m.After == result.Never {
			t.Fatal("nothing bounds the error of the first")
		}
		// The rest of the second segment.
		if _, err := io.ReadFull(c, b[:4]); err != nil {
			t.Fatal(err)
		}
		if m.Lag != result.Never && c.Last().At != m.At {
			t.Fatalf("the two parts of one segment came at %v and %v", m.At, c.Last().At)
		}
	}
}

// The mark of the last read survives TLS.
func TestConn_tls(t *testing.T) {
	kernel := stamped(t)
	srv := httptest.NewUnstartedServer(nil) // for its certificate
	srv.StartTLS()
	defer srv.Close()
	client, server := pair(t)
	a := result.NewAnchor()
	c := Wrap(client, NewClock(a))
	secure := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	far := tls.Server(server, srv.TLS)
	done := make(chan error, 1)
	go func() { done <- far.Handshake() }()
	if err := secure.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	for range 100 {
		at := write(t, far, a)
		arrived(t, client, 8) // what is around them is not counted
		n, err := secure.Read(b)
		m := c.Last()
		if err != nil || n != 8 || m.At < at || kernel && (m.Lag == result.Never || m.At+m.Lag > a.Since()) {
			t.Fatalf("%d bytes, %v: sent %v, %+v", n, err, at, m)
		}
	}
}

// Pipes have no kernel to stamp them.
func TestConn_plain(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	a := result.NewAnchor()
	c := Wrap(here, NewClock(a))
	defer c.Close()
	b := make([]byte, 64)
	for i := range 3 {
		sent := make(chan time.Duration, 1)
		go func() { sent <- write(t, there, a) }()
		if _, err := c.Read(b); err != nil {
			t.Fatal(err)
		}
		m, at := c.Last(), <-sent
		if m.At < at || m.Lag != result.Never || m.Read != i+1 || m.Unstamped != i+1 || i > 0 && (m.After == result.Never || m.After > at) {
			t.Errorf("sent %v: %+v", at, m)
		}
	}
	if _, _, ok := c.TCP(); ok {
		t.Error("a pipe has a round trip")
	}
	there.Close()
	if _, err := c.Read(b); !errors.Is(err, io.EOF) || c.Last().Read != 3 {
		t.Errorf("%v after the end, %d reads", err, c.Last().Read)
	}
}

func TestConn_ends(t *testing.T) {
	client, server := pair(t)
	c := Wrap(client, NewClock(result.NewAnchor()))
	_ = c.SetReadDeadline(time.Now().Add(-time.Second))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v past the deadline", err)
	}
	_ = c.SetReadDeadline(time.Time{})
	server.Close()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("%v after the end", err)
	}
	c.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a closed connection was read")
	}
}

// A clock that was set is noticed, and what is stamped afterwards is right.
func TestClock_step(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, -60 * time.Microsecond, 40 * time.Microsecond, 60 * time.Microsecond, 3 * time.Second} {
		c := NewClock(result.NewAnchor())
		const wall = int64(1_700_000_000_000_000_000)
		set := time.Duration(0)
		mono := time.Second
		c.sample = func() (time.Duration, int64, time.Duration) { return mono, wall + int64(mono+set), 0 }
		c.offset.Store(wall)
		c.Check()
		set, mono = by, 2*time.Second
		c.Check()
		c.Check()
		var want []load.ClockStep
		if by.Abs() > maxStep {
			want = []load.ClockStep{{At: mono, By: by}}
		}
		if got := c.Steps(); len(got) != len(want) || len(want) > 0 && got[0] != want[0] {
			t.Errorf("set by %v: steps %v, want %v", by, got, want)
		}
		if got := c.At(wall + int64(by) + int64(mono)); got != mono {
			t.Errorf("set by %v: %v is %v", by, mono, got)
		}
	}
}

// A clock that was set is noticed by the first stamp that it makes impossible.
func TestConn_clockWasSet(t *testing.T) {
	if !stamped(t) {
		t.Log("no stamps here: there is nothing to notice")
		return
	}
	for _, by := range []time.Duration{-20 * time.Millisecond, time.Hour} {
		a := result.NewAnchor()
		clock := NewClock(a)
		client, server := pair(t)
		c := Wrap(client, clock)
		b := make([]byte, 64)
		for range 3 {
			write(t, server, a)
			if _, err := c.Read(b); err != nil {
				t.Fatal(err)
			}
		}
		// As if the wall clock had been set since it was last looked at.
		clock.offset.Add(-int64(by))
		at := write(t, server, a)
		if _, err := c.Read(b); err != nil {
			t.Fatal(err)
		}
		if m := c.Last(); m.At < at || m.At > a.Since() {
			t.Errorf("set by %v: sent %v, stamped %v", by, at, m.At)
		}
		if steps := clock.Steps(); len(steps) != 1 || (steps[0].By-by).Abs() > time.Millisecond {
			t.Errorf("set by %v: steps %v", by, steps)
		}
	}
}

// A reading that was torn by the loss of the CPU is no step, and no news.
func TestClock_torn(t *testing.T) {
	c := NewClock(result.NewAnchor())
	before := c.offset.Load()
	c.sample = func() (time.Duration, int64, time.Duration) {
		return time.Second, before + int64(time.Second+200*time.Microsecond), 300 * time.Microsecond
	}
	c.Check()
	if len(c.Steps()) != 0 || c.offset.Load() != before {
		t.Errorf("steps %v, offset moved by %d", c.Steps(), c.offset.Load()-before)
	}
}

// The real clocks do not drift apart unless they are set.
func TestClock_steady(t *testing.T) {
	a := result.NewAnchor()
	c := NewClock(a)
	for range 20 {
		c.Check()
		now := time.Now()
		if d := (c.At(now.UnixNano()) - now.Sub(a.Start)).Abs(); d > time.Millisecond {
			t.Fatalf("%v apart", d)
		}
	}
}

func TestConn_allocatesNothing(t *testing.T) {
	client, server := pair(t)
	c := Wrap(client, NewClock(result.NewAnchor()))
	defer c.Close()
	b := make([]byte, 8)
	if n := testing.AllocsPerRun(200, func() {
		if _, err := server.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatal(err)
		}
		_ = c.Last()
	}); n != 0 {
		t.Errorf("%v allocations a read", n)
	}
}
