package webpage

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/capacity"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/paired"
	"sweep.dev/sweep/report/view"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// A runView is what the page shows of one run. Its texts are plain; the template
// escapes them.
type runView struct {
	*view.View
	ID         string // of the anchors of the run
	Plan       string
	When       string
	Owed, Kept []draw.Item // pods
	Badge      string      // SIMULATED, or the machines
	Many       bool        // the page is about other runs too
	Answer     []string
	Open       []string // what is not decided

	Capacity      []draw.Item // what the searches of a plan with find have found
	CapacityTitle string
	found         []capacity.Answer
	Searched      []searched
	SearchedLeft  int // searches that are not drawn
	Heat          []figure
	HeatLegend    []string
	HeatLeft      int // panels that are not drawn
	Throughput    []figure
	Frontier      []figure
	Latency       []figure
	LatencyOff    int // series that are not drawn
	Cost          []figure
	Compared      []comparison
	Sides         []sideTable // sides of the plan's own comparison
	Tables        []table
	Quality       table // of the deployments that answered prompts
	answers       *paired.Paired
	Verdicts      []draw.Item // on those that have a baseline
	Steady        table
	Cells         table
	Facts         []fact
	Command       string
	Next          string

	Data template.HTML // for the script

	names names
}

// A fact is one line of a list of terms.
type fact struct {
	Name   string
	Column string // of the cells table; "" for none
	Values []string
}

// A comparison is the sentences about one thing that was compared.
type comparison struct {
	About string
	Lines []string
}

// viewOf makes what is shown of a run. prefix begins the ids of its anchors.
func viewOf(run *report.Run, prefix string) *runView {
	v := &runView{View: view.Of(run), ID: prefix, Plan: run.State.Manifest.Plan}
	v.names = names{conclude.Varied(v.Set.Points)}
	v.When = when(run)
	v.Owed, v.Kept = v.Pods()
	if v.Searching() {
		v.found = v.View.Capacity()
		v.Capacity, v.CapacityTitle = capacity.Items(v.found), capacity.Title(v.found)
	}
	v.badge()
	said := v.Claims()
	v.answer(said)
	v.searches()
	v.heat()
	v.throughput()
	v.frontier()
	v.latency()
	v.cost()
	v.compared(said)
	v.turns()
	v.quality()
	v.steady()
	v.cells()
	v.reproduce()
	v.Next = run.Unfinished()
	return v
}

// quality writes how the deployments answered the plan's prompts.
func (v *runView) quality() {
	p, unread := v.View.Quality()
	switch {
	case unread != "":
		v.Verdicts = draw.Items([]string{unread})
	case p != nil:
		v.answers = p
		v.Quality, v.Verdicts = tableOf(p.Grid(), p.Notes()), p.Verdicts()
	}
}

// when returns the time of a run: from its creation to the end of its last trial.
func when(run *report.Run) string {
	from, to := run.State.Manifest.CreatedAt, time.Time{}
	for _, t := range run.Trials {
		if t.Outcome != nil && t.Outcome.FinishedAt.After(to) {
			to = t.Outcome.FinishedAt
		}
	}
	switch {
	case from.IsZero():
		return ""
	case to.Before(from):
		return from.UTC().Format("2006-01-02 15:04 UTC")
	}
	from, to = from.UTC(), to.UTC()
	end := to.Format("15:04 UTC")
	if from.Format(time.DateOnly) != to.Format(time.DateOnly) {
		end = to.Format("2006-01-02 15:04 UTC")
	}
	return from.Format("2006-01-02 15:04") + " to " + end + ", " + humanize.Duration(to.Sub(from))
}

// badge names what was measured: SIMULATED, or the machines.
func (v *runView) badge() {
	var machines []string
	for _, row := range v.Rows() {
		gpu := fmt.Sprint(cmp.Or(row[col.GPU], any("server")))
		if n, ok := row[col.GPUCount].(int64); ok {
			gpu = fmt.Sprintf("%d x %s", n, gpu)
		}
		if backend, ok := row[col.Backend].(string); ok {
			gpu += " (" + backend + ")"
		}
		if row[col.Simulated] != true && !slices.Contains(machines, gpu) {
			machines = append(machines, gpu)
		}
	}
	if v.Simulated() != "" {
		machines = append([]string{"SIMULATED"}, machines...)
	}
	v.Badge = strings.Join(some(machines, 6), ", ")
}

// maxOpen is how many questions that are not decided stand at the top.
const maxOpen = 6

// answer chooses at most three sentences of those that state claims.
func (v *runView) answer(said []view.Said) {
	open, spots := v.Headlines()
	var rest []string
	for _, c := range said {
		text := strings.TrimPrefix(c.About+": "+c.Text, ": ")
		switch {
		case c.Answer == conclude.NotDecided, c.Answer == conclude.Tied && c.Question == conclude.AskSweetSpot:
			v.Open = append(v.Open, text)
		case c.Answer != conclude.Decided:
		case c.Question == conclude.AskCost:
			rest = append(rest, strings.TrimPrefix(c.About+", "+c.Text, ", "))
		case c.Question == conclude.AskGPUBest:
			rest = append(rest, text)
		}
	}
	v.Open = some(v.Open, maxOpen)
	if len(spots) > 3 || len(open)+len(spots)+len(rest) > 3 && len(spots) > 1 {
		spots = []string{fmt.Sprintf("%s decided; each is framed in the grid below", humanize.Plural(len(spots), "sweet spot"))}
	}
	v.Answer = slices.Concat(open, spots, rest)
	v.Answer = v.Answer[:min(3, len(v.Answer))]
	if len(v.Answer) == 0 {
		v.Answer = []string{"No sweet spot and no ranking is decided."}
	}
}

// some returns the first of several texts, with how many more there are.
func some(texts []string, most int) []string {
	if n := len(texts); n > most {
		return append(slices.Clone(texts[:most]), fmt.Sprintf("and %d more", n-most))
	}
	return texts
}

// compared writes the sentences about engines and GPUs, with the tables of both.
func (v *runView) compared(said []view.Said) {
	at := map[string]int{}
	for _, c := range said {
		switch c.Question {
		case conclude.AskEngine, conclude.AskGPU, conclude.AskGPUBest, conclude.AskCost:
		default:
			continue
		}
		about := cmp.Or(c.About, view.TheLoad)
		i, ok := at[about]
		if !ok {
			i = len(v.Compared)
			at[about] = i
			v.Compared = append(v.Compared, comparison{About: about})
		}
		v.Compared[i].Lines = append(v.Compared[i].Lines, c.Text)
	}
	tables := append([]*view.Table{v.Engines(), v.Surface()}, v.GPUs()...)
	for _, t := range tables {
		if t != nil {
			v.Tables = append(v.Tables, tableOf(t.Grid, t.Notes))
		}
	}
}

// seen are columns whose values say what was measured, and with what.
var seen = []struct{ name, column string }{
	{"engine", col.Engine},
	{"engine version", col.EngineVersion},
	{"image", col.ImageDigest},
	{"model", col.Model},
	{"model revision", col.ModelRevision},
	{"backend", col.Backend},
	{"GPU", col.GPU},
	{"GPUs", col.GPUCount},
	{"driver", col.DriverVersion},
	{"GPU ids", col.GPUUUID},
	{"client machine", col.ClientHost},
	{"client", col.Client},
	{"network", col.NetworkPath},
	{"stamps", col.StampKind},
	{"conditions", col.ConditionsDigest},
	{"subject", col.SubjectDigest},
}

// maxValues is how many values of one fact are shown.
const maxValues = 12

func (v *runView) reproduce() {
	m := v.Run.State.Manifest
	v.Command = "sweep run " + plaintext.Word(layout.Plan)
	for _, set := range m.Set {
		v.Command += " --set " + plaintext.Word(set)
	}
	add := func(name, value string) {
		if value != "" {
			v.Facts = append(v.Facts, fact{Name: name, Values: []string{value}})
		}
	}
	add("plan", m.Plan)
	add("plan's digest", m.PlanDigest)
	add("run", m.RunID)
	add("sweep", m.Version)
	add("host", m.Host)
	if m.Method > 0 {
		add("method of the figures", fmt.Sprint(m.Method))
	}
	rows := v.Run.Rows()
	for _, s := range seen {
		var values []string
		for _, row := range rows {
			if row[s.column] == nil {
				continue
			}
			if text := humanize.Figure(row[s.column]); !slices.Contains(values, text) {
				values = append(values, text)
			}
			if len(values) > maxValues {
				break
			}
		}
		if len(values) > maxValues {
			values = append(values[:maxValues], "and more")
		}
		if len(values) > 0 {
			v.Facts = append(v.Facts, fact{Name: s.name, Column: s.column, Values: values})
		}
	}
}

// doc returns what a column means, with its name and unit first.
func doc(columns []result.Column, name string) string {
	c, ok := result.Lookup(columns, name)
	if !ok {
		return name
	}
	text := name
	if c.Unit != "" {
		text += " [" + c.Unit + "]"
	}
	return text + ": " + c.Doc
}
