// Package plaintext makes what somebody else wrote fit to be shown: an engine's
// log, a model's answer or a server's error can hold what drives a person's
// terminal (up to its clipboard) or the machine that runs a CI job.
package plaintext

import (
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sequences are whole terminal sequences: CSI (colours, cursor), and OSC, DCS,
// APC, PM and SOS, which carry a text up to their terminator. One without a
// terminator hides nothing: its introducer alone is taken out, later.
var sequences = regexp.MustCompile("(?:\x1b\\[|\u009b)[0-?]*[ -/]*[@-~]" +
	"|(?:\x1b[]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\x07\x1b\u009c\n]*(?:\x07|\x1b\\\\|\u009c)")

// Line makes one line of s that is no command to any reader:
//
//   - terminal sequences, other control characters and the marks that turn the
//     direction of text are taken out; bytes that are no UTF-8 become U+FFFD;
//   - what would begin a new line becomes a space;
//   - "::" at its beginning and "##[" anywhere, which are commands to the
//     runners of GitHub and Azure, get a space inside.
func Line(s string) string {
	if strings.IndexFunc(s, special) >= 0 {
		s = strings.Map(printable, sequences.ReplaceAllString(s, ""))
	}
	if t := strings.TrimLeftFunc(s, unicode.IsSpace); strings.HasPrefix(t, "::") {
		s = s[:len(s)-len(t)] + ": :" + t[2:]
	}
	return strings.ReplaceAll(s, "##[", "# #[")
}

// Lines is Line for every line of s; what ends them stays.
func Lines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = Line(strings.TrimSuffix(l, "\r"))
	}
	return strings.Join(lines, "\n")
}

// special reports whether a character may have to go: of ASCII all but a tab and what is
// printed, and everything beyond it.
func special(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }

func printable(r rune) rune {
	switch {
	case r == '\t':
		return r
	case r == '\n', r == '\r', r == '\v', r == '\f', r == 0x85, r == 0x2028, r == 0x2029:
		return ' '
	case acts(r):
		return -1
	}
	return r
}

// acts reports whether a character does something where others are shown.
func acts(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// JSON writes JSON to w with every character escaped that would do something
// on a terminal, or in a CI job's log. It stays the same JSON: such characters
// only stand in its strings. encoding/json escapes less: no DEL, none of the
// controls from U+0080, no "##[". What is given to Write at once is whole
// characters.
func JSON(w io.Writer) io.Writer { return jsonWriter{w} }

type jsonWriter struct{ w io.Writer }

func (w jsonWriter) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p)+16)
	for i := 0; i < len(p); {
		r, size := utf8.DecodeRune(p[i:])
		switch {
		case r >= 0x7f && acts(r): // below it are the line breaks of JSON itself
			const hex = "0123456789abcdef"
			out = append(out, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		case r == '[' && i >= 2 && p[i-1] == '#' && p[i-2] == '#':
			out = append(out, `\u005b`...)
		default:
			out = append(out, p[i:i+size]...)
		}
		i += size
	}
	if _, err := w.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
