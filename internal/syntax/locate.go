package syntax

import "unicode"

// Offset returns where the characters from up to to of a text's value stand in the
// file, as far as they stand in one line. It follows the value through quotes,
// escapes, folded lines and blocks, so that an error inside of an expression is
// shown where a person wrote it.
func (n *Node) Offset(from, to int) Span {
	at := n.places()
	from = min(max(from, 0), len(at)-1)
	to = min(max(to, from+1), len(at))
	s := Span{at[from].line, at[from].col, at[from].col + 1}
	for _, p := range at[from:to] {
		if p.line == s.Line {
			s.EndCol = max(s.EndCol, p.col+1)
		}
	}
	return s
}

type place struct{ line, col int }

// places returns where each character of the value stands, and where the next one
// would.
func (n *Node) places() []place {
	value := []rune(n.Text)
	at := place{n.Line, n.Col}
	switch {
	case n.Block:
		at = place{n.Line + 1, 1}
	case n.Quoted:
		at.col++
	}
	line := []rune(n.Src.Line(at.line))
	out := make([]place, 0, len(value)+1)
	for i, r := range value {
		if !unicode.IsSpace(r) {
			// Skip the text that YAML folds: indentation, line ends, blank lines.
			for at.line <= len(n.Src.lines) && (at.col > len(line) || unicode.IsSpace(line[at.col-1])) {
				if at.col++; at.col > len(line) {
					at = place{at.line + 1, 1}
					line = []rune(n.Src.Line(at.line))
				}
			}
		}
		out = append(out, at)
		if at.col > len(line) {
			continue // a line end, or beyond what we understand
		}
		if n.Quoted && n.escaped(line, at.col, value[i]) {
			at.col++
		}
		at.col++
	}
	return append(out, at)
}

// escaped reports whether r is written as two characters: \" or ”.
func (n *Node) escaped(line []rune, col int, r rune) bool {
	c := line[col-1]
	return c == '\\' && (r != '\\' || col < len(line) && line[col] == '\\') ||
		c == '\'' && r == '\'' && col < len(line) && line[col] == '\''
}
