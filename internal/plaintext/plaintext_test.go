package plaintext

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain text\twith a tab":            "plain text\twith a tab",
		"\x1b[1;31mred\x1b[0m":              "red",
		"\x1b]52;c;ZXZpbA==\x07clipboard":   "clipboard",
		"\x1b]0;title\x1b\\shown":           "shown",
		"\x1b]0;not terminated":             "]0;not terminated",
		"\x1bP+q544e\x1b\\dcs":              "dcs",
		"\u009b2Jc1":                        "c1",
		"\u009d52;c;ZXZpbA==\u009cc1 osc":   "c1 osc",
		"\x9b2Jraw":                         "\ufffd2Jraw",
		"10%\r20%\r\n":                      "10% 20%  ",
		"a\u2028b\u0085c":                   "a b c",
		"a\x00b\x7fc\bd":                    "abcd",
		"\u202egnp.exe\u2066":               "gnp.exe",
		"::error::x":                        ": :error::x",
		"  ::error::x":                      "  : :error::x",
		"\u00a0\u3000::error::x":            "\u00a0\u3000: :error::x",
		"\x1b[0m::stop-commands::x":         ": :stop-commands::x",
		"std::vector":                       "std::vector",
		"x ##[error]y":                      "x # #[error]y",
		"###[x":                             "## #[x",
		"#\x1b#[x":                          "# #[x",
		"grüße, 模型 \U0001f680":              "grüße, 模型 \U0001f680",
		"\x1b[31":                           "[31",
		"nested \x1b\x1b[31m[2J still text": "nested [2J still text",
	} {
		got := Line(in)
		if got != want {
			t.Errorf("Line(%q) = %q, want %q", in, got, want)
		}
		if again := Line(got); again != got {
			t.Errorf("Line(%q) = %q is not stable: %q", in, got, again)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	in := "a\r\n::error::b\n\x1b]52;c;x\x07c\n\n  ::d\rover"
	if got, want := Lines(in), "a\n: :error::b\nc\n\n  : :d over"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// command is what a runner of CI takes for one of its own.
var command = regexp.MustCompile(`(?m)^\s*::|##\[`)

func FuzzLine(f *testing.F) {
	f.Add("\x1b]52;c;x\x07\u009b31m\r\n::x ##[y")
	f.Add("#\x1b#[\u009d\u00a0::\xff\x9b")
	f.Fuzz(func(t *testing.T, s string) {
		harmless(t, s, Line(s))
		if strings.Contains(Line(s), "\n") {
			t.Errorf("%q has more than a line", s)
		}
		harmless(t, s, Lines(s))
		if strings.Count(Lines(s), "\n") != strings.Count(s, "\n") {
			t.Errorf("%q has other lines: %q", s, Lines(s))
		}
	})
}

func harmless(t *testing.T, in, out string) {
	t.Helper()
	if !utf8.ValidString(out) || command.MatchString(out) {
		t.Errorf("%q became %q", in, out)
	}
	for _, r := range out {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			t.Errorf("%q became %q, which has %U", in, out, r)
		}
	}
}

func FuzzJSON(f *testing.F) {
	f.Add("\x1b]52;c;x\x07\u009b31m\x7f\r\n::x ##[y ### [z \u202e \\ \"")
	f.Fuzz(func(t *testing.T, s string) {
		for name, indent := range map[string]string{"compact": "", "indented": "  "} {
			var plain, buf bytes.Buffer
			value := map[string]any{"text": s, s: []string{s}}
			for w, enc := range map[io.Writer]*json.Encoder{&plain: json.NewEncoder(&plain), &buf: json.NewEncoder(JSON(&buf))} {
				enc.SetIndent("", indent)
				if err := enc.Encode(value); err != nil {
					t.Fatalf("%s: %v to %T", name, err, w)
				}
			}
			var want, got any
			if err := errors.Join(json.Unmarshal(plain.Bytes(), &want), json.Unmarshal(buf.Bytes(), &got)); err != nil {
				t.Fatalf("%s: %v: %q", name, err, buf.String())
			}
			a, _ := json.Marshal(want)
			b, _ := json.Marshal(got)
			if !bytes.Equal(a, b) {
				t.Errorf("%s: %q became %q", name, s, buf.String())
			}
			harmless(t, s, buf.String())
		}
	})
}

func TestJSON_writeError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if n, err := JSON(failing{broken}).Write([]byte(`"a"`)); n != 0 || !errors.Is(err, broken) {
		t.Errorf("got %d, %v", n, err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
