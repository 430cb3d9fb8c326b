package tables

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Table is what came of a rule: what it must not do and what it must find,
// side by side.
type Table struct {
	Name    string   `json:"name"`
	What    string   `json:"what"`    // is asked of the rule
	Columns []string `json:"columns"` // of the figures
	Cases   []Case   `json:"cases"`
	Drawn   int      `json:"drawn,omitempty"` // the column of the picture
	Seconds float64  `json:"seconds"`         // that it took
}

// A Case is one kind of load.
type Case struct {
	Name    string   `json:"name"`
	Runs    int      `json:"runs"` // seeds 1 to Runs
	Figures []Figure `json:"figures"`
}

// Add adds a case to the table.
func (t *Table) Add(name string, runs int, figures ...Figure) {
	t.Cases = append(t.Cases, Case{name, runs, figures})
}

// A Figure is a rate or a median over the runs, with one standard error.
type Figure struct {
	Value float64 `json:"value"`
	Error float64 `json:"error"`
	Unit  Unit    `json:"unit"`
	// N is the runs that have it; with none there is no figure.
	N int `json:"n"`
	// Bound is what a good rule keeps.
	Bound Bound `json:"bound,omitzero"`
}

// A Unit is how a figure is written.
type Unit string

// The units.
const (
	Share Unit = "share" // as percent
	Ratio Unit = "ratio" // over the truth
	Count Unit = "count" // requests
)

// A Bound is what a figure is to be: at least Low, at most High; 0 asks for
// nothing.
type Bound struct {
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
}

// Broken reports whether a figure is so many standard errors beyond its bound.
func (f Figure) Broken(errors float64) bool {
	reach := errors * f.Error
	return f.N > 0 && (f.Value+reach < f.Bound.Low || f.Bound.High > 0 && f.Value-reach > f.Bound.High)
}

func (u Unit) text(v float64) string {
	switch u {
	case Share:
		if v > 0 && v < 0.0095 {
			return fmt.Sprintf("%.1f %%", 100*v)
		}
		return fmt.Sprintf("%.0f %%", 100*v)
	case Count:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Keep returns the figure with a bound.
func (f Figure) Keep(b Bound) Figure {
	f.Bound = b
	return f
}

func (f Figure) String() string {
	if f.N == 0 {
		return "-"
	}
	text := strings.TrimSuffix(f.Unit.text(f.Value), " %") + " ± " + f.Unit.text(f.Error)
	if f.Broken(2) {
		text += " !"
	}
	return text
}

// Text returns the bound of figures of a unit, "" if it asks for nothing.
func (b Bound) Text(u Unit) string {
	switch {
	case b == Bound{}:
		return ""
	case b.High == 0:
		return "≥ " + u.text(b.Low)
	case b.Low == 0:
		return "≤ " + u.text(b.High)
	}
	return u.text(b.Low) + " to " + u.text(b.High)
}

// Text returns a table for a terminal of 80 columns, if its names leave room: under each case
// what it was before, and what is asked of it.
func (t Table) Text(before Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%.1f s)\n", t.Name, t.Seconds)
	for _, line := range wrap(t.What, 78) {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	figure := 15
	for _, c := range t.Columns {
		figure = max(figure, utf8.RuneCountInString(c)+1)
	}
	left := 80 - figure*len(t.Columns)
	for _, c := range t.Cases {
		left = max(left, utf8.RuneCountInString(c.Name)+1)
	}
	row := func(name string, cells []string) {
		fmt.Fprintf(&b, "%-*s", left, name)
		for _, c := range cells {
			fmt.Fprintf(&b, "%*s", figure, c)
		}
		b.WriteByte('\n')
	}
	row("", t.Columns)
	for _, c := range t.Cases {
		name := c.Name
		row(name, c.strings())
		if old, ok := before.find(t.Name, name); ok {
			row("  before", old.strings())
		}
		var asked []string
		some := false
		for _, f := range c.Figures {
			text := f.Bound.Text(f.Unit)
			asked, some = append(asked, text), some || text != ""
		}
		if some {
			row("  asked", asked)
		}
	}
	return b.String()
}

func (c Case) strings() []string {
	var out []string
	for _, f := range c.Figures {
		out = append(out, f.String())
	}
	return out
}

// Markdown returns the figures of a table for the documentation.
func (t Table) Markdown(before Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| case | runs | %s |\n| --- | --: |%s\n", strings.Join(t.Columns, " | "), strings.Repeat(" --: |", len(t.Columns)))
	for _, c := range t.Cases {
		fmt.Fprintf(&b, "| %s | %d |", c.Name, c.Runs)
		old, known := before.find(t.Name, c.Name)
		for i, f := range c.Figures {
			text := f.String()
			if f.Broken(2) {
				text = "**" + text + "**"
			}
			if asked := f.Bound.Text(f.Unit); asked != "" {
				text += " (" + asked + ")"
			}
			if known && i < len(old.Figures) {
				if was := strings.TrimSuffix(old.Figures[i].String(), " !"); was != strings.TrimSuffix(f.String(), " !") {
					text += "<br>before: " + was
				}
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// wrap cuts a text into lines of so many characters.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// A Record is tables as they were made.
type Record struct {
	// Commit is what they were made at; "" for the tree that holds the file.
	Commit string  `json:"commit,omitempty"`
	Tables []Table `json:"tables"`
}

// ParseRecord reads what Record.JSON wrote.
func ParseRecord(text []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("recorded tables: %w", err)
	}
	return r, nil
}

// JSON returns the record as a file, with a line a table and a line a case.
func (r Record) JSON() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("recorded tables: %w", err)
	}
	return append(bytes.ReplaceAll(text, []byte(`{"name":`), []byte("\n{\"name\":")), '\n'), nil
}

// With returns the record with a table in the place of the one of its name, or after the
// others.
func (r Record) With(t Table) Record {
	r.Tables = slices.Clone(r.Tables)
	if i := slices.IndexFunc(r.Tables, func(old Table) bool { return old.Name == t.Name }); i >= 0 {
		r.Tables[i] = t
		return r
	}
	r.Tables = append(r.Tables, t)
	return r
}

func (r Record) find(table, name string) (Case, bool) {
	for _, t := range r.Tables {
		for _, c := range t.Cases {
			if t.Name == table && c.Name == name {
				return c, true
			}
		}
	}
	return Case{}, false
}

// Rounded returns a figure to four digits, as more would change with the machine.
func (f Figure) Rounded() Figure {
	four := func(v float64) float64 {
		short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64) // of what was just formatted
		return short
	}
	f.Value, f.Error = four(f.Value), four(f.Error)
	return f
}
