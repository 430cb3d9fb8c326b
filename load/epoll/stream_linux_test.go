package epoll

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/stamp"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// A bench is a loop without a server: a test gives it the bytes that its one
// connection brings, in the segments that it likes.
type bench struct {
	loop *loop
	slot *slot
	peer int // the other end of the connection
	rows recorder
}

type nothing struct{}

func (nothing) Loop() load.Loop                            { return load.Loop{Slots: 1} }
func (nothing) Next(int, *result.Request) (load.Job, bool) { return load.Job{}, false }

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{}
	cfg := wire.Config{BaseURL: "http://127.0.0.1:1", Model: "m", Chat: true, Stream: true, MaxResponse: 1 << 20}
	r := &run{
		driver: newDriver(t, cfg), ctx: context.Background(), base: context.Background(),
		clock: stamp.NewClock(result.NewAnchor()), src: nothing{}, rec: &b.rows,
	}
	var err error
	if b.loop, err = newLoop(r); err != nil {
		t.Fatal(err)
	}
	r.loops = append(r.loops, b.loop)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.peer = pair[1]
	s := b.loop.adopt(new(slot))
	b.slot = s
	job := load.Job{MaxTokens: 8}
	b.loop.assign(s, &job, 0)
	b.loop.connect(s, pair[0])
	b.loop.live = 1
	s.state, s.marked = asked, true
	s.req.Sent = r.clock.Now()
	s.req.Status, s.req.Error = "", ""
	s.last = s.req.Sent
	return b
}

// row returns what was recorded once the answer has ended.
func (b *bench) row(t testing.TB) result.Request {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); len(b.rows) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the answer does not end")
		}
		b.loop.poller.wait(longestWait)
		b.loop.receive()
	}
	b.loop.run.helpers.Wait()
	b.loop.close()
	return timeless(b.rows)[0]
}

// fast returns the row of an answer that comes in segments and ends with its
// connection.
func fast(t testing.TB, segments ...string) result.Request {
	t.Helper()
	b := newBench(t)
	s := b.slot
	for _, segment := range segments {
		switch {
		case len(b.rows) > 0, segment == "":
		case s.state == away:
			// The test does not need the bytes that a socket does not take.
			_, _ = unix.SendmsgN(b.peer, []byte(segment), nil, nil, unix.MSG_NOSIGNAL)
		default:
			in := append(bytes.Clone(s.tail), segment...)
			s.tail = s.tail[:0]
			b.loop.take(s, in, b.loop.mark(s, 0, b.loop.clock.Now()))
			for i := range in {
				in[i] = '#'
			}
		}
	}
	if len(b.rows) == 0 && s.state != away {
		b.loop.closed(s)
	}
	_ = unix.Close(b.peer)
	return b.row(t)
}

// standard returns the row that net/http makes of the same bytes.
func standard(t testing.TB, stream string) result.Request {
	t.Helper()
	b := newBench(t)
	_ = unix.Close(b.peer)
	b.loop.handOver(b.slot, []byte(stream), io.EOF)
	return b.row(t)
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"

func chunked(events string, size int) string {
	var b strings.Builder
	b.WriteString(streamHead + "Transfer-Encoding: chunked\r\n\r\n")
	for len(events) > 0 {
		n := min(size, len(events))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, events[:n])
		events = events[n:]
	}
	b.WriteString("0\r\n\r\n")
	return b.String()
}

// forms returns an answer of these events in each form that a body can have.
func forms(events string) []string {
	return []string{
		chunked(events, 1<<20), chunked(events, 300), chunked(events, 7),
		streamHead + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(events)) + events,
		streamHead + "\r\n" + events,
	}
}

func recorded(tb testing.TB) []string {
	tb.Helper()
	files, err := filepath.Glob("../wire/testdata/*.sse")
	if err != nil || len(files) < 3 {
		tb.Fatalf("recorded streams: %v %v", files, err)
	}
	var out []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

// A recorded stream gives the same row wherever its bytes are cut, as it does by
// net/http.
func TestStream_recorded(t *testing.T) {
	spread := 20 // the later the cut, the fewer states of the parser are new
	if slow.Tests {
		spread = 97
	}
	for _, events := range recorded(t) {
		for _, stream := range forms(events) {
			want := standard(t, stream)
			if want.Status != result.Completed {
				t.Fatalf("%+v", want)
			}
			check := func(how string, segments ...string) {
				t.Helper()
				if got := fast(t, segments...); !reflect.DeepEqual(want, got) {
					t.Fatalf("%s (-net/http +fast):\n%s", how, cmp.Diff(want, got))
				}
			}
			for i := 0; i < len(stream); i += 1 + i/spread {
				check(fmt.Sprintf("cut at %d", i), stream[:i], stream[i:])
			}
			check("byte by byte", strings.Split(stream, "")...)
		}
	}
}

// FuzzStream holds the loop against net/http for any bytes in any segments:
// either it makes the same row, or it hands over in time.
func FuzzStream(f *testing.F) {
	for _, events := range recorded(f) {
		short := events[:min(len(events), 900)]
		for _, stream := range append(forms(short), chunked(short+"data: [DONE]\n\n", 200)+"x") {
			f.Add(stream, uint16(90), uint16(300))
		}
	}
	for _, s := range []string{
		"HTTP/1.1 100 Continue\r\n\r\n" + streamHead + "\r\ndata: {\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\n",
		"HTTP/1.1 500 no\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"error\":\"x\"}",
		streamHead + "Transfer-Encoding: chunked\r\n\r\n7\r\ndata: {\r\nzz\r\n", streamHead + "\r\nevent: error\r: why\r\r",
		streamHead + "Transfer-Encoding: chunked\r\n\r\n5;a\r\ndata:\r\n0\r\nA: b\r\n\r\n", "SSH-2.0\r\n", "",
		"HTTP/1.1 100 Continue\r\n\r\n",
	} {
		f.Add(s, uint16(3), uint16(7))
	}
	f.Fuzz(func(t *testing.T, stream string, a, b uint16) {
		if len(stream) > 32<<10 {
			return // as much as the socket takes
		}
		i := int(a) % (len(stream) + 1)
		j := i + int(b)%(len(stream)-i+1)
		want, got := standard(t, stream), fast(t, stream[:i], stream[i:j], stream[j:])
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("cut at %d, %d (-net/http +fast):\n%s\n%q", i, j, diff, stream)
		}
	})
}
