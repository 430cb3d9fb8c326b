package nullserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/internal/polltest"
)

const asServer = "SWEEP_TEST_NULL_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		if err := Process(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// start serves until the test is over.
func start(t *testing.T) *Server {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

// An answer is a stream as it came.
type answer struct {
	text   string // of all chunks with content
	chunks int
	usage  int
	finish string
	done   bool
}

func ask1(url, query string) (a answer, err error) {
	resp, err := http.Post(url+"/v1/chat/completions?"+query, "application/json", strings.NewReader(`{"stream":true}`))
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, err := io.ReadAll(resp.Body)
		return a, errors.Join(err, fmt.Errorf("%s: %s", resp.Status, b))
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if a.done = data == "[DONE]"; a.done {
			continue
		}
		var e struct {
			Choices []struct {
				Delta  struct{ Content string }
				Finish string `json:"finish_reason"`
			}
			Usage struct {
				Completion int `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return a, err
		}
		for _, c := range e.Choices {
			a.text += c.Delta.Content
			a.finish += c.Finish
			if c.Delta.Content != "" {
				a.chunks++
			}
		}
		a.usage += e.Usage.Completion
	}
	return a, nil
}

func stats(t *testing.T, url string) (st Stats) {
	t.Helper()
	resp, err := http.Get(url + "/stats")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&st); err != nil {
		t.Fatal(err)
	}
	return st
}

// Whatever the mode, a stream has as many chunks as were asked for, and each
// says a time between the request and the end of the answer, in order.
func TestServer_everyMode(t *testing.T) {
	s := start(t)
	want := 0
	for _, c := range []struct {
		query  string
		chunks int
	}{
		{"n=5&itl=2000&ttft=1000", 5},
		{"n=5&itl=2000&ttft=1000&mode=1", 5},
		{"n=5000&mode=2&k=7", 5000},
		{"n=5&itl=2000&ttft=1000&mode=3", 5},
		{"n=10&itl=2000&ttft=1000&k=4", 10},
		{"n=1&ttft=0", 1},
		{"n=20&itl=2000&stall=5000", 20},
		{"n=40&itl=4000&ramp=200&every=5000", 40},
	} {
		from := Clock(time.Now())
		a, err := ask1(s.URL(), c.query)
		to := Clock(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if a.chunks != c.chunks || a.usage != c.chunks || a.finish != "length" || !a.done {
			t.Errorf("%s: %d chunks, usage %d, finish %q, done %v; want %d", c.query, a.chunks, a.usage, a.finish, a.done, c.chunks)
		}
		sent, err := Stamps(a.text)
		if err != nil || len(sent) != c.chunks {
			t.Fatalf("%s: %d stamps: %v", c.query, len(sent), err)
		}
		last := from
		for i, at := range sent {
			if at < last || at > to {
				t.Errorf("%s: chunk %d was sent at %d, not between %d and %d", c.query, i, at, last, to)
			}
			last = at
		}
		want += c.chunks
	}
	if st := stats(t, s.URL()); st.Chunks != want || st.Requests != 8 {
		t.Errorf("%+v, want %d chunks of 8 requests", st, want)
	}
}

func TestServer_endsByTime(t *testing.T) {
	s := start(t)
	a, err := ask1(s.URL(), "n=10000000&itl=1000&for=20000")
	if err != nil || a.chunks == 0 || a.usage != a.chunks || !a.done {
		t.Errorf("%d chunks, usage %d, done %v: %v", a.chunks, a.usage, a.done, err)
	}
}

func TestServer_manyAtOnce(t *testing.T) {
	s := start(t)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			if a, err := ask1(s.URL(), fmt.Sprintf("n=20&itl=3000&mode=%d", i%4)); err != nil || a.chunks != 20 || a.usage != 20 {
				t.Errorf("stream %d: %d chunks, usage %d: %v", i, a.chunks, a.usage, err)
			}
		})
	}
	wg.Wait()
	if st := stats(t, s.URL()); st.Chunks != 64*20 || st.Requests != 64 {
		t.Errorf("%+v", st)
	}
}

// A client that reads slowly still gets everything, and one that leaves does not
// disturb the others.
func TestServer_slowAndLeaving(t *testing.T) {
	s := start(t)
	dial := func(query string) net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST /?%s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", query)
		return c
	}
	gone := dial("n=100000&itl=1000")
	slow := dial("n=40000&mode=2&k=64") // 11 MB, more than buffers hold
	polltest.Until(t, "the server answers them", func() bool { return stats(t, s.URL()).Requests >= 2 })
	gone.Close()
	if _, err := ask1(s.URL(), "n=5&itl=1000"); err != nil {
		t.Error(err)
	}
	// The end of the stream, as chunked encoding says it.
	defer slow.Close()
	n, tail := 0, ""
	b := make([]byte, 1<<16)
	for !strings.HasSuffix(tail, "0\r\n\r\n") {
		got, err := slow.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(tail+string(b[:got]), `"content":"T`) - strings.Count(tail, `"content":"T`)
		tail = (tail + string(b[:got]))[max(0, len(tail)+got-64):]
	}
	if st := stats(t, s.URL()); n != 40000 || st.Blocked == 0 {
		t.Errorf("%d chunks came; %+v", n, st)
	}
}

// A request may come byte by byte, and the next one right behind it.
func TestServer_pipelinedInPieces(t *testing.T) {
	s := start(t)
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	one := "POST /?n=2&itl=1000&ttft=0 HTTP/1.1\r\nHost: x\r\ncontent-length: 3\r\n\r\n{ }"
	for i := range one {
		if _, err := io.WriteString(c, one[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(c, one); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	for i := range 2 {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || strings.Count(string(b), `"T`) != 2 {
			t.Errorf("answer %d: %v\n%s", i, err, b)
		}
	}
}

func TestServer_wrongQuery(t *testing.T) {
	s := start(t)
	for query, want := range map[string]string{
		"mode=4":  "mode=",
		"n=0":     "n=",
		"n=x":     "n=",
		"k=65":    "k=",
		"itl=-1":  "itl=",
		"foo=1":   "has a key that is none of",
		"ramp=50": "ramp=",
	} {
		if _, err := ask1(s.URL(), query); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "400") {
			t.Errorf("%s: %v", query, err)
		}
	}
	resp, err := http.Get(s.URL() + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Error(resp.Status)
	}
}

func TestStamps_wrong(t *testing.T) {
	for _, text := range []string{"T", "X00000000000000000001", "T0000000000000000000x"} {
		if got, err := Stamps(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// A beat that comes too late is left out, so that two are never closer than
// half of what lies between them; a grid stays the grid.
func TestNext(t *testing.T) {
	for _, c := range []struct {
		mode     Mode
		due, now int64
		at       int64
		skipped  int
	}{
		{Random, 1000, 1000, 1100, 0},
		{Random, 1000, 1050, 1100, 0},
		{Random, 1000, 1051, 1200, 1},
		{Random, 1000, 1549, 1600, 5},
		{Grid, 1000, 1000, 1100, 0},
		{Grid, 1010, 1010, 1200, 0}, // the grid has changed
		{Flood, 1000, 5000, 5000, 0},
	} {
		a := ask{itl: 100, mode: c.mode}
		if at, skipped := a.next(c.due, c.now); at != c.at || skipped != c.skipped {
			t.Errorf("%+v: %d, %d skipped", c, at, skipped)
		}
	}
}

// The process ends with its standard input: what started it may be killed.
func TestProcess_endsWithItsInput(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asServer+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	if a, err := ask1(strings.TrimSpace(line), "n=3&itl=1000"); err != nil || a.chunks != 3 {
		t.Errorf("%d chunks: %v", a.chunks, err)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
