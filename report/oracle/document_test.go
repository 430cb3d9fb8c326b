package oracle

import (
	"strings"
)

// A document is a summary without its layout.
type document struct {
	title      string
	paragraphs string
	sections   map[string][]entry
	tables     []tableRead
}

type entry struct {
	text  string
	below []string
}

type tableRead struct {
	name string
	rows [][]string // the first are the heads
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

func flat(items []entry) []string {
	var all []string
	for _, it := range items {
		all = append(append(all, it.text), it.below...)
	}
	return all
}

var escaped = strings.NewReplacer(`\`, "", "&lt;", "<", "&amp;", "&")

func readMarkdown(text string) document {
	d := document{sections: map[string][]entry{}}
	name := ""
	for line := range strings.Lines(text) {
		line = escaped.Replace(strings.TrimRight(line, "\n"))
		switch {
		case strings.HasPrefix(line, "# "):
			d.title = line[2:]
		case strings.HasPrefix(line, "## "):
			name = line[3:]
		case strings.HasPrefix(line, "| --- "), line == "":
		case strings.HasPrefix(line, "| "):
			if n := len(d.tables); n == 0 || d.tables[n-1].name != name {
				d.tables = append(d.tables, tableRead{name: name})
			}
			row := strings.Split(strings.TrimSuffix(line[2:], " |"), " | ")
			t := &d.tables[len(d.tables)-1]
			t.rows = append(t.rows, row)
		case strings.HasPrefix(line, "- "):
			d.sections[name] = append(d.sections[name], entry{text: line[2:]})
		case strings.HasPrefix(line, "  - "):
			items := d.sections[name]
			items[len(items)-1].below = append(items[len(items)-1].below, line[4:])
		default:
			d.paragraphs += line + "\n"
		}
	}
	return d
}

// readPlain reads the text for a terminal of unknown width: no line of a section is
// broken.
func readPlain(text string) document {
	d := document{sections: map[string][]entry{}}
	lines := strings.Split(text, "\n")
	d.title = lines[0]
	name := ""
	for _, line := range lines[1:] {
		items := d.sections[name]
		switch {
		case line == "":
			name = ""
		case !strings.HasPrefix(line, " ") && strings.HasSuffix(line, ":"):
			name = strings.TrimSuffix(line, ":")
		case name == "":
			d.paragraphs += line + "\n"
		case strings.HasPrefix(line, "    ") && len(items) > 0:
			items[len(items)-1].below = append(items[len(items)-1].below, line[4:])
		case strings.HasPrefix(line, "  "):
			d.sections[name] = append(items, entry{text: line[2:]})
		}
	}
	return d
}
