package report

import (
	"regexp"
	"strings"
	"unicode"
)

// sequences are whole terminal sequences: CSI (colours, cursor), and OSC, DCS,
// APC, PM and SOS, which carry a text up to their terminator. One without a
// terminator hides nothing: its introducer alone is taken out, later.
var sequences = regexp.MustCompile("(?:\x1b\\[|\u009b)[0-?]*[ -/]*[@-~]" +
	"|(?:\x1b[]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\x07\x1b\u009c\n]*(?:\x07|\x1b\\\\|\u009c)")

// Printable makes one line of what an engine or a model may have written that
// can drive neither a person's terminal nor the machine that runs a CI job:
//
//   - terminal sequences, other control characters and the marks that turn the
//     direction of text are taken out; bytes that are no UTF-8 become U+FFFD;
//   - what would begin a new line becomes a space;
//   - "::" at its beginning and "##[" anywhere, which are commands to the
//     runners of GitHub and Azure, get a space inside.
func Printable(s string) string {
	s = strings.Map(printable, sequences.ReplaceAllString(s, ""))
	if t := strings.TrimLeft(s, " \t"); strings.HasPrefix(t, "::") {
		s = s[:len(s)-len(t)] + ": :" + t[2:]
	}
	return strings.ReplaceAll(s, "##[", "# #[")
}

func printable(r rune) rune {
	switch {
	case r == '\t':
		return r
	case r == '\n', r == '\r', r == '\v', r == '\f', r == 0x85, r == 0x2028, r == 0x2029:
		return ' '
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
		return -1
	}
	return r
}

// What Markdown, and the HTML in it, would read as their own wherever in a line
// it stands.
var (
	markdown = strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "`", "\\`", "[", `\[`, "]", `\]`, "~~", `\~\~`, "&", "&amp;")
	tag      = regexp.MustCompile(`<([A-Za-z/!?])`)
	// emphasis is an underscore at the edge of a word; one inside a word means nothing.
	emphasis = regexp.MustCompile(`(^|[^A-Za-z0-9_])(_+)|(_+)([^A-Za-z0-9_]|$)`)
	// opening is what makes a quotation, a list, a rule or a heading of a line.
	opening = regexp.MustCompile(`^(?:[-+=>#]|[0-9]+[.)])`)
)

// escape makes a text say in Markdown what it says, also where it begins a line.
func escape(s string) string {
	s = escapeInline(s)
	if end := len(opening.FindString(s)); end > 0 {
		s = s[:end-1] + `\` + s[end-1:]
	}
	return s
}

// escapeInline is escape for what cannot begin a line, such as a table's field.
func escapeInline(s string) string {
	s = tag.ReplaceAllString(markdown.Replace(strings.TrimSpace(Printable(s))), "&lt;$1")
	return emphasis.ReplaceAllStringFunc(s, func(m string) string { return strings.ReplaceAll(m, "_", `\_`) })
}
