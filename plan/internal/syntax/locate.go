package syntax

import "unicode"

// Offset is where character i of a text's value stands in the file, from i's
// position to the end of its line or of the text. It follows the value through
// quotes, escapes, folded lines and blocks, so that an error inside an
// expression can be shown where a person wrote it.
func (n *Node) Offset(from, to int) Span {
	value := []rune(n.Text)
	line, col := n.Line, n.Col
	if n.Block {
		line, col = line+1, 1
	} else if n.Quoted {
		col++
	}
	cur := []rune(n.Src.Line(line))
	var start Span
	for i := 0; i <= len(value); i++ {
		// What YAML folds away: indentation, line ends, blank lines.
		if i < len(value) && !unicode.IsSpace(value[i]) {
			for line <= len(n.Src.lines) && (col > len(cur) || unicode.IsSpace(cur[col-1])) {
				if col++; col > len(cur) {
					line, col = line+1, 1
					cur = []rune(n.Src.Line(line))
				}
			}
		}
		if i == from {
			start = Span{line, col, col + 1}
		}
		if i >= from && (i >= to-1 || i == len(value)) {
			if line == start.Line {
				start.EndCol = max(start.EndCol, col+1)
			}
			return start
		}
		if i >= len(value) || col > len(cur) {
			continue
		}
		if n.Quoted && i < len(value) && cur[col-1] != value[i] && (cur[col-1] == '\\') {
			col++ // an escape stands for one character
		} else if n.Quoted && value[i] == '\'' && col < len(cur) && cur[col-1] == '\'' && cur[col] == '\'' {
			col++
		}
		if line == start.Line && start.Line > 0 {
			start.EndCol = col + 1
		}
		col++
	}
	return n.Span
}
