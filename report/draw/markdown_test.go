package draw

import (
	"regexp"
	"testing"
)

// harmful is what drives a terminal, a CI runner or a browser.
var harmful = regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u202a-\u202e\u2066-\u2069\n]|(?m:^\\s*::|##\\[)|(?:^|[^\\\\])<[A-Za-z/!]")

func FuzzEscape(f *testing.F) {
	f.Add("\x1b]52;c;x\x07\u009b31m\r\n::x ##[y")
	f.Fuzz(func(t *testing.T, s string) {
		got := escape(s)
		if harmful.MatchString(got) {
			t.Errorf("%q became %q", s, got)
		}
	})
}

func TestEscape(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"max_tokens=32, p95 < 200": "max_tokens=32, p95 < 200",
		"_start_ and __dunder__":   `\_start\_ and \_\_dunder\_\_`,
		"<b>bold</b> &amp;":        "&lt;b>bold&lt;/b> &amp;amp;",
		"a|b `c` *d* [e](f) ~~g~~": "a\\|b \\`c\\` \\*d\\* \\[e\\](f) \\~\\~g\\~\\~",
		"# heading":                `\# heading`,
		"- item":                   `\- item`,
		"12. item":                 `12\. item`,
		"12.5 ms":                  `12\.5 ms`,
		"> quote":                  `\> quote`,
		`back\slash`:               `back\\slash`,
	} {
		if got := escape(in); got != want {
			t.Errorf("escape(%q) = %q, want %q", in, got, want)
		}
	}
}
