package statistics

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/result"
)

// A Rule is one rule of the program that is held against truth.
type Rule struct {
	Name string // of its table
	Make func(*Lab) Table
}

// Rules are all of them, in the order of the documentation.
func Rules() []Rule {
	return []Rule{
		{"steady-state", steadyState},
		{"cycles", cycles},
		{"open-plateau", openPlateau},
		{"drift", drift},
		{"until", until},
		{"repeats-until", repeatsUntil},
		{"error-rate", errorRate},
		{"saturation", saturation},
		{"percentiles", percentiles},
		{"percentile-interval", percentileInterval},
		{"objectives", objectives},
		{"outliers", outliers},
		{"unstable", unstable},
		{"sweet-spot", sweetSpot},
		{"ratios", ratios},
		{"versions", versions},
		{"common-numbers", common},
		{"gate", gates},
	}
}

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

func atMost(x float64) Bound         { return Bound{High: x} }
func atLeast(x float64) Bound        { return Bound{Low: x} }
func within(low, high float64) Bound { return Bound{low, high} }

// Broken says whether a figure is so many standard errors beyond its bound.
func (f Figure) Broken(errors float64) bool {
	reach := errors * f.Error
	return f.N > 0 && (f.Value+reach < f.Bound.Low || f.Bound.High > 0 && f.Value-reach > f.Bound.High)
}

// keep sets the bound of a figure.
func (f Figure) keep(b Bound) Figure {
	f.Bound = b
	return f
}

// share is how many of the runs did something.
func share(hits []bool) Figure {
	k, n := 0.0, float64(len(hits))
	for _, hit := range hits {
		if hit {
			k++
		}
	}
	if n == 0 {
		return Figure{Unit: Share}
	}
	// With one hit and one miss more, so that a rate of none has an error too.
	p := (k + 1) / (n + 2)
	return Figure{Value: k / n, Error: math.Sqrt(p * (1 - p) / n), Unit: Share, N: len(hits)}
}

// median is the middle of the runs' values.
func median(values []float64, unit Unit) Figure { return quantile(values, 0.5, unit) }

// quantile is of the runs' values; its error is from the order statistics that
// one standard error of the binomial distribution spans.
func quantile(values []float64, p float64, unit Unit) Figure {
	n := len(values)
	if n == 0 {
		return Figure{Unit: unit}
	}
	sorted := slices.Sorted(slices.Values(values))
	reach := math.Sqrt(float64(n) * p * (1 - p))
	at := func(i float64) float64 { return sorted[min(max(0, int(i)), n-1)] }
	middle := float64(n-1) * p
	return Figure{
		Value: result.Quantile(sorted, p),
		Error: (at(math.Ceil(middle+reach)) - at(math.Floor(middle-reach))) / 2, Unit: unit, N: n,
	}
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

func (b Bound) text(u Unit) string {
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

// Text is a table for a terminal of 80 columns: under each case what it was
// before, and what is asked of it.
func (t Table) Text(before Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%.1f s)\n", t.Name, t.Seconds)
	for _, line := range wrap(t.What, 78) {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	const figure = 15
	left := 80 - figure*len(t.Columns)
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
			text := f.Bound.text(f.Unit)
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

// Markdown is a table for the documentation.
func (t Table) Markdown(before Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n![%s](%s)\n\n| case | runs | %s |\n| --- | --: |%s\n", t.What, t.Alt(), path.Join(path.Base(Pictures), t.Name+".svg"), strings.Join(t.Columns, " | "), strings.Repeat(" --: |", len(t.Columns)))
	for _, c := range t.Cases {
		fmt.Fprintf(&b, "| %s | %d |", c.Name, c.Runs)
		old, known := before.find(t.Name, c.Name)
		for i, f := range c.Figures {
			text := f.String()
			if f.Broken(2) {
				text = "**" + text + "**"
			}
			if asked := f.Bound.text(f.Unit); asked != "" {
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

// JSON is the record as a file, with a line a table and a line a case.
func (r Record) JSON() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("recorded tables: %w", err)
	}
	return append(bytes.ReplaceAll(text, []byte(`{"name":`), []byte("\n{\"name\":")), '\n'), nil
}

// With is the record with a table in the place of the one of its name.
func (r Record) With(t Table) Record {
	r.Tables = slices.Clone(r.Tables)
	if i := slices.IndexFunc(r.Tables, func(old Table) bool { return old.Name == t.Name }); i >= 0 {
		r.Tables[i] = t
		return r
	}
	order := map[string]int{}
	for i, rule := range Rules() {
		order[rule.Name] = i
	}
	r.Tables = append(r.Tables, t)
	slices.SortStableFunc(r.Tables, func(a, b Table) int { return cmp.Compare(order[a.Name], order[b.Name]) })
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

// rounded is a figure to four digits, as more would change with the machine.
func (f Figure) rounded() Figure {
	four := func(v float64) float64 {
		short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64) // of what was just formatted
		return short
	}
	f.Value, f.Error = four(f.Value), four(f.Error)
	return f
}

// Run makes the table of a rule.
func (r Rule) Run(l *Lab) Table {
	began := time.Now()
	t := r.Make(l)
	t.Name, t.Seconds = r.Name, math.Round(10*time.Since(began).Seconds())/10
	for i := range t.Cases {
		for j, f := range t.Cases[i].Figures {
			t.Cases[i].Figures[j] = f.rounded()
		}
	}
	return t
}
