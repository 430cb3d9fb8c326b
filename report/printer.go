package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A printer writes one document as plain text or as Markdown, and keeps the
// first error.
type printer struct {
	w io.Writer
	Style
	err error
}

func (p *printer) line(text string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, text)
	}
}

func (p *printer) title(text string) {
	if p.Markdown {
		text = "# " + text
	}
	p.line(text)
	p.line("")
}

func (p *printer) section(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	if p.Markdown {
		p.line("## " + title)
		p.line("")
	} else {
		p.line(title + ":")
	}
	for _, l := range lines {
		if p.Markdown {
			p.line("- " + escape(l))
		} else {
			p.line("  " + Printable(l))
		}
	}
	p.line("")
}

func (p *printer) grid(name string, head []string, rows [][]field) {
	if p.Markdown {
		p.line("## " + escape(name))
		p.line("")
		p.line("| " + strings.Join(head, " | ") + " |")
		p.line("|" + strings.Repeat(" --- |", len(head)))
		for _, row := range rows {
			texts := make([]string, len(row))
			for i, f := range row {
				texts[i] = escape(f.text)
			}
			p.line("| " + strings.Join(texts, " | ") + " |")
		}
		p.line("")
		return
	}
	p.line(name)
	width := make([]int, len(head))
	for i, h := range head {
		width[i] = len(h)
		for _, row := range rows {
			width[i] = max(width[i], utf8.RuneCountInString(row[i].text))
		}
	}
	var b strings.Builder
	for i, h := range head {
		fmt.Fprintf(&b, "  %-*s", width[i], h)
	}
	p.line(strings.TrimRight(b.String(), " "))
	for _, row := range rows {
		b.Reset()
		for i, f := range row {
			text := fmt.Sprintf("%-*s", width[i], f.text)
			if p.Paint != nil && f.verdict != "" {
				text = p.Paint(f.verdict, text)
			}
			b.WriteString("  " + text)
		}
		p.line(strings.TrimRight(b.String(), " "))
	}
	p.line("")
}

// Printable takes control characters out of what an engine or a model may have
// written: a log line must not be able to drive a person's terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, s)
}

var markdown = strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`)

func escape(s string) string { return markdown.Replace(Printable(s)) }
