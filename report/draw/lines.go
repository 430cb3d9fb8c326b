package draw

import (
	"strings"

	"sweep.dev/sweep/internal/plaintext"
)

// unbroken stands for a space at which no line is broken. No text has it: control
// characters are taken out of all.
const unbroken = "\x00"

// Command makes a text stay on one line, however narrow the terminal is: a command
// that is broken cannot be pasted.
func Command(text string) string {
	return strings.ReplaceAll(plaintext.Line(text), " ", unbroken)
}

// between is what stands between two parts of a line.
const between = "   "

// Parts writes short texts side by side, and breaks lines between them alone. Every line
// begins as the first part does.
func (d *Document) Parts(parts ...string) {
	line, indent := "", ""
	for _, p := range parts {
		p = plain(p)
		switch {
		case p == "":
		case line == "":
			line, indent = p, p[:len(p)-len(strings.TrimLeft(p, " "))]
		case d.style.Width > 0 && columns(line)+len(between)+columns(p) > d.style.Width:
			d.line(line)
			line = indent + p
		default:
			line += between + p
		}
	}
	if line != "" {
		d.line(line)
	}
}

// plain returns a text on one line, with the spaces of its commands.
func plain(text string) string {
	parts := strings.Split(text, unbroken)
	for i := range parts {
		parts[i] = plaintext.Line(parts[i])
	}
	return strings.Join(parts, " ")
}

// labelWidth is the column in which what follows a label begins.
const labelWidth = 10

// Labelled writes texts with a label in front of the first, each from a new line on,
// and nothing if there are none.
func (d *Document) Labelled(label string, texts ...string) {
	for i, text := range texts {
		first := ""
		if i == 0 {
			first = label
		}
		d.wrap(pad(first, labelWidth), strings.Repeat(" ", labelWidth), text)
	}
}

// Blank writes an empty line, unless the one before is.
func (d *Document) Blank() {
	if !d.blank {
		d.line("")
	}
}

// leastRoom is how many columns the last field of a row has at least; with fewer left it
// stands below the others.
const leastRoom = 30

// Rows writes rows of fields in columns. The last field is broken below itself where the
// terminal is narrow, so its texts may be long.
func (d *Document) Rows(rows ...[]string) {
	var widths []int // of all fields but the last
	longest := 0     // of the last fields
	for _, row := range rows {
		longest = max(longest, columns(plain(row[len(row)-1])))
		for i, f := range row[:max(0, len(row)-1)] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(plain(f)))
		}
	}
	at := 2 // where the last field begins
	for _, w := range widths {
		at += w + 2
	}
	room := d.style.Width - at
	below := d.style.Width > 0 && len(widths) > 0 && room < leastRoom && room < longest
	for _, row := range rows {
		var fields strings.Builder
		for i, f := range row[:len(row)-1] {
			fields.WriteString(" " + pad(plain(f), widths[i]) + " ")
		}
		line := " " + fields.String()
		last := row[len(row)-1]
		switch {
		case last == "":
			d.line(strings.TrimRight(line, " "))
		case below:
			d.line(strings.TrimRight(line, " "))
			d.wrap("      ", "      ", last)
		default:
			d.wrap(line+" ", strings.Repeat(" ", at), last)
		}
	}
}

// Text writes a line, which is broken below its own beginning.
func (d *Document) Text(text string) {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	d.wrap(indent, indent+"  ", text)
}
