package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/slow"
)

const eventStream = "Content-Type: text/event-stream\r\n"

// A reading is what became of an answer.
type reading struct {
	content string
	err     error // io.EOF: all of it was read
	odd     bool
	rest    string // after the end, or what is left to net/http
	keep    bool
}

// read reads an answer that arrives in segments, after which the connection
// ends. Every segment is overwritten once it is used up.
func read(segments ...string) reading {
	var out reading
	var b []byte
	var head *Head
	for i, s := range segments {
		later := strings.Join(segments[i+1:], "")
		b = append(bytes.Clone(b), s...)
		for head == nil {
			h, n, err := ParseHead(b)
			if err != nil {
				if !errors.Is(err, ErrMore) {
					return reading{odd: true, rest: string(b) + later}
				}
				break
			}
			b = b[n:]
			if !h.Interim {
				head = &h
				out.keep = h.Keep
			}
		}
		for head != nil {
			content, n, err := head.Body.Next(b)
			out.content += string(content)
			for i := range b[:n] {
				b[i] = '#'
			}
			b = b[n:]
			if errors.Is(err, ErrMore) {
				break
			}
			if err != nil {
				out.err, out.rest = err, string(b)+later
				if errors.Is(err, ErrOdd) {
					out.odd, out.rest = true, head.Body.Resume()+out.rest
				}
				return out
			}
		}
	}
	switch {
	case head == nil:
		return reading{odd: true, rest: string(b)}
	case out.err == nil:
		out.err = head.Body.EOF()
		if errors.Is(out.err, ErrTrailer) {
			out.odd, out.rest = true, head.Body.Resume()+string(b)
		}
	}
	return out
}

// reference returns what net/http makes of the same bytes.
func reference(stream string) (content string, status int, header http.Header, closed bool, err error) {
	in := bufio.NewReader(strings.NewReader(stream))
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
		if err != nil {
			return "", 0, nil, false, err
		}
		if resp.StatusCode/100 == 1 && resp.StatusCode != 101 {
			continue
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil {
			err = io.EOF
		}
		return string(b), resp.StatusCode, resp.Header, resp.Close, err
	}
}

// agree holds what was read against net/http. What is odd must be so from where
// net/http can go on: it has to come to the same end.
func agree(t *testing.T, stream string, got reading) {
	t.Helper()
	content, status, header, closed, err := reference(stream)
	if got.odd {
		more, _, _, _, rest := reference(got.rest)
		if got.content+more != content || fmt.Sprint(rest) != fmt.Sprint(err) {
			t.Fatalf("handed over, %q + %q (%v) in place of %q (%v)\n%q", got.content, more, rest, content, err, stream)
		}
		return
	}
	if status != 200 || !strings.HasPrefix(strings.ToLower(header.Get("Content-Type")), "text/event-stream") || header.Get("Content-Encoding") != "" {
		t.Fatalf("status %d, header %v is none of ours\n%q", status, header, stream)
	}
	if got.content != content || fmt.Sprint(got.err) != fmt.Sprint(err) {
		t.Fatalf("%q (%v) in place of %q (%v)\n%q", got.content, got.err, content, err, stream)
	}
	if got.keep && closed {
		t.Fatalf("the connection is kept\n%q", stream)
	}
}

func everyCut(t *testing.T, stream string) {
	t.Helper()
	for i := range len(stream) + 1 {
		agree(t, stream, read(stream[:i], stream[i:]))
	}
	agree(t, stream, read(strings.Split(stream, "")...))
}

const ok = "HTTP/1.1 200 OK\r\n" + eventStream

// answers are streams with what they must be: read here, or left to net/http.
var answers = []struct {
	name, stream string
	odd          bool
}{
	{"chunked", ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", false},
	{"extensions", ok + "transfer-encoding: CHUNKED\r\n\r\n5;a=b\r\nhello\r\n0;x\r\n\r\n", false},
	{"trailers", ok + "Transfer-Encoding: chunked\r\n\r\n005\r\nhello\r\n0\r\nA: b\r\nC:  d \r\n\r\n", false},
	{"of a stated length", ok + "Content-Length: 11\r\nConnection: close\r\n\r\nhello world", false},
	{"of no length", ok + "Content-Length: 0\r\n\r\n", false},
	{"ended by the close", ok + "Connection: keep-alive\r\n\r\nhello\r\nworld", false},
	{"after interim answers", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nhi", false},
	{"without a reason", "HTTP/1.1 200\r\n" + eventStream + "Content-Length: 2\r\n\r\nhi", false},
	{"media with a parameter", "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\nContent-Length: 2\r\n\r\nhi", false},
	{"two answers", ok + "Content-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n\r\n", false},
	{"cut off in a chunk", ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhel", false},
	{"cut off in a size", ok + "Transfer-Encoding: chunked\r\n\r\n5", false},
	{"cut off before the last chunk", ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", false},
	{"cut off in a body", ok + "Content-Length: 11\r\n\r\nhello", false},
	{"no line end after a chunk", ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello!!0\r\n\r\n", false},
	{"cut off in the trailer", ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n", true},
	{"cut off after the last chunk", ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n", true},
	{"no size", ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\nxyz\r\n", true},
	{"a bare LF after a size", ok + "Transfer-Encoding: chunked\r\n\r\n2\nhi\r\n", true},
	{"space after a size", ok + "Transfer-Encoding: chunked\r\n\r\n2 \r\nhi\r\n0\r\n\r\n", true},
	{"a long extension", ok + "Transfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("x", 300) + "\r\nhi\r\n0\r\n\r\n", true},
	{"a size beyond reason", ok + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhi\r\n0\r\n\r\n", true},
	{"a trailer that is none", ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nA b\r\n\r\n", true},
	{"an announced trailer", ok + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\n\r\n", true},
	{"both lengths", ok + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n2\r\nhi\r\n0\r\n\r\n", true},
	{"two lengths", ok + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", true},
	{"a length that is none", ok + "Content-Length: +2\r\n\r\nhi", true},
	{"another coding", ok + "Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", true},
	{"compressed", ok + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi", true},
	{"HTTP/1.0", "HTTP/1.0 200 OK\r\n" + eventStream + "\r\nhi", true},
	{"another status", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nhi", true},
	{"JSON", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", true},
	{"no media", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", true},
	{"a folded line", ok + "A: b\r\n c\r\nContent-Length: 2\r\n\r\nhi", true},
	{"bare line feeds", "HTTP/1.1 200 OK\nContent-Type: text/event-stream\n\nhi", true},
	{"a name with a space", ok + "A : b\r\nContent-Length: 2\r\n\r\nhi", true},
	{"an upgrade", ok + "Connection: upgrade\r\nUpgrade: x\r\n\r\nhi", true},
	{"not HTTP", "SSH-2.0-OpenSSH_9.6\r\n", true},
	{"cut off in the head", ok, true},
	{"a long head", ok + "A: " + strings.Repeat("x", MaxHead) + "\r\nContent-Length: 2\r\n\r\nhi", true},
	{"nothing", "", true},
}

func TestRead(t *testing.T) {
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			got := read(c.stream)
			if got.odd != c.odd {
				t.Fatalf("left to net/http: %v, want %v", got.odd, c.odd)
			}
			if len(c.stream) < 2000 {
				everyCut(t, c.stream)
			} else {
				agree(t, c.stream, got)
			}
		})
	}
}

// Bytes that follow an answer are no part of it.
func TestRead_rest(t *testing.T) {
	for _, body := range []string{"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "Content-Length: 2\r\n\r\nhi"} {
		got := read(ok + body + "more")
		if got.content != "hi" || got.rest != "more" || !got.keep {
			t.Errorf("%+v", got)
		}
	}
}

// A head that cannot become one is not waited for.
func TestParseHead_atOnce(t *testing.T) {
	for _, b := range []string{"SSH", "HTTP/2", ok + "A b\r\n", "HTTP/1.1 2000 OK\r\n", "HTTP/1.1 200 OK\n", "\r\n", strings.Repeat("HTTP/1.1 200 ", 2000)} {
		if _, _, err := ParseHead([]byte(b)); !errors.Is(err, ErrOdd) {
			t.Errorf("%.40q: %v", b, err)
		}
	}
	for _, b := range []string{"", "H", "HTTP/1.1 ", "HTTP/1.1 200 OK\r\nA: b\r\n"} {
		if _, _, err := ParseHead([]byte(b)); !errors.Is(err, ErrMore) {
			t.Errorf("%.40q: %v", b, err)
		}
	}
}

// The recorded streams of real servers, in each form that a body can have.
func TestRead_recorded(t *testing.T) {
	for _, events := range recorded(t) {
		for name, stream := range forms(events) {
			got := read(stream)
			if got.odd || got.content != events || !errors.Is(got.err, io.EOF) {
				t.Errorf("%s: %v, odd %v", name, got.err, got.odd)
			}
			agree(t, stream, got)
			same := func(how string, segments ...string) {
				if cut := read(segments...); cut != got {
					t.Fatalf("%s, %s: %+v", name, how, cut)
				}
			}
			for i, step := 0, 1; i < len(stream); i += step {
				if i >= 600 && !slow.Tests {
					step = 23 // the same states again and again
				}
				same(fmt.Sprintf("cut at %d", i), stream[:i], stream[i:])
			}
			same("byte by byte", strings.Split(stream, "")...)
		}
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

// forms returns an answer of these events in each form.
func forms(events string) map[string]string {
	each, odd := "", ""
	for e := range strings.SplitAfterSeq(events, "\n\n") {
		if e != "" {
			each += fmt.Sprintf("%x\r\n%s\r\n", len(e), e)
		}
	}
	for s := events; s != ""; {
		n := min(37, len(s))
		odd += fmt.Sprintf("%X;n=%d\r\n%s\r\n", n, n, s[:n])
		s = s[n:]
	}
	return map[string]string{
		"a chunk each":        ok + "Transfer-Encoding: chunked\r\n\r\n" + each + "0\r\n\r\n",
		"chunks cut anywhere": ok + "Transfer-Encoding: chunked\r\n\r\n" + odd + "0\r\nX: y\r\n\r\n",
		"length":              ok + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(events)) + events,
		"close":               ok + "\r\n" + events,
	}
}

func TestNext_allocatesNothing(t *testing.T) {
	b := []byte(forms(recorded(t)[0])["a chunk each"])
	if n := testing.AllocsPerRun(100, func() {
		h, n, err := ParseHead(b)
		for rest := b[n:]; err == nil; {
			_, n, err = h.Body.Next(rest)
			rest = rest[n:]
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzRead holds the parser against net/http for any bytes in any segments.
func FuzzRead(f *testing.F) {
	for _, c := range answers {
		f.Add(c.stream, uint16(20), uint16(40))
	}
	f.Fuzz(func(t *testing.T, stream string, a, b uint16) {
		i := int(a) % (len(stream) + 1)
		j := i + int(b)%(len(stream)-i+1)
		agree(t, stream, read(stream[:i], stream[i:j], stream[j:]))
	})
}

func BenchmarkNext(b *testing.B) {
	stream := []byte(forms(recorded(b)[0])["a chunk each"])
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		h, n, err := ParseHead(stream)
		for rest := stream[n:]; err == nil; {
			_, n, err = h.Body.Next(rest)
			rest = rest[n:]
		}
	}
}
