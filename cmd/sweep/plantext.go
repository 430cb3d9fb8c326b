package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/executor/rented"
	"sweep.dev/sweep/executor/serving/render"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/draw"
)

// maxDeployments is how many deployments sweep plan lists; -v lists all.
const maxDeployments = 20

// maxAnnounced is for how many kinds of servers it says what they are sent beyond the load.
const maxAnnounced = 4

// A planned is what a run of a plan would do.
type planned struct {
	path        string
	plan        *plan.Plan
	plugins     *plugins
	deployments []plan.Deployment
	done        endedOf // of searches
}

// A server is one deployment of a plan as sweep plan shows it.
type server struct {
	of      plan.Deployment
	about   estimated
	price   rented.Price
	note    string // what is predicted of it; "" for nothing
	skipped bool
}

// dollars returns what the server costs for its time; ok is false if the price is unknown.
func (s server) dollars() (usd float64, ok bool) {
	return s.price.USDPerHour * s.about.took.Hours(), s.price.Known
}

// planText prints a plan for people: a line for each deployment, what it may lack, and
// what all of it takes.
func (a *app) planText(ctx context.Context, c *cli.Command, p planned) error {
	servers, err := a.serversOf(ctx, p)
	if err != nil {
		return err
	}
	style := a.style()
	if c.Bool("verbose") {
		style.Width = a.textWidth()
	}
	page := draw.New(a.out, style)
	sum := p.sum(servers)
	page.Parts(p.plan.Name, p.size(sum))
	p.loads(page)
	if b, ok := p.plugins.backend.(backends.Described); ok {
		page.Text("  " + plaintext.Line(b.Describe()))
	}
	if c.Bool("verbose") {
		p.details(page, servers)
	} else {
		p.lines(page, servers)
		p.searches(page, servers)
		p.beyond(page)
	}
	for _, text := range []string{a.clientsText(p), p.confidences(servers), p.budget(sum, servers), sampleAdvice(p.plan), p.cost(sum)} {
		if text != "" {
			page.Text("  " + text)
		}
	}
	page.Text("next: " + draw.Command("sweep run "+plaintext.Word(p.path)))
	return page.Err()
}

// serversOf returns the deployments of a plan with their times and prices.
func (a *app) serversOf(ctx context.Context, p planned) ([]server, error) {
	costs, err := a.prices(ctx, p.plan, p.plugins.backend, p.plugins.servers(a.exe).With(), p.deployments)
	if err != nil {
		// A plan can be looked at without an account.
		a.say("sweep: %v; the plan's own and list prices instead", err)
		costs, err = a.prices(ctx, p.plan, nil, render.With{}, p.deployments)
		if err != nil {
			return nil, err
		}
	}
	servers := make([]server, len(p.deployments))
	for i, d := range p.deployments {
		s := server{of: d, note: predictionText(d.Server), price: costs[d.ID], about: estimateLeft(p.plan, d, p.plugins.traits(), everything(p.plan), p.done)}
		s.skipped = s.note != "" && p.plan.Predicted == plan.PredictedSkip
		servers[i] = s
	}
	return servers, nil
}

// mostName is the longest name of a deployment that stands before its figures. If one is
// longer all names stand behind them, where they are broken.
const mostName = 40

// lines prints a line for each deployment.
func (p planned) lines(page *draw.Document, servers []server) {
	names := []string{"deployment"}
	figures := [][]any{{"GPUs", "cells", "time", "$/h", "$"}}
	notes := []string{""}
	left := 0
	for i, s := range servers {
		if i == maxDeployments && len(servers) > maxDeployments+1 {
			break
		}
		took, price, cost, note := humanize.Duration(s.about.took), "-", "-", s.note
		if usd, ok := s.dollars(); ok {
			price, cost = fmt.Sprintf("%.2f", s.price.USDPerHour), humanize.Price(usd)
		}
		if s.skipped {
			took, cost, note = "-", "-", note+", skipped"
		}
		names, notes = append(names, plaintext.Line(executor.ServerLabel(s.of))), append(notes, note)
		figures = append(figures, []any{strconv.Itoa(s.of.Server.GPUCount), strconv.Itoa(len(s.of.Cells)), took, price, cost})
		left = max(left, utf8.RuneCountInString(names[i+1]))
	}
	var format strings.Builder // of the figures of a line
	for at := range figures[0] {
		width := 0
		for _, row := range figures {
			width = max(width, len(row[at].(string)))
		}
		fmt.Fprintf(&format, "  %%%ds", width)
	}
	var behind [][]string
	for i, name := range names {
		line := fmt.Sprintf(format.String(), figures[i]...)
		if left > mostName {
			if notes[i] != "" {
				name += ": " + notes[i]
			}
			behind = append(behind, []string{line[2:], name})
			continue
		}
		page.Parts("  " + name + strings.Repeat(" ", max(left, len(names[0]))-utf8.RuneCountInString(name)) + line)
		if notes[i] != "" {
			page.Text("    " + notes[i])
		}
	}
	page.Rows(behind...)
	if n := len(servers) - len(names) + 1; n > 0 {
		page.Text(fmt.Sprintf("  %d more deployments: ", n) + draw.Command("sweep plan -v "+plaintext.Word(p.path)))
	}
}

// beyond prints what is sent beyond the load.
func (p planned) beyond(page *draw.Document) {
	groups := executor.Announce(p.plan, p.deployments, p.plugins.backend, p.plugins.servers(""))
	for i, group := range groups {
		if i == maxAnnounced && len(groups) > maxAnnounced+1 {
			page.Text(fmt.Sprintf("  and what %d more kinds of servers get: ", len(groups)-i) + draw.Command("sweep plan -v "+plaintext.Word(p.path)))
			break
		}
		text := group.String()
		if len(groups) == 1 {
			text = strings.TrimPrefix(text, group.Title()+": ")
			if len(group.Servers) > 1 {
				text = "each: " + text
			}
		}
		page.Text("  " + text)
	}
}

// details prints all cells, offers and requests.
func (p planned) details(page *draw.Document, servers []server) {
	for _, s := range servers {
		d := s.of
		head := "deployment " + d.ID + ": " + executor.ServerLabel(d)
		if s.skipped {
			page.Text(head)
			page.Rows([]string{"skipped", s.note})
			continue
		}
		head += ", " + humanize.Plural(len(d.Cells), "cell")
		if p.plan.Repeats.Each() || s.about.launches > 1 {
			head += ", " + upTo(p.plan) + humanize.Plural(s.about.launches, "launch")
		}
		head += ", " + humanize.Duration(s.about.took)
		if usd, ok := s.dollars(); ok {
			head += ", $" + humanize.Price(usd)
		}
		page.Text(head)
		rows := [][]string{{"uses", hardware(d.Server, s.price)}}
		if s.note != "" {
			rows = append(rows, []string{"predicted", s.note})
		}
		for _, o := range s.price.Offers {
			offer := "not offered"
			if o.USDPerHour != 0 {
				offer = fmt.Sprintf("$%.2f/h, stock %s", o.USDPerHour, cmp.Or(strings.ToLower(plaintext.Line(o.Stock)), "unknown"))
			}
			rows = append(rows, []string{o.GPU, o.Where + ", " + offer})
		}
		page.Rows(rows...)
		if p.plan.Find != nil {
			p.searches(page, []server{s})
			continue
		}
		rows = rows[:0]
		for _, cell := range d.Cells {
			took := cellEstimate(p.plan, cell, p.plugins.traits().scale).Round(time.Second)
			rows = append(rows, []string{cell.ID, took.String(), executor.LoadLabel(cell)})
		}
		page.Rows(rows...)
	}
	for _, group := range executor.Announce(p.plan, p.deployments, p.plugins.backend, p.plugins.servers("")) {
		page.Text(group.Title() + ": requests beyond the load, at most")
		rows := make([][]string, len(group.Extras))
		for i, x := range group.Extras {
			text := strings.Replace(most(x)+": "+x.Text, "completions: completions ", "completions ", 1)
			rows[i] = []string{x.What, text}
		}
		page.Rows(rows...)
	}
}

// A total is what a run of a plan takes.
type total struct {
	cells, deployments, launches int
	took, longer                 time.Duration // as expected, and at most
	usd                          float64
	priced                       bool     // whether the prices of all are known
	sources                      []string // of the prices, in words
}

// sum returns the total over the servers that are started.
func (p planned) sum(servers []server) total {
	t := total{priced: true}
	sources := map[string]bool{}
	for _, s := range servers {
		if s.skipped {
			continue
		}
		usd, ok := s.dollars()
		if t.priced = t.priced && ok; ok {
			t.usd += usd
			sources[report.PriceSource(s.price.Source)] = true
		}
		t.cells += len(s.of.Cells)
		t.deployments++
		t.launches += s.about.launches
		t.took += s.about.took
		t.longer += s.about.longer
	}
	t.sources = slices.Sorted(maps.Keys(sources))
	return t
}

// size returns how large a run of the plan is.
func (p planned) size(t total) string {
	text := fmt.Sprintf("%s in %s", humanize.Plural(t.cells, "cell"), humanize.Plural(t.deployments, "deployment"))
	if p.plan.Repeats.Each() {
		text += ", each trial on a launch of its own (" + upTo(p.plan) + humanize.Plural(t.launches, "launch") + ")"
	}
	if f := p.plan.Find; f != nil {
		n := 0
		for _, d := range p.deployments {
			n += len(p.plan.Searches(d.Cells))
		}
		text := fmt.Sprintf("%s of %s from %v to %v in %s", humanize.Plural(n, "search"), f.Axis, f.From, f.To, humanize.Plural(t.deployments, "deployment"))
		if f.Devices > 1 {
			text += fmt.Sprintf(", each on %d devices (%s, more if a device comes again)", f.Devices, humanize.Plural(t.launches, "launch"))
		}
		return text
	}
	return text + ", " + upTo(p.plan) + humanize.Plural(t.cells*p.plan.Repeats.Most(), "trial")
}

// timed reports whether the plan knows how long its loads take.
func (p planned) timed() bool {
	return !slices.ContainsFunc(p.plan.EachLoad(), func(l plan.NamedLoad) bool {
		_, known := l.Sends()
		return !known
	})
}

// cost returns what a run of the plan takes, in words.
func (p planned) cost(t total) string {
	text := "about " + humanize.Duration(t.took)
	early := slices.ContainsFunc(p.plan.EachLoad(), func(l plan.NamedLoad) bool { return l.Until != nil || l.Stop != nil })
	switch {
	case !p.timed():
		text = "as long as the trace"
	case early || p.plan.Repeats.Until != nil:
		text += " at most"
	case p.plan.Find != nil:
		text += ", up to three times that where many requests fare alike"
	}
	price := roughly(t.usd) + ", " + strings.Join(t.sources, " and ")
	switch {
	case len(t.sources) == 0:
		text += "; no price is known"
	case !t.priced:
		text += "; the price of some GPUs is not known"
	case p.plugins.traits().simulated:
		return text + "; simulated: the GPUs would cost " + price
	default:
		text += "; " + price
	}
	if p.plugins.factory.Bills {
		text += "; nothing has been rented"
	}
	return text
}

// budget holds the estimates against the plan's bounds, in words: whether they are enough,
// or which is not; "" if it has none.
func (p planned) budget(t total, servers []server) string {
	b := p.plan.Budget
	var limits, short []string
	if b.MaxCost > 0 {
		limits = append(limits, fmt.Sprintf("max_cost $%.2f", b.MaxCost))
		switch {
		case p.plugins.traits().simulated:
		case !t.priced:
			short = append(short, "max_cost cannot be checked without a price")
		case t.usd > b.MaxCost:
			short = append(short, fmt.Sprintf("$%.2f is missing", t.usd-b.MaxCost))
		}
	}
	if b.MaxTime > 0 {
		limits = append(limits, "max_time "+span(b.MaxTime))
		switch {
		case !p.timed():
			short = append(short, "max_time cannot be checked, the trace decides")
		case t.took > b.MaxTime:
			short = append(short, humanize.Duration(t.took-b.MaxTime)+" are missing")
		}
	}
	for _, s := range servers {
		if each := s.about.took / time.Duration(max(1, s.about.launches)); p.plugins.factory.Outlives && !s.skipped && each > b.MaxPodLifetime {
			limits = append(limits, "max_pod_lifetime "+span(b.MaxPodLifetime))
			short = append(short, humanize.Duration(each-b.MaxPodLifetime)+" are missing for "+executor.ServerLabel(s.of))
			break
		}
	}
	switch {
	case len(limits) == 0:
		return ""
	case len(short) == 0:
		return "budget: " + strings.Join(limits, ", ") + ": enough"
	}
	return "budget: " + strings.Join(limits, ", ") + ": " + strings.Join(short, ", ") + "; the run ends there (exit 5)"
}

// span returns a time as a plan writes it: 1h30m.
func span(d time.Duration) string {
	text := strings.Replace(d.String(), "m0s", "m", 1)
	return strings.Replace(text, "h0m", "h", 1)
}

// roughly returns an estimate in dollars, in words.
func roughly(usd float64) string {
	if usd > 0 && usd < 0.01 {
		return "less than $0.01"
	}
	return "about " + humanize.Dollars(usd)
}

// upTo returns words if the plan's cells may have fewer trials than they have at most.
func upTo(p *plan.Plan) string {
	if p.Repeats.Until == nil {
		return ""
	}
	return "up to "
}

// hardware returns the GPUs of a server, all roles and replicas, and their price with its
// source.
func hardware(s plan.Server, of rented.Price) string {
	text := uses(s, of)
	if of.Known {
		text += " (" + report.PriceSource(of.Source) + ")"
	}
	return text
}

// uses is hardware without the source of the price.
func uses(s plan.Server, of rented.Price) string {
	text := humanize.Plural(s.GPUCount, "GPU")
	if s.GPU != "" {
		text = fmt.Sprintf("%d x %s", s.GPUCount, plaintext.Line(s.GPU))
	}
	if of.Known {
		text += fmt.Sprintf(", $%.2f/h", of.USDPerHour)
	}
	return text
}

// most returns how many requests at most, in words.
func most(x executor.Extra) string {
	switch {
	case x.Requests == nil:
		return "number not known"
	case x.Completions == nil || *x.Completions == 0:
		return humanize.Plural(*x.Requests, "request")
	case *x.Completions == *x.Requests:
		return humanize.Plural(*x.Completions, "completion")
	}
	return fmt.Sprintf("%s, of them %s", humanize.Plural(*x.Requests, "request"), humanize.Plural(*x.Completions, "completion"))
}
