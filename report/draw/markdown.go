package draw

import (
	"regexp"
	"strings"

	"sweep.dev/sweep/internal/plaintext"
)

// The texts that are markup of Markdown, or of the HTML in it, anywhere in a line.
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
	s = tag.ReplaceAllString(markdown.Replace(strings.TrimSpace(plaintext.Line(s))), "&lt;$1")
	if !strings.Contains(s, "_") {
		return s
	}
	return emphasis.ReplaceAllStringFunc(s, func(m string) string { return strings.ReplaceAll(m, "_", `\_`) })
}
