package syntax

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxDiagnostics bounds what one file can make us print.
const maxDiagnostics = 100

// A Diagnostic is one thing that is wrong, where it stands, and what would be
// right.
type Diagnostic struct {
	File    string `json:"file"`
	Line    int    `json:"line"`    // from 1
	Col     int    `json:"column"`  // from 1, in characters
	EndCol  int    `json:"end_col"` // the column after the span's last character
	Message string `json:"message"`
	Rule    string `json:"rule"` // stable, to search for

	Expected string `json:"expected,omitempty"` // what may stand here
	Nearest  string `json:"nearest,omitempty"`  // the valid name that was probably meant
	Hint     string `json:"hint,omitempty"`     // what to do
	Snippet  string `json:"snippet,omitempty"`  // the source line, credentials masked
}

// String returns the line for machines: file:line:col: message [rule].
func (d Diagnostic) String() string {
	text := d.Message
	if d.Nearest != "" {
		text += fmt.Sprintf("; did you mean %q?", d.Nearest)
	}
	return fmt.Sprintf("%s:%d:%d: %s [%s]", d.File, d.Line, d.Col, text, d.Rule)
}

// Pretty is String with the source line, a mark under the exact span, and what
// was expected.
func (d Diagnostic) Pretty() string {
	var b strings.Builder
	b.WriteString(d.String())
	gutter := fmt.Sprintf("%4d", d.Line)
	blank := strings.Repeat(" ", len(gutter))
	if strings.TrimSpace(d.Snippet) != "" {
		fmt.Fprintf(&b, "\n%s | %s\n%s | %s", gutter, d.Snippet, blank, d.Mark())
	}
	if d.Expected != "" {
		fmt.Fprintf(&b, "\n%s = expected %s", blank, d.Expected)
	}
	if d.Hint != "" {
		fmt.Fprintf(&b, "\n%s = hint: %s", blank, d.Hint)
	}
	return b.String()
}

// Mark returns the line that goes under Snippet: tabs are kept so that it lines up
// in any terminal.
func (d Diagnostic) Mark() string {
	var b strings.Builder
	runes := []rune(d.Snippet)
	for i := 0; i < d.Col-1; i++ {
		if i < len(runes) && runes[i] == '\t' {
			b.WriteByte('\t')
		} else {
			b.WriteByte(' ')
		}
	}
	b.WriteByte('^')
	for range d.EndCol - d.Col - 1 {
		b.WriteByte('~')
	}
	return b.String()
}

// Diagnostics is everything that is wrong with a plan, as one error.
type Diagnostics struct {
	List    []Diagnostic `json:"diagnostics"`
	Omitted int          `json:"omitted,omitempty"` // beyond the first hundred
}

// Error returns one line for each diagnostic.
func (d *Diagnostics) Error() string { return d.join(Diagnostic.String, "\n") }

// Pretty is Error with snippets.
func (d *Diagnostics) Pretty() string { return d.join(Diagnostic.Pretty, "\n\n") }

func (d *Diagnostics) join(text func(Diagnostic) string, sep string) string {
	lines := make([]string, 0, len(d.List)+1)
	for _, one := range d.List {
		lines = append(lines, text(one))
	}
	if d.Omitted > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", d.Omitted))
	}
	return strings.Join(lines, sep)
}

// A Report collects diagnostics while a file is read.
type Report struct {
	list []*entry
	seen map[string]bool
	n    int
}

type entry struct {
	Diagnostic
	src *Source
}

// At adds a diagnostic about a span of a source and returns it, so that the
// caller can say what was expected. The same message at the same place counts
// once.
func (r *Report) At(src *Source, span Span, rule, format string, args ...any) *Diagnostic {
	d := &entry{src: src, Diagnostic: Diagnostic{
		File: src.Name, Line: span.Line, Col: span.Col, EndCol: span.EndCol,
		Rule: rule, Message: fmt.Sprintf(format, args...),
	}}
	if r.seen == nil {
		r.seen = make(map[string]bool)
	}
	key := d.String()
	if r.seen[key] {
		return &d.Diagnostic
	}
	r.seen[key] = true
	if r.n++; r.n <= maxDiagnostics {
		r.list = append(r.list, d)
	}
	return &d.Diagnostic
}

// Node is At for the place of a node.
func (r *Report) Node(n *Node, rule, format string, args ...any) *Diagnostic {
	if n.Broken {
		return &Diagnostic{}
	}
	return r.At(n.Src, n.Span, rule, format, args...)
}

// Merge adds what another report has, as edit leaves it. What edit is false for is left
// out.
func (r *Report) Merge(other *Report, edit func(*Diagnostic) bool) {
	for _, d := range other.list {
		one := d.Diagnostic
		if !edit(&one) {
			continue
		}
		added := r.At(d.src, Span{Line: one.Line, Col: one.Col, EndCol: one.EndCol}, one.Rule, "%s", one.Message)
		added.Expected, added.Nearest, added.Hint = one.Expected, one.Nearest, one.Hint
	}
	r.n += other.n - len(other.list)
}

// Len returns how many diagnostics there are.
func (r *Report) Len() int { return r.n }

// Err returns a *Diagnostics in the order of the file, or nil.
func (r *Report) Err() error {
	if d := r.Diagnostics(); d != nil {
		return d
	}
	return nil
}

// Diagnostics is Err with its type; nil if there is nothing wrong.
func (r *Report) Diagnostics() *Diagnostics {
	if r.n == 0 {
		return nil
	}
	out := &Diagnostics{Omitted: r.n - len(r.list)}
	for _, d := range r.list {
		// Snippets are cut last: a credential found by a later check is masked
		// in the snippet of an earlier one too.
		d.clamp()
		out.List = append(out.List, d.Diagnostic)
	}
	slices.SortStableFunc(out.List, func(a, b Diagnostic) int {
		return cmp.Or(strings.Compare(b.File, a.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return out
}

// clamp fits the span into its line, and the line into what a terminal takes.
func (d *entry) clamp() {
	line := []rune(d.src.masked(d.Line))
	d.Col = max(d.Col, 1)
	d.EndCol = max(min(d.EndCol, len(line)+1), d.Col+1)
	const width = 160
	if len(line) > width {
		// Only the head is shown; a span beyond it keeps its numbers and gets
		// no snippet that would not show it.
		if d.Col >= width {
			return
		}
		line = append(line[:width:width], '…')
		if d.EndCol > width {
			d.EndCol = width + 1
		}
	}
	d.Snippet = string(line)
}
