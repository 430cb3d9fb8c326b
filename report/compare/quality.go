package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/judge/quality"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/paired"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// Quality is how the deployments of the compared cells answered quality prompts in both
// runs.
type Quality struct {
	Deployments []Answered    `json:"deployments"`
	Left        []paired.Left `json:"not_compared"`
	Unread      []string      `json:"not_read"` // files of answers, and why
	// Objectives are those of head of severity fail that read a column of quality. With one,
	// and with a bound of regressions, a deployment that answers worse is a regression.
	Objectives []string `json:"objectives"`
	// Warned are those of severity warn, for which it is only reported.
	Warned      []string `json:"warn_objectives"`
	Regressions int      `json:"regressions"`

	runs *paired.Runs
}

// Answered is one deployment in both runs.
type Answered struct {
	Label      string `json:"label"`
	Base       string `json:"base_deployment"`
	Head       string `json:"head_deployment"`
	Regression bool   `json:"regression"`
	paired.Figures
	Text string `json:"text"`
}

// qualityOf compares the answers of the deployments of pairs; nil if neither side has any.
func qualityOf(base, head Side, pairs []pair, maxRegression float64) *Quality {
	var links []paired.Link
	for _, p := range pairs {
		l := paired.Link{Base: p.base.Cell.Deployment, Head: p.head.Cell.Deployment}
		if !slices.ContainsFunc(links, func(o paired.Link) bool { return o.Base == l.Base && o.Head == l.Head }) {
			l.Label = p.head.Cell.ServerText()
			links = append(links, l)
		}
	}
	runs := paired.Between(base.Answers, head.Answers, links)
	if runs == nil {
		return nil
	}
	q := &Quality{
		Deployments: []Answered{}, Left: append([]paired.Left{}, runs.Left...), Unread: append([]string{}, runs.Unread...),
		runs: runs,
	}
	q.Objectives, q.Warned = objectives(head.Plan)
	items := runs.Items()
	for i := range runs.Sides {
		s, l := &runs.Sides[i], runs.Link(i)
		one := Answered{Label: s.Server.Label, Base: l.Base, Head: l.Head, Figures: s.Figures(), Text: items[i].Text}
		one.Regression = s.Verdict == quality.Worse && len(q.Objectives) > 0 && maxRegression > 0
		if one.Regression {
			q.Regressions++
		}
		q.Deployments = append(q.Deployments, one)
	}
	return q
}

// readsQuality matches the name of a column of quality in an expression.
var readsQuality = regexp.MustCompile(`\bquality_[a-z_]+\b`)

// objectives returns those of a resolved plan that read a column of quality, by name: those of
// severity fail, and those of severity warn.
func objectives(plan json.RawMessage) (fail, warn []string) {
	var p struct {
		SLO map[string]struct{ Expr, Severity string } `json:"slo"`
	}
	fail, warn = []string{}, []string{}
	if json.Unmarshal(plan, &p) != nil {
		return fail, warn // a plan of another version: nobody has asked
	}
	for _, name := range slices.Sorted(maps.Keys(p.SLO)) {
		switch o := p.SLO[name]; {
		case !readsQuality.MatchString(o.Expr):
		case o.Severity == conclude.SeverityWarn:
			warn = append(warn, name)
		default:
			fail = append(fail, name)
		}
	}
	return fail, warn
}

// mostAnswered is how many deployments that cannot be told apart are listed without verbose.
const mostAnswered = 3

// lines says it for people.
func (q *Quality) lines(verbose bool) []string {
	var all []string
	shown, more := 0, 0
	items := q.runs.Items()
	for i := range items {
		if q.runs.Sides[i].Verdict == quality.CannotTell {
			if shown == mostAnswered && !verbose {
				more++
				continue
			}
			shown++
		}
		all = append(all, wrapIn(2, "quality of "+items[i].Text)...)
		for _, text := range items[i].Below {
			all = append(all, wrapIn(4, text)...)
		}
	}
	if more > 0 {
		all = append(all, fmt.Sprintf("  quality of %s: cannot tell", humanize.Plural(more, "more deployment")))
	}
	if q.Worse() > 0 && len(q.Objectives) == 0 {
		all = append(all, wrapIn(2, "a worse answer is no regression here: "+q.unread())...)
	}
	for _, text := range q.runs.LeftOut(verbose) {
		all = append(all, wrapIn(2, text)...)
	}
	return all
}

// unread says why no worse answer is a regression.
func (q *Quality) unread() string {
	if len(q.Warned) == 0 {
		return "no objective of head reads a column of quality"
	}
	return "of the objectives of head, only those of severity warn read a column of quality: " + strings.Join(q.Warned, ", ")
}

// Worse returns how many deployments answer certainly worse.
func (q *Quality) Worse() (n int) {
	for i := range q.Deployments {
		if q.Deployments[i].Verdict == string(quality.Worse) {
			n++
		}
	}
	return n
}

// wrapIn breaks a text into lines of 80 columns that are indented.
func wrapIn(indent int, text string) []string {
	lines := wrap(plaintext.Line(text), 80-indent)
	for i := range lines {
		lines[i] = strings.Repeat(" ", indent) + lines[i]
	}
	return lines
}

// summary returns what the last line says of regressions of quality; "" for none.
func (q *Quality) summary() string {
	if q == nil || q.Regressions == 0 {
		return ""
	}
	return fmt.Sprintf("; certainly worse answers of %d of %s, read by %s", q.Regressions,
		humanize.Plural(len(q.Deployments), "deployment"), plaintext.Line(strings.Join(q.Objectives, ", ")))
}

// row returns that of the scores of a cell's deployment; nil if they are not compared.
func (q *Quality) row(c *Comparison, cell *Cell) result.Row {
	if q == nil {
		return nil
	}
	i := slices.IndexFunc(q.Deployments, func(a Answered) bool { return a.Head == cell.deployment })
	if i < 0 {
		return nil
	}
	a := &q.Deployments[i]
	row := result.Row{
		col.CellID: cell.ID, "cell": plaintext.Line(cell.Label), "metric": col.QualityScore,
		"paired": true, "verdict": a.Verdict, "regression": a.Regression, "why": plaintext.Line(a.Text),
		"base_run_id": c.Base.RunID, "base_rows": names(cell.Base), "head_run_id": c.Head.RunID, "head_rows": names(cell.Head),
	}
	for name, v := range map[string]*float64{"base": a.Figures.Base, "head": a.Score, "ratio": a.Difference, "low": a.Low, "high": a.High} {
		if v != nil {
			row[name] = *v
		}
	}
	return row
}

// Runs returns the sides behind it.
func (q *Quality) Runs() *paired.Runs { return q.runs }
