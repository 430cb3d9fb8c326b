package plaintext_test

import (
	"testing"

	"sweep.dev/sweep/internal/plaintext"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"", 10, ""},
		{"one two", 10, "one two"},
		{"one two three", 10, "one two\n  three"},
		{"one two  six", 7, "one two\n  six"},
		{"ä ö ü", 5, "ä ö ü"},
		{"a longer-than-that b", 6, "a\n  longer-than-that\n  b"},
		{"one two", 0, "one\n  two"},
	} {
		if got := plaintext.Wrap(c.text, c.width, "  "); got != c.want {
			t.Errorf("Wrap(%q, %d) = %q, want %q", c.text, c.width, got, c.want)
		}
	}
}
