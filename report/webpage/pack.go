package webpage

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"time"

	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/result"
)

// A packed is what the script of the page gets of a run: every column of the cells table,
// and the timelines. A page without the script has all of its charts and tables.
type packed struct {
	Prefix  string             `json:"prefix"`
	Columns []packedColumn     `json:"columns"`
	Trials  []packedTrial      `json:"trials"`
	Courses map[string]*course `json:"courses"` // by the place of the trial
}

// A packedColumn has the values of all trials in their order, null if there is none.
type packedColumn struct {
	Name   string `json:"name"`
	Unit   string `json:"unit,omitempty"`
	Doc    string `json:"doc"`
	Core   bool   `json:"core,omitempty"`
	Given  bool   `json:"given,omitempty"` // known without a measurement
	Values []any  `json:"values"`
}

type packedTrial struct {
	Cell     string   `json:"cell"`
	Label    string   `json:"label"`
	Trial    int      `json:"trial"`
	Verdict  string   `json:"verdict"`
	Mark     string   `json:"mark"`
	Kind     string   `json:"kind,omitempty"`
	Why      string   `json:"why,omitempty"`
	Findings []string `json:"findings,omitempty"`
	SLOs     []string `json:"slos,omitempty"`
	Files    string   `json:"files,omitempty"`
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

// pack makes the data of the script: JSON, compressed and in base64, which no text in it
// can leave.
func (v *runView) pack() (template.HTML, error) {
	p := packed{Prefix: v.ID, Courses: map[string]*course{}}
	courses, err := coursesOf(v.run)
	if err != nil {
		return "", err
	}
	for i, t := range v.run.Trials {
		verdict := compare.Judge(t)
		pt := packedTrial{Cell: t.Cell.ID, Label: plaintext.Line(t.Cell.Label), Trial: t.Trial, Verdict: string(verdict), Mark: verdict.Mark(), Kind: kind(verdict), Why: why(t)}
		if t.Outcome != nil {
			for _, f := range slices.Concat(t.Outcome.Invalid, t.Outcome.Findings) {
				pt.Findings = append(pt.Findings, short(f.Code.String()+": "+f.Text))
			}
			for _, o := range t.Outcome.SLOs {
				pt.SLOs = append(pt.SLOs, short(fmt.Sprintf("%s (%s): %s", o.Name, o.Expr, sloText(o))))
			}
		}
		p.Trials = append(p.Trials, pt)
		if c := courses[trialKey{t.Key.Cell, t.Trial}]; c != nil {
			p.Courses[fmt.Sprint(i)] = c
		}
	}
	for _, c := range v.run.Resolved.Columns {
		column := packedColumn{Name: c.Name, Unit: c.Unit, Doc: c.Doc, Core: c.Tier == result.Core, Given: c.Given, Values: make([]any, len(v.run.Trials))}
		known := false
		for i, t := range v.run.Trials {
			if t.Outcome != nil && t.Outcome.Row[c.Name] != nil {
				column.Values[i], known = value(t.Outcome.Row[c.Name]), true
			}
		}
		if known {
			p.Columns = append(p.Columns, column)
		}
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := json.NewEncoder(z).Encode(p); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	// Base64 has no character that HTML knows.
	return template.HTML(base64.StdEncoding.EncodeToString(b.Bytes())), nil
}

// value is a value of a row for the script: six digits of a number.
func value(v any) any {
	switch v := v.(type) {
	case float64:
		return json.RawMessage(number(v))
	case string:
		return short(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	}
	return v
}

// number is a number as JSON, or null.
func number(v float64) string {
	text := fmt.Sprintf("%.6g", v)
	if !json.Valid([]byte(text)) {
		return "null"
	}
	return text
}

func sloText(o result.SLOResult) string {
	if o.Verdict == "" {
		return "could not be checked: " + o.Error
	}
	return o.Verdict
}
