package syntax

import (
	"slices"
	"strings"
	"testing"
)

func read(t *testing.T, text string) *Node {
	t.Helper()
	r := &Report{}
	n := Parse("f", text, r)
	if err := r.Err(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return n
}

// TestPositions holds the places of values, in characters, against files in
// which bytes, characters and lines are easily confused.
func TestPositions(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		path       []string
		want       Span
	}{
		{"plain", "a: xyz\n", []string{"a"}, Span{1, 4, 7}},
		{"after characters of several bytes", "a: {é: ü, b: xyz}\n", []string{"a", "b"}, Span{1, 14, 17}},
		{"quoted", "a: \"x z\"\n", []string{"a"}, Span{1, 4, 9}},
		{"CR LF after a comment", "a: 1 # c\r\nb: xyz\r\n", []string{"b"}, Span{2, 4, 7}},
		{"byte order mark", "\ufeffa: xyz\n", []string{"a"}, Span{1, 4, 7}},
		{"in a list of mappings", "a:\n- b: 1\n- b: xyz\n", []string{"a"}, Span{2, 1, 2}},
		{"block", "a: |\n  x\n  y\nb: z\n", []string{"b"}, Span{4, 4, 5}},
		{"empty value is its key", "a:\nb: 1\n", []string{"a"}, Span{1, 1, 2}},
		{"null that is written", "a: null\n", []string{"a"}, Span{1, 4, 8}},
		{"alias is where its value is", "a: &x xyz\nb: *x\n", []string{"b"}, Span{1, 7, 10}},
		{"mapping is its first key", "a:\n  bc: 1\n", []string{"a"}, Span{2, 3, 5}},
	} {
		n, ok := read(t, tt.text).At(tt.path...)
		if !ok || n.Span != tt.want {
			t.Errorf("%s: %v, %v; want %v", tt.name, n.Span, ok, tt.want)
		}
	}
}

// TestOffset follows a word of a value to where it was written.
func TestOffset(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"plain", "a: one two HERE three\n"},
		{"single quotes", "a: 'it''s \"so\" HERE'\n"},
		{"double quotes", "a: \"a \\\"quote\\\" é HERE\"\n"},
		{"literal", "a: |\n    one\n      two HERE\n    three\n"},
		{"literal with a blank line", "a: |\n  one\n\n  HERE\n"},
		{"folded", "a: >-\n  one\n  two\n  HERE three\n"},
		{"folded with a paragraph", "a: >\n  one\n\n  two HERE\n"},
		{"plain over lines", "a: one\n  two\n  HERE\n"},
		{"double quotes over lines", "a: \"one \\\n    two HERE\"\n"},
		{"deeper", "x:\n  - b: 1\n    a: |\n      one\n      HERE\n"},
	} {
		root := read(t, tt.text)
		n := root.Get("a")
		if n == nil {
			n = root.Get("x").Items[0].Get("a")
		}
		at := strings.Index(n.Text, "HERE")
		from := len([]rune(n.Text[:at]))
		span := n.Offset(from, from+4)
		line := []rune(n.Src.Line(span.Line))
		if span.EndCol-1 > len(line) || span.Col < 1 || string(line[span.Col-1:span.EndCol-1]) != "HERE" {
			t.Errorf("%s: %+v is not HERE in %q", tt.name, span, string(line))
		}
	}
}

// TestOffset_bounds holds that no offset leads out of the file.
func TestOffset_bounds(t *testing.T) {
	for _, text := range []string{"a: x\n", "a: |\n  x\n  y", "a: ''\n", "a: \"\\n\\n\"\n", "a: >\n\n\n  x\n\n\n", "a: x\n  y"} {
		n := read(t, text).Get("a")
		length := len([]rune(n.Text))
		for from := -1; from <= length+2; from++ {
			for to := from; to <= length+2; to++ {
				s := n.Offset(from, to)
				if s.Line < 1 || s.Col < 1 || s.EndCol <= s.Col {
					t.Errorf("%q from %d to %d: %+v", text, from, to, s)
				}
			}
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"concurrency", "requests", "requests_per_worker", "prom", "max_tokens", "top_p", "to"}
	for name, want := range map[string]string{
		"concurency": "concurrency", "Concurrency": "concurrency", "reqeusts": "requests", "prometheus": "prom",
		"max-tokens": "max_tokens", "topp": "top_p", "too": "to", "nonsense": "", "x": "", "": "",
	} {
		if got := Nearest(name, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestMask(t *testing.T) {
	r := &Report{}
	n := Parse("f", "a: sk-abcdefghijklmnop1234 # hf_abcdefghijklmnop1234\nb: \x1b[2J", r)
	if n != nil {
		t.Error("an escape sequence was taken")
	}
	r.At(NewSource("f", "a: sk-abcdefghijklmnop1234 # hf_abcdefghijklmnop1234 \x1b[2J\u009b"), Span{1, 1, 2}, "x", "y")
	text := r.Diagnostics().Pretty()
	for _, bad := range []string{"sk-abc", "hf_abc", "\x1b", "\u009b"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q is shown in %q", bad, text)
		}
	}
}

// Every document of a stream is read, whatever stands between them.
func TestParseStream(t *testing.T) {
	for _, c := range []struct {
		text  string
		lines []int // where the documents begin
		err   string
	}{
		{"a: 1\n", []int{1}, ""},
		{"# c\n---\na: 1\n---\n# nothing\n---\nb: |\n  ---\n  x\n---\n---\nc: 3\n...\n", []int{3, 7, 12}, ""},
		{"---\na: &x 1\n--- # b\nb: *x\n", nil, "names no anchor"},
		{"a: 1\n---\nb: [\n", nil, "f:3:"},
		{"---\n# nothing\n", nil, "empty"},
		{"a: 1\n---\nb:\n- c: 1\n   d: 2\n", nil, "f:4:"},
	} {
		var r Report
		roots := ParseStream("f", c.text, &r)
		if err := r.Err(); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %v", c.text, err)
		}
		var lines []int
		for _, root := range roots {
			lines = append(lines, root.Line)
		}
		if c.err == "" && !slices.Equal(lines, c.lines) {
			t.Errorf("%q: documents in lines %v, want %v", c.text, lines, c.lines)
		}
	}
}
