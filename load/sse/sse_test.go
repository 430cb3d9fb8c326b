package sse

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An event as a value of its own.
type event struct{ Name, Data, Comment string }

// parse runs the parser over segments. Every segment is overwritten once it is
// used up, so that a slice that outlives it shows.
func parse(segments ...string) ([]event, error) {
	var p Parser
	var ev Event
	var out []event
	add := func() { out = append(out, event{string(ev.Name), string(ev.Data), string(ev.Comment)}) }
	for _, s := range segments {
		b := []byte(s)
		p.Feed(b)
		for p.Next(&ev) {
			add()
		}
		for i := range b {
			b[i] = '#'
		}
	}
	if p.Flush(&ev) {
		add()
	}
	return out, p.Err()
}

var lineEnd = regexp.MustCompile(`\r\n|\n|\r`)

// reference returns the standard's algorithm over the whole stream at once, with
// our departures from it, written to be obviously right.
func reference(stream string) []event {
	stream = strings.TrimPrefix(stream, "\ufeff")
	var out []event
	var e event
	var data []string
	dispatch := func() {
		if len(data) > 0 || e.Name != "" {
			e.Data = strings.Join(data, "\n")
			out = append(out, e)
		}
		e, data = event{}, nil
	}
	for _, line := range lineEnd.Split(stream, -1) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			dispatch()
		case name == "data":
			data = append(data, value)
		case name == "event":
			e.Name = value
		case name == "":
			e.Comment = value
		}
	}
	dispatch() // what the end left without a blank line
	return out
}

func TestParser(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []event
	}{
		{"lf", "data: a\n\ndata: b\n\n", []event{{Data: "a"}, {Data: "b"}}},
		{"crlf", "data: a\r\n\r\ndata: b\r\n\r\n", []event{{Data: "a"}, {Data: "b"}}},
		{"cr", "data: a\r\rdata: b\r\r", []event{{Data: "a"}, {Data: "b"}}},
		{"mixed ends", "data: a\r\n\ndata: b\n\rdata: c\r\r\n", []event{{Data: "a"}, {Data: "b"}, {Data: "c"}}},
		{"no space", "data:a\n\n", []event{{Data: "a"}}},
		{"one space only is dropped", "data:  a\n\n", []event{{Data: " a"}}},
		{"trailing space stays", "data: a \n\n", []event{{Data: "a "}}},
		{"multi-line data", "data: a\ndata:\ndata: b\n\n", []event{{Data: "a\n\nb"}}},
		{"empty data is an event", "data\n\n", []event{{}}},
		{"comments are no events", ": ping\n\n: ping\n\ndata: a\n\n", []event{{Data: "a"}}},
		{"the last comment of the block", ": x\n\n: y\ndata: a\n: z\n\n", []event{{Data: "a", Comment: "z"}}},
		{"named error without data", "event: error\n: engine died\n\n", []event{{Name: "error", Comment: "engine died"}}},
		{"name does not outlive its event", "event: x\ndata: a\n\ndata: b\n\n", []event{{Name: "x", Data: "a"}, {Data: "b"}}},
		{"id, retry and unknown fields", "id: 1\nretry: 5\nfoo: bar\nbar\ndata: a\n\n", []event{{Data: "a"}}},
		{"byte order mark", "\ufeffdata: a\n\n\ufeffdata: b\n\n", []event{{Data: "a"}}},
		{"no final blank line", "data: a\n", []event{{Data: "a"}}},
		{"no final line end", "data: a\n\ndata: b", []event{{Data: "a"}, {Data: "b"}}},
		{"colon in the value", "data: {\"a\":1}\n\n", []event{{Data: `{"a":1}`}}},
		{"empty", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, reference(c.in)); diff != "" {
				t.Fatalf("the reference is wrong (-want +got):\n%s", diff)
			}
			everyCut(t, c.in, c.want)
		})
	}
}

// everyCut holds the parser against want for the stream cut in two at every
// byte, and fed byte by byte.
func everyCut(t *testing.T, in string, want []event) {
	t.Helper()
	check := func(how string, segments ...string) {
		t.Helper()
		got, err := parse(segments...)
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		if !slices.Equal(want, got) { // cmp alone takes a hundred times as long
			t.Fatalf("%s (-want +got):\n%s", how, cmp.Diff(want, got))
		}
	}
	for i := range len(in) + 1 {
		check(fmt.Sprintf("cut at %d", i), in[:i], in[i:])
	}
	check("byte by byte", strings.Split(in, "")...)
}

// Streams of real servers, with a note of where they are from in their names.
func TestParser_recorded(t *testing.T) {
	files, err := filepath.Glob("testdata/*.sse")
	if err != nil || len(files) < 3 {
		t.Fatalf("recorded streams: %v %v", files, err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			want := reference(string(b))
			if len(want) < 10 || want[len(want)-1].Data != "[DONE]" {
				t.Fatalf("%d events", len(want))
			}
			everyCut(t, string(b), want)
			everyCut(t, strings.ReplaceAll(string(b), "\n", "\r\n"), want)
		})
	}
}

func TestParser_limits(t *testing.T) {
	fits := "data: " + strings.Repeat("x", MaxLine-6)
	if got, err := parse(fits, "\n\n"); err != nil || len(got) != 1 {
		t.Errorf("a line of just 1 MiB: %d events, %v", len(got), err)
	}
	for _, segments := range [][]string{
		{fits, "y\n\n"},
		{fits + "y\n\n"},
		{fits + "y\r\r"},
		{fits, strings.Repeat("y", MaxLine)},
	} {
		if _, err := parse(segments...); !errors.Is(err, ErrLineTooLong) {
			t.Errorf("a line over 1 MiB: %v", err)
		}
	}
	if _, err := parse(strings.Repeat(fits+"\n", 5)); !errors.Is(err, ErrEventTooLong) {
		t.Errorf("an event over 1 MiB: %v", err)
	}
	var p Parser
	p.Feed([]byte(strings.Repeat("y", MaxLine+1)))
	var ev Event
	if p.Next(&ev) || p.Err() == nil || p.Flush(&ev) {
		t.Fatal("the parser goes on after an error")
	}
	p.Reset()
	p.Feed([]byte("data: a\n\n"))
	if !p.Next(&ev) || string(ev.Data) != "a" {
		t.Errorf("after Reset: %q %v", ev.Data, p.Err())
	}
}

func TestParser_allocatesNothing(t *testing.T) {
	b := []byte("event: x\n: c\ndata: {\"choices\":[]}\ndata: more\n\n")
	var p Parser
	var ev Event
	n := 0
	allocs := testing.AllocsPerRun(1000, func() {
		for _, cut := range []int{7, 20} {
			p.Feed(b[:cut])
			for p.Next(&ev) {
				n++
			}
			p.Feed(b[cut:])
			for p.Next(&ev) {
				n++
			}
		}
	})
	if allocs != 0 || n < 2000 {
		t.Errorf("%v allocations, %d events", allocs, n)
	}
}

func FuzzParser(f *testing.F) {
	for _, s := range []string{
		"data: a\n\ndata: b\n\n", "data: a\r\n\r\n", "data\r\r", "event: error\n: why\n\n",
		"\ufeffdata: x\n\n", "data: {\"a\":\"b\"} \r\n\r\ndata: [DONE]\n", ":\n\r\n\rdata:\n",
	} {
		f.Add(s, uint16(3), uint16(7))
	}
	f.Fuzz(func(t *testing.T, in string, a, b uint16) {
		i := int(a) % (len(in) + 1)
		j := i + int(b)%(len(in)-i+1)
		got, err := parse(in[:i], in[i:j], in[j:])
		if err != nil {
			t.Fatalf("%v for %d bytes", err, len(in))
		}
		if diff := cmp.Diff(reference(in), got); diff != "" {
			t.Fatalf("cut at %d, %d (-reference +got):\n%s", i, j, diff)
		}
	})
}

func BenchmarkParser(b *testing.B) {
	stream, err := os.ReadFile("testdata/vllm-0.32.0-chat.sse")
	if err != nil {
		b.Fatal(err)
	}
	events := bytes.Count(stream, []byte("\n\n"))
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	var p Parser
	var ev Event
	for b.Loop() {
		p.Feed(stream)
		for p.Next(&ev) {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
}
