package lines_test

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"sweep.dev/sweep/internal/lines"
)

func TestReader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 16)
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		in   io.Reader
		want string // | between lines, + before a further part
		err  error
	}{
		"nothing":      {strings.NewReader(""), "", nil},
		"no end":       {strings.NewReader("a\nb"), "a\n|b", nil},
		"empty lines":  {iotest.OneByteReader(strings.NewReader("\na\r\n\n")), "\n|a\r\n|\n", nil},
		"long":         {strings.NewReader(long + long + "y\nz\n"), long + "|+" + long + "|+y\n|z\n", nil},
		"long, no end": {strings.NewReader("a\n" + long), "a\n|" + long, nil},
		"broken":       {io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), "a\n|b", broken},
	} {
		var got []string
		r := lines.NewReader(c.in, 16)
		for line, ok := r.Next(); ok; line, ok = r.Next() {
			text := string(line)
			if r.Rest {
				text = "+" + text
			}
			got = append(got, text)
		}
		if text := strings.Join(got, "|"); text != c.want || !errors.Is(r.Err(), c.err) {
			t.Errorf("%s: %q, %v, want %q, %v", name, text, r.Err(), c.want, c.err)
		}
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		writes []string
		want   bool
	}{
		{[]string{"up\n"}, true},
		{[]string{"up"}, false}, // the line may go on
		{[]string{"u", "p", "\nand more"}, true},
		{[]string{"is \x1b[32mu\x1b[0mp\n"}, true},
		{[]string{"u\np\n", "not up\n"}, false},
		{[]string{strings.Repeat("x", 3*lines.Max), "\nup\n"}, true},
		{[]string{"up", strings.Repeat("x", 3*lines.Max), "\n"}, false}, // in bounded memory
	} {
		w := &lines.Watch{Pattern: regexp.MustCompile("^(is )?up$")}
		for _, text := range c.writes {
			if n, err := io.WriteString(w, text); n != len(text) || err != nil {
				t.Fatal(n, err)
			}
		}
		if w.Found != c.want {
			t.Errorf("%.40q: found %t, want %t", c.writes, w.Found, c.want)
		}
	}
}
