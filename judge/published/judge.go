// Package published reads the result files of other load generators and says which of their
// figures can be trusted.
//
// It is a pure function of the files. A check that a file does not tell enough for is
// said to be undecided: that is no praise.
package published

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// MaxBytes bounds a file.
const MaxBytes = 256 << 20

// MaxLoads bounds the loads of one file.
const MaxLoads = 1000

// A State is what a check comes to.
type State string

// The states of a check.
const (
	OK        State = "ok"        // looked at, and nothing was found
	Bad       State = "bad"       // figures must not be used
	Remark    State = "remark"    // good to know: right for some tests, and no figure is bad
	Undecided State = "undecided" // cannot be told from this file
)

// A Finding is what one check says of one load.
type Finding struct {
	Code  string `json:"code"`
	State State  `json:"state"`
	// Text says what was found, with the value and the bound; if Undecided, what the
	// file lacks.
	Text    string   `json:"text"`
	Figures []string `json:"figures,omitempty"` // that must not be used because of it
	Advice  string   `json:"advice,omitempty"`
}

// A Verdict is what is to be thought of one load of a file.
type Verdict struct {
	Tool     string    `json:"tool"`
	Version  string    `json:"version,omitempty"`
	Load     string    `json:"load"` // in words
	Findings []Finding `json:"findings"`
	// Bad are the figures of the file that must not be used, Left the others: nothing
	// was found against them.
	Bad  []BadFigure `json:"bad"`
	Left []string    `json:"left"`
}

// A BadFigure is a figure that must not be used.
type BadFigure struct {
	Figure string   `json:"figure"`
	Codes  []string `json:"codes"`
}

// Options say what of a file is judged.
type Options struct {
	Figure string // figures with this text in their names alone; "" for all
}

// Trusted reports whether nothing was found.
func (v *Verdict) Trusted() bool { return len(v.Bad) == 0 }

// Of judges a file by its content.
func Of(data []byte, o Options) ([]Verdict, error) {
	loads, err := read(data)
	if err != nil {
		return nil, err
	}
	verdicts := make([]Verdict, 0, len(loads))
	for _, l := range loads {
		l.all = slices.Clone(l.figures)
		l.figures = slices.DeleteFunc(l.figures, func(f figure) bool { return !strings.Contains(f.name, o.Figure) })
		if len(l.figures) == 0 {
			return nil, &FigureError{o.Figure}
		}
		verdicts = append(verdicts, l.judge())
	}
	return verdicts, nil
}

// judge runs all checks.
func (l *load) judge() Verdict {
	v := Verdict{Tool: l.tool, Version: l.version, Load: l.words(), Bad: []BadFigure{}, Left: []string{}}
	codes := map[string][]string{}
	for _, c := range Checks() {
		state, words, hit := c.look(l)
		f := Finding{Code: c.Code, State: state, Text: words}
		if f.State == Bad {
			for _, g := range l.figures {
				if hit(g) {
					f.Figures = append(f.Figures, g.name)
					codes[g.name] = append(codes[g.name], c.Code)
				}
			}
			f.Advice = c.Advice
			if len(f.Figures) == 0 { // what it would spoil is not in the file
				f.State, f.Advice = OK, ""
			}
		}
		if f.State == Remark {
			f.Advice = c.Advice
		}
		v.Findings = append(v.Findings, f)
	}
	for _, g := range l.figures {
		if codes[g.name] != nil {
			v.Bad = append(v.Bad, BadFigure{g.name, codes[g.name]})
		} else {
			v.Left = append(v.Left, g.name)
		}
	}
	rank := map[State]int{Bad: 0, Remark: 1, OK: 2, Undecided: 3}
	slices.SortStableFunc(v.Findings, func(a, b Finding) int { return cmp.Compare(rank[a.State], rank[b.State]) })
	return v
}

// words returns the load in words.
func (l *load) words() string {
	var parts []string
	if l.concurrency > 0 {
		parts = append(parts, "concurrency "+number(float64(l.concurrency)))
	}
	if l.rate > 0 {
		parts = append(parts, number(l.rate)+" requests/s")
	}
	if l.completed >= 0 {
		parts = append(parts, number(float64(l.completed))+" completed")
	}
	if l.failed >= 0 {
		parts = append(parts, number(float64(l.failed))+" failed")
	}
	return strings.Join(parts, ", ")
}

// A FigureError says that a file has none of the figures that were asked for.
type FigureError struct{ Figure string }

func (e *FigureError) Error() string {
	if e.Figure == "" {
		return "it has no figure"
	}
	return fmt.Sprintf("it has no figure with %q in its name", e.Figure)
}
