// Package pack makes the data that the script of a report gets of a run, in few bytes.
package pack

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/klauspost/compress/flate"

	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// A packed is what the script gets of a run: every column of the cells table, and the
// timelines. Blocks of numbers follow it.
type packed struct {
	Prefix  string               `json:"prefix"`
	Dir     string               `json:"dir"`
	Columns []*column            `json:"columns"`
	Trials  []trial              `json:"trials"`
	Series  []series             `json:"series"`
	Courses map[int]*trialSeries `json:"courses"` // by the place of the trial
	Width   int                  `json:"width"`   // of a value of the courses in bytes, as planes has it
}

type trial struct {
	Cell     string   `json:"cell"`
	Label    string   `json:"label"`
	Trial    int      `json:"trial"`
	Verdict  string   `json:"verdict"`
	Mark     string   `json:"mark"`
	Kind     string   `json:"kind,omitempty"`
	Why      string   `json:"why,omitempty"`
	Findings []string `json:"findings,omitempty"`
	SLOs     []string `json:"slos,omitempty"`
}

// A series is a line of the timelines.
type series struct {
	Title string `json:"title"`
	Name  string `json:"name"` // in the samples table
	Unit  string `json:"unit"`
}

// maxText is where a text in the page's data is cut.
const maxText = 400

func short(s string) string {
	r := []rune(plaintext.Line(s))
	if len(r) > maxText {
		return string(r[:maxText-1]) + "…"
	}
	return string(r)
}

// Run returns the data of a run, of which prefix begins the ids of the anchors: the length of some JSON in four
// bytes, the JSON, and blocks of numbers in the order in which the JSON names them;
// compressed (RFC 1951) and in base64, which no text in it can leave.
func Run(run *report.Run, prefix string) (string, error) {
	p := packed{Prefix: prefix, Dir: plaintext.Word(run.Dir), Columns: []*column{}, Trials: []trial{}, Courses: map[int]*trialSeries{}}
	for _, c := range courses {
		p.Series = append(p.Series, series{c.title, c.name, c.unit})
	}
	found, err := coursesOf(run)
	if err != nil {
		return "", err
	}
	var lines []float64
	for i, t := range run.Trials {
		p.Trials = append(p.Trials, trialOf(t))
		if c := found[trialKey{t.Key.Cell, t.Trial}]; c != nil {
			p.Courses[i] = c
			lines = append(lines, c.values...)
		}
	}
	p.Width = min(4, width(lines))
	columns, blocks := columnsOf(run)
	p.Columns = append(p.Columns, columns...)
	text, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	out := base64.NewEncoder(base64.StdEncoding, &b)
	z, err := flate.NewWriter(out, flate.DefaultCompression)
	if err != nil {
		return "", err
	}
	for _, part := range [][]byte{binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text, blocks, planes(lines, p.Width)} {
		if _, err := z.Write(part); err != nil {
			return "", err
		}
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	if err := out.Close(); err != nil {
		return "", err
	}
	return b.String(), nil
}

func trialOf(t conclude.Trial) trial {
	verdict := conclude.Judge(t)
	p := trial{Cell: t.Cell.ID, Label: plaintext.Line(t.Cell.Label), Trial: t.Trial, Verdict: string(verdict), Mark: verdict.Mark(), Kind: Kind(verdict), Why: Why(t)}
	if t.Outcome == nil {
		return p
	}
	for _, f := range slices.Concat(t.Outcome.Invalid, t.Outcome.Findings) {
		p.Findings = append(p.Findings, short(f.Code.String()+": "+f.Text))
	}
	for _, o := range t.Outcome.SLOs {
		p.SLOs = append(p.SLOs, short(fmt.Sprintf("%s (%s): %s", o.Name, o.Expr, sloText(o))))
	}
	return p
}

func sloText(o result.SLOResult) string {
	if o.Verdict == "" {
		return "could not be checked: " + o.Error
	}
	return o.Verdict
}

// Kind returns the class of a verdict.
func Kind(v conclude.Verdict) string {
	switch v {
	case conclude.SweetSpot, conclude.Acceptable:
		return "good"
	case conclude.Invalid, conclude.FailedRun, conclude.NoStart:
		return "bad"
	case "":
		return ""
	}
	return "unsure"
}

// Why returns why a trial has no numbers to use, in codes.
func Why(t conclude.Trial) string {
	if t.Outcome == nil {
		return ""
	}
	for _, column := range []string{col.InvalidReasons, col.ErrorClass} {
		if code, ok := t.Outcome.Row[column].(string); ok {
			return "(" + code + ")"
		}
	}
	return ""
}
