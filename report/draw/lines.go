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

// plain is a text on one line, with the spaces of its commands.
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
