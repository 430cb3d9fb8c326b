package expression

import (
	"fmt"
	"regexp"
	"unicode/utf8"

	"sweep.dev/sweep/internal/syntax"
)

// unquoted are comparisons of a name with a word.
var unquoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|([\pL_][\pL\d_]*)\s*([!=]?=)\s*([\pL][\pL\d_./:@-]*)(\(?)`)

// quote reports words that are compared with text and stand without quotes: they
// were not written, or the shell has removed them.
func quote(r *syntax.Report, n *syntax.Node, env Env) {
	for _, m := range unquoted.FindAllStringSubmatchIndex(n.Text, -1) {
		if m[2] < 0 || m[8] < m[9] {
			continue
		}
		name, word := n.Text[m[2]:m[3]], n.Text[m[6]:m[7]]
		if _, known := env.Zero[word]; known || !env.text(name) {
			continue
		}
		from := utf8.RuneCountInString(n.Text[:m[6]])
		d := r.At(n.Src, n.Offset(from, from+utf8.RuneCountInString(word)), "expression-type", "%s is text, and %s stands without quotes", name, word)
		op := "=="
		if n.Text[m[4]:m[5]] == "!=" {
			op = "!="
		}
		d.Hint = fmt.Sprintf(`write %s %s "%s", in a shell '%[1]s %[2]s "%[3]s"'`, name, op, word)
	}
}
