package exposition

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/internal/recordtest"
	"sweep.dev/sweep/internal/slow"
)

// eachBody checks every body that real servers exposed: those that are in the tree, and
// those that are beside it.
func eachBody(t *testing.T, check func(t *testing.T, name string, body []byte)) {
	for group, pattern := range map[string]string{"own": "recorded__*.txt", "others": "*.txt"} {
		t.Run(group, func(t *testing.T) {
			for _, name := range recordtest.Names(t, pattern) {
				body := recordtest.Read(t, name)
				if _, err := Parse(body, true); err != nil {
					continue // output of another tool
				}
				check(t, name, body)
			}
		})
	}
}

// subset fails if a mutant has a value that the whole body does not have.
func subset(t *testing.T, what string, want map[string]string, e *Exposition) {
	t.Helper()
	for series, v := range flatMap(e) {
		if want[series] != v {
			t.Fatalf("%s: %s is %s, want %q", what, series, v, want[series])
		}
	}
}

// part is subset, for bodies in the same order: thousands of them.
func part(t *testing.T, what string, whole, e *Exposition) {
	t.Helper()
	i := 0
	for _, p := range e.Points {
		same := func(w Point) bool {
			return w.Name == p.Name && slices.Equal(w.Labels, p.Labels) && (w.Value == p.Value || w.Value != w.Value && p.Value != p.Value)
		}
		for ; i < len(whole.Points) && !same(whole.Points[i]); i++ {
		}
		if i == len(whole.Points) {
			subset(t, what, flatMap(whole), e) // says which, or that only the order is another
			return
		}
	}
	i = 0
	for _, h := range e.Histograms {
		for ; i < len(whole.Histograms) && !(whole.Histograms[i].Name == h.Name && slices.Equal(whole.Histograms[i].Labels, h.Labels)); i++ {
		}
		if i == len(whole.Histograms) {
			subset(t, what, flatMap(whole), e)
			return
		}
		w := whole.Histograms[i]
		if h.Sum == h.Sum && h.Sum != w.Sum || h.Count == h.Count && h.Count != w.Count {
			t.Fatalf("%s: %s: sum %v of %v, count %v of %v", what, h.Name, h.Sum, w.Sum, h.Count, w.Count)
		}
		for _, b := range h.Buckets {
			if !slices.Contains(w.Buckets, b) {
				t.Fatalf("%s: %s: bucket %+v", what, h.Name, b)
			}
		}
	}
}

// cutBytes is how many bytes of each body TestSalvage_cut parses, about.
var cutBytes = func() int {
	if slow.Tests {
		return 32 << 20
	}
	return 2 << 20
}()

// Whatever is done to a body, what is read of it is what the whole body says.
func TestSalvage_cut(t *testing.T) {
	eachBody(t, func(t *testing.T, name string, body []byte) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, err := Parse(body, true)
			if err != nil {
				t.Fatal(err)
			}
			want := flatMap(whole)
			for _, cut := range cuts(body) {
				e, err := Salvage(body[:cut], false)
				if err != nil {
					continue // nothing is left of it
				}
				part(t, fmt.Sprintf("cut at %d", cut), whole, e)
				if half := cut > 0 && body[cut-1] != '\n'; half && e.Dropped == 0 {
					t.Fatalf("cut at %d: nobody says that a line was dropped", cut)
				}
			}
			var packed bytes.Buffer
			zw := gzip.NewWriter(&packed)
			if _, err := zw.Write(body); err != nil {
				t.Fatal(err)
			}
			if err := zw.Close(); err != nil {
				t.Fatal(err)
			}
			e, err := Parse(packed.Bytes(), true)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, flatMap(e)); diff != "" {
				t.Errorf("gzip (-want +got):\n%s", diff)
			}
			for i := range 50 {
				if e, err := Salvage(packed.Bytes()[:packed.Len()*i/50], true); err == nil {
					subset(t, "gzip, cut", want, e)
				}
			}
		})
	})
}

// cuts returns where to cut a body: everywhere if it is short. Of a longer one, ends of
// lines and as many other places: as many as parse cutBytes in all.
func cuts(body []byte) []int {
	var ends []int
	for i, c := range body {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	n := max(20, cutBytes/len(body))
	out := slices.Collect(seq(len(body), max(1, len(body)/n)))
	for i := range seq(len(ends), max(1, len(ends)/n)) {
		out = append(out, ends[i])
	}
	return out
}

// seq yields 0, step, 2 step, ... below n.
func seq(n, step int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < n && yield(i); i += step {
		}
	}
}

func TestParse_mutants(t *testing.T) {
	comment := func(line string) bool { return strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" }
	// lines rewrites a body line by line.
	lines := func(body []byte, f func(i int, line string) string) []byte {
		var b strings.Builder
		i := 0
		for line := range strings.Lines(string(body)) {
			b.WriteString(f(i, strings.TrimRight(line, "\r\n")) + "\n")
			i++
		}
		return []byte(b.String())
	}
	mutants := []struct {
		name    string
		mutate  func(body []byte) []byte
		dropped func(body []byte) int // lines, more than of the body itself
		twice   bool                  // every series stands twice
		nan     bool                  // values are missing
	}{
		{name: "CRLF", mutate: func(b []byte) []byte { return lines(b, func(_ int, l string) string { return l + "\r" }) }},
		{name: "no final newline", mutate: func(b []byte) []byte { return bytes.TrimRight(b, "\n") }},
		{name: "byte order mark", mutate: func(b []byte) []byte { return append([]byte("\ufeff"), b...) }},
		{name: "HELP and TYPE twice", mutate: func(b []byte) []byte {
			return lines(b, func(_ int, l string) string {
				if strings.HasPrefix(l, "# ") {
					return l + "\n" + l
				}
				return l
			})
		}},
		{name: "the body twice", twice: true, mutate: func(b []byte) []byte {
			return append(append(bytes.TrimRight(b, "\n"), '\n'), b...)
		}},
		{name: "OpenMetrics", mutate: func(b []byte) []byte {
			return append(lines(b, func(_ int, l string) string {
				if strings.Contains(l, "_bucket{") {
					return l + ` # {trace_id="0a1b"} 0.067 1768264836.9`
				}
				return l
			}), "# EOF"...)
		}},
		{name: "timestamps", mutate: func(b []byte) []byte {
			return lines(b, func(i int, l string) string {
				switch {
				case comment(l) || strings.Contains(l, " # "):
					return l
				case i%2 == 0:
					return l + " 1768264836123"
				}
				return l + " 1768264836.123"
			})
		}},
		{name: "-nan", nan: true, mutate: func(b []byte) []byte {
			return lines(b, func(i int, l string) string {
				if comment(l) || i%7 != 0 || strings.Contains(l, "_bucket{") || strings.Contains(l, "_count") {
					return l
				}
				return l[:strings.LastIndexByte(l, ' ')] + " -nan"
			})
		}},
		{
			name: "lines that are none", mutate: func(b []byte) []byte {
				return lines(b, func(i int, l string) string {
					if i%10 == 0 {
						return l + "\n<p>502 Bad Gateway</p>"
					}
					return l
				})
			},
			dropped: func(b []byte) int {
				return (bytes.Count(append(bytes.TrimRight(b, "\n"), '\n'), []byte("\n")) + 9) / 10
			},
		},
	}
	eachBody(t, func(t *testing.T, name string, body []byte) {
		whole, err := Parse(body, true)
		if err != nil {
			t.Fatal(err)
		}
		want := flatMap(whole)
		for _, m := range mutants {
			t.Run(name+"/"+m.name, func(t *testing.T) {
				e, err := Parse(m.mutate(bytes.Clone(body)), true)
				if err != nil {
					t.Fatal(err)
				}
				sameAsRepaired(t, m.mutate(bytes.Clone(body)))
				got := flatMap(e)
				if m.nan {
					n := 0
					maps.DeleteFunc(got, func(series, v string) bool {
						if v == "NaN" && want[series] != "NaN" {
							n++
							return true
						}
						return false
					})
					subset(t, m.name, want, e2(e))
					if n == 0 && len(whole.Points) > 20 {
						t.Error("no value is missing")
					}
					return
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				dropped := whole.Dropped
				if m.dropped != nil {
					dropped += m.dropped(body)
				}
				if e.Dropped != dropped && !m.twice {
					t.Errorf("%d lines dropped, want %d", e.Dropped, dropped)
				}
				if twice := e.Duplicates - 2*whole.Duplicates; m.twice && twice < len(want) {
					t.Errorf("%d series stood twice, want %d", twice, len(want))
				}
			})
		}
	})
}

// e2 returns an exposition without what has no value.
func e2(e *Exposition) *Exposition {
	out := &Exposition{Histograms: e.Histograms}
	for _, p := range e.Points {
		if p.Value == p.Value {
			out.Points = append(out.Points, p)
		}
	}
	return out
}

// A file ends where it ends: a last line without its newline is whole, in UTF-16 too.
// The last line of a body counts only if the body is whole.
func TestSalvage_whole(t *testing.T) {
	const text = "# TYPE a gauge\na 1\nb 12"
	wide := func(order binary.ByteOrder, mark ...byte) []byte {
		out := mark
		for _, u := range utf16.Encode([]rune(text)) {
			out = append(out, 0, 0)
			order.PutUint16(out[len(out)-2:], u)
		}
		return out
	}
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	_, _ = zw.Write([]byte(text))
	_ = zw.Flush()
	tests := []struct {
		name    string
		body    []byte
		whole   bool
		points  int
		dropped int
	}{
		{"a file", []byte(text), true, 2, 0},
		{"an answer that nobody vouches for", []byte(text), false, 1, 1},
		{"UTF-16, low byte first", wide(binary.LittleEndian, 0xff, 0xfe), true, 2, 0},
		{"UTF-16, high byte first", wide(binary.BigEndian, 0xfe, 0xff), true, 2, 0},
		{"half a character", append(wide(binary.LittleEndian, 0xff, 0xfe), 'x'), true, 2, 0},
		{"gzip that was cut", packed.Bytes(), true, 1, 1},
	}
	for _, tt := range tests {
		e, err := Salvage(tt.body, tt.whole)
		if err != nil || len(e.Points) != tt.points || e.Dropped != tt.dropped {
			t.Errorf("%s: %+v, %v", tt.name, e, err)
		}
	}
	for _, short := range []string{"\xff\xfe", "\xff\xfea", "\xfe\xff"} {
		if e, err := Salvage([]byte(short), true); !errors.Is(err, ErrNoMetrics) {
			t.Errorf("%q: %+v, %v", short, e, err)
		}
	}
}

func TestSalvage_nothing(t *testing.T) {
	for body, want := range map[string]string{
		"": "it is empty", "{\"status\":\"ok\"}": "JSON", "<html></html>": "HTML", "[{\"numActiveRequests\": 1}]\n": "/prometheus/metrics", "404 page not found": "no line", "a 12": "no line",
	} {
		if e, err := Salvage([]byte(body), false); !errors.Is(err, ErrNoMetrics) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", body, e, err)
		}
	}
}

// 50 MB are read up to the bounds, and what is beyond is counted.
func TestParse_large(t *testing.T) {
	var b bytes.Buffer
	n := 0
	for b.Len() < 50<<20 {
		fmt.Fprintf(&b, "vllm:request_success_total{engine=\"%d\",finished_reason=\"stop\",model_name=\"a-model-with-a-name\"} %d\n", n, n)
		n++
	}
	e, err := Parse(b.Bytes(), true)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Points) != maxSeries || e.Dropped != n-maxSeries {
		t.Errorf("%d series of %d, %d dropped", len(e.Points), n, e.Dropped)
	}
	for _, p := range e.Points {
		if FormatValue(p.Value) != p.Labels[0].Value {
			t.Fatalf("%v", p)
		}
	}
	// One line of 50 MB costs itself alone.
	e, err = Parse([]byte("a 1\nb{c=\""+strings.Repeat("x", 50<<20)+"\"} 1\nd 2\n"), true)
	if err != nil || len(e.Points) != 2 || e.Dropped != 1 {
		t.Errorf("a line of 50 MB: %v, %+v", err, e)
	}
}
