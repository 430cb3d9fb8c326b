// Package junit writes the results of a run as a JUnit report, which CI systems show: a
// suite for each engine and GPU, a case for each cell and objective.
package junit

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/objective"
)

type suites struct {
	XMLName xml.Name `xml:"testsuites"`
	Name    string   `xml:"name,attr"`
	counts
	Suites []*suite `xml:"testsuite"`
}

type counts struct {
	Tests    int     `xml:"tests,attr"`
	Failures int     `xml:"failures,attr"`
	Errors   int     `xml:"errors,attr"`
	Skipped  int     `xml:"skipped,attr"`
	Time     seconds `xml:"time,attr"`
}

func (c *counts) add(o counts) {
	c.Tests += o.Tests
	c.Failures += o.Failures
	c.Errors += o.Errors
	c.Skipped += o.Skipped
	c.Time += o.Time
}

type suite struct {
	Name string `xml:"name,attr"`
	counts
	Timestamp string     `xml:"timestamp,attr,omitempty"` // when its run was made
	Cases     []testcase `xml:"testcase"`
}

type testcase struct {
	Name    string  `xml:"name,attr"`
	Class   string  `xml:"classname,attr"`
	Time    seconds `xml:"time,attr"`
	Failure *note   `xml:"failure"` // a missed objective
	Error   *note   `xml:"error"`   // INVALID, failed, or an objective that could not be checked
	Skipped *note   `xml:"skipped"` // not run, or undecided
	Out     string  `xml:"system-out,omitempty"`
}

type note struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
}

type seconds float64

// MarshalXMLAttr implements [xml.MarshalerAttr].
func (s seconds) MarshalXMLAttr(name xml.Name) (xml.Attr, error) {
	return xml.Attr{Name: name, Value: fmt.Sprintf("%.3f", float64(s))}, nil
}

// Write writes the report of some runs.
func Write(w io.Writer, runs []*report.Run) error {
	all := suites{Name: "sweep"}
	for _, run := range runs {
		for _, s := range suitesOf(run) {
			for _, c := range s.Cases {
				s.add(counted(c))
			}
			all.add(s.counts)
			all.Suites = append(all.Suites, s)
		}
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func counted(c testcase) counts {
	n := counts{Tests: 1, Time: c.Time}
	switch {
	case c.Failure != nil:
		n.Failures = 1
	case c.Error != nil:
		n.Errors = 1
	case c.Skipped != nil:
		n.Skipped = 1
	}
	return n
}

func suitesOf(run *report.Run) []*suite {
	var all []*suite
	for _, g := range conclude.Group(run.Conclude().Points, func(p *conclude.Point) string {
		return strings.TrimSpace(text(p.Cell.Value(col.Engine)) + " " + text(p.Cell.Value(col.GPU)))
	}) {
		s := &suite{Name: plaintext.Line(strings.TrimSpace(run.State.Manifest.Plan + " " + g.Name))}
		if at := run.State.Manifest.CreatedAt; !at.IsZero() {
			s.Timestamp = at.UTC().Format(time.RFC3339)
		}
		for _, p := range g.Points {
			s.Cases = append(s.Cases, cases(p)...)
		}
		all = append(all, s)
	}
	return all
}

func text(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// cases returns those of a cell: one for each of its objectives, or one if it has none or
// no valid trial. The first has the time of all.
func cases(p *conclude.Point) []testcase {
	whole := testcase{Name: "measured", Class: plaintext.Line(p.Cell.Label)}
	for _, t := range p.Trials {
		if t.Outcome != nil {
			whole.Time += seconds(t.Outcome.Row.Float(col.DurationS))
		}
	}
	why := plaintext.Line(p.Reason())
	switch p.Verdict {
	case conclude.Pending, conclude.Skipped:
		whole.Skipped = &note{Message: string(p.Verdict)}
		return []testcase{whole}
	case conclude.Invalid, conclude.NoStart, conclude.FailedRun:
		whole.Error = &note{Message: string(p.Verdict) + ": " + why, Type: why}
		return []testcase{whole}
	}
	if len(p.Objectives) == 0 {
		return []testcase{whole}
	}
	var all []testcase
	for _, o := range p.Objectives {
		c := testcase{Name: plaintext.Line(o.Name + ": " + o.Expr), Class: whole.Class, Time: whole.Time}
		whole.Time = 0
		n := &note{Message: plaintext.Line(objective.Why(o)), Type: "slo"}
		switch {
		case o.Verdict == result.SLOPass:
		case o.Severity == conclude.SeverityWarn:
			c.Out = "warning: " + n.Message
		case o.Verdict == result.SLOFail:
			c.Failure = n
		case o.Verdict == result.SLOUndecided:
			n.Message = "undecided: " + n.Message
			c.Skipped = n
		default:
			n.Message = "could not be checked: " + n.Message
			c.Error = n
		}
		all = append(all, c)
	}
	return all
}
