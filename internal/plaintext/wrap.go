package plaintext

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks a text at its spaces into lines of at most width columns, joined with line
// feeds. Lines after the first begin with hang. A word longer than a line has a line of
// its own.
func Wrap(text string, width int, hang string) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > width:
			b.WriteString("\n" + hang)
			at = utf8.RuneCountInString(hang)
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}
