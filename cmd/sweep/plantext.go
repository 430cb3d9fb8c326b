package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/pods"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/serving/render"
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
}

// A server is one deployment of a plan as sweep plan shows it.
type server struct {
	of      plan.Deployment
	about   estimated
	price   pods.Price
	note    string // what is predicted of it; "" for nothing
	skipped bool
}

// dollars are what the server costs for its time; ok is false for a price that nobody
// knows.
func (s server) dollars() (usd float64, ok bool) {
	return s.price.USDPerHour * s.about.took.Hours(), s.price.Known
}

// planText prints a plan for people: a line for each deployment, what is sent beyond the
// load, and what all of it takes.
func (a *app) planText(ctx context.Context, c *cli.Command, p planned) error {
	servers, err := a.serversOf(ctx, p)
	if err != nil {
		return err
	}
	size, cost := totals(p, servers)
	if _, err := fmt.Fprintf(a.out, "%s   %s\n", p.plan.Name, size); err != nil {
		return err
	}
	if c.Bool("verbose") {
		err = a.planDetails(p, servers)
	} else {
		err = a.planLines(p, servers)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "  %s\nnext: sweep run %s\n", cost, plaintext.Word(p.path))
	return err
}

// serversOf are the deployments of a plan with their times and prices.
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
		s := server{of: d, note: predictionText(d.Server), price: costs[d.ID], about: estimate(p.plan, d, p.plugins.traits())}
		s.skipped = s.note != "" && p.plan.Predicted == plan.PredictedSkip
		servers[i] = s
	}
	return servers, nil
}

// planLines prints a line for each deployment. Names, which may be long, stand last.
func (a *app) planLines(p planned, servers []server) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "  cells\ttime\t$\tuses\tdeployment\n")
	for i, s := range servers {
		if i == maxDeployments && len(servers) > maxDeployments+1 {
			fmt.Fprintf(w, "  %d more deployments: sweep plan -v %s\n", len(servers)-i, plaintext.Word(p.path))
			break
		}
		name, took, cost := executor.ServerLabel(s.of), roundMinutes(s.about.took), "-"
		if s.note != "" {
			name += ": " + s.note
		}
		if usd, ok := s.dollars(); ok {
			cost = humanize.Price(usd)
		}
		if s.skipped {
			name, took, cost = name+", skipped", "-", "-"
		}
		fmt.Fprintf(w, "  %d\t%s\t%s\t%s\t%s\n", len(s.of.Cells), took, cost, uses(s.of.Server, s.price), plaintext.Line(name))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return a.beyond(p)
}

// beyond prints what is sent beyond the load, and the budget.
func (a *app) beyond(p planned) error {
	groups := executor.Announce(p.plan, p.deployments, p.plugins.backend, p.plugins.factory.Given)
	for i, group := range groups {
		if i == maxAnnounced && len(groups) > maxAnnounced+1 {
			fmt.Fprintf(a.out, "  and what %d more kinds of servers get: sweep plan -v %s\n", len(groups)-i, plaintext.Word(p.path))
			break
		}
		text := strings.TrimSuffix(group.String(), ": sweep plan -v lists them")
		if len(groups) == 1 {
			text = strings.TrimPrefix(text, group.Title()+": ")
			if len(group.Servers) > 1 {
				text = "each: " + text
			}
		}
		fmt.Fprintln(a.out, "  "+plaintext.Line(text))
	}
	var limits []string
	if b := p.plan.Budget; b.MaxCost > 0 {
		limits = append(limits, fmt.Sprintf("max_cost $%.2f", b.MaxCost))
	}
	if b := p.plan.Budget; b.MaxTime > 0 {
		limits = append(limits, "max_time "+b.MaxTime.String())
	}
	if len(limits) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(a.out, "  budget: "+strings.Join(limits, ", "))
	return err
}

// planDetails prints all cells, offers and requests.
func (a *app) planDetails(p planned, servers []server) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, s := range servers {
		d := s.of
		if s.skipped {
			fmt.Fprintf(w, "deployment %s\t%s\n  skipped\t%s\n", d.ID, executor.ServerLabel(d), s.note)
			continue
		}
		cost := ""
		if usd, ok := s.dollars(); ok {
			cost = "$" + humanize.Price(usd)
		}
		size := humanize.Plural(len(d.Cells), "cell")
		if p.plan.Repeats.Each() {
			size += ", " + upTo(p.plan) + humanize.Plural(s.about.launches, "launch")
		}
		fmt.Fprintf(w, "deployment %s\t%s\t%s, %s\t%s\n", d.ID, executor.ServerLabel(d), size, roundMinutes(s.about.took), cost)
		fmt.Fprintf(w, "  uses\t%s\n", hardware(d.Server, s.price))
		if s.note != "" {
			fmt.Fprintf(w, "  predicted\t%s\n", s.note)
		}
		for _, o := range s.price.Offers {
			stock := cmp.Or(strings.ToLower(plaintext.Line(o.Stock)), "unknown")
			if o.USDPerHour == 0 {
				fmt.Fprintf(w, "  %s\t%s\tnot offered\t\n", o.GPU, o.Where)
				continue
			}
			fmt.Fprintf(w, "  %s\t%s, $%.2f/h\tstock %s\t\n", o.GPU, o.Where, o.USDPerHour, stock)
		}
		for _, cell := range d.Cells {
			fmt.Fprintf(w, "  %s\t%s\t%s\n", cell.ID, executor.Label(cell), cellEstimate(p.plan, cell, p.plugins.traits().scale).Round(time.Second))
		}
	}
	for _, group := range executor.Announce(p.plan, p.deployments, p.plugins.backend, p.plugins.factory.Given) {
		if err := w.Flush(); err != nil { // columns of their own
			return err
		}
		fmt.Fprintf(w, "%s: requests beyond the load, at most\n", plaintext.Line(group.Title()))
		for _, x := range group.Extras {
			fmt.Fprintf(w, "  %s\t%s\t%s\n", x.What, most(x), x.Text)
		}
	}
	return w.Flush()
}

// totals are how large a run of the plan is, and what it takes.
func totals(p planned, servers []server) (size, cost string) {
	var total time.Duration
	var dollars float64
	priced, cells, on, launches := true, 0, 0, 0
	sources := map[string]bool{}
	for _, s := range servers {
		if s.skipped {
			continue
		}
		usd, ok := s.dollars()
		if priced = priced && ok; ok {
			dollars += usd
			sources[report.PriceSource(s.price.Source)] = true
		}
		cells += len(s.of.Cells)
		on++
		launches += s.about.launches
		total += s.about.took
	}
	about := "about " + roundMinutes(total)
	_, known := p.plan.Load.Sends()
	switch l := p.plan.Load; {
	case !known:
		about = "as long as the trace"
	case l.Until != nil || l.Stop != nil || p.plan.Repeats.Until != nil:
		about += " at most"
	}
	cost = "no price is known for every gpu"
	from := strings.Join(slices.Sorted(maps.Keys(sources)), " and ")
	switch {
	case !priced:
	case p.plugins.traits().simulated:
		cost = fmt.Sprintf("nothing is rented: simulated (the GPUs would cost %s, %s)", roughly(dollars), from)
	default:
		cost = roughly(dollars) + ", " + from
	}
	if p.plan.Budget.MaxCost > 0 {
		cost += fmt.Sprintf(", at most $%.2f", p.plan.Budget.MaxCost)
	}
	cost = about + "; " + cost
	deployments := humanize.Plural(on, "deployment")
	if p.plan.Repeats.Each() {
		deployments += ", each trial on a launch of its own (" + upTo(p.plan) + humanize.Plural(launches, "launch") + ")"
	}
	size = fmt.Sprintf("%s in %s, %s", humanize.Plural(cells, "cell"), deployments, upTo(p.plan)+humanize.Plural(cells*p.plan.Repeats.Most(), "trial"))
	return size, cost
}

// roughly is an estimate in dollars, in words.
func roughly(usd float64) string {
	if usd > 0 && usd < 0.01 {
		return "less than $0.01"
	}
	return "about " + humanize.Dollars(usd)
}

// upTo says that the plan's cells may have fewer trials than they have at most.
func upTo(p *plan.Plan) string {
	if p.Repeats.Until == nil {
		return ""
	}
	return "up to "
}

// hardware is the GPUs of a server, all roles and replicas, and their price with its
// source.
func hardware(s plan.Server, of pods.Price) string {
	text := uses(s, of)
	if of.Known {
		text += " (" + report.PriceSource(of.Source) + ")"
	}
	return text
}

// uses is hardware without the source of the price.
func uses(s plan.Server, of pods.Price) string {
	text := humanize.Plural(s.GPUCount, "GPU")
	if s.GPU != "" {
		text = fmt.Sprintf("%d x %s", s.GPUCount, plaintext.Line(s.GPU))
	}
	if of.Known {
		text += fmt.Sprintf(", $%.2f/h", of.USDPerHour)
	}
	return text
}

// most is how many requests at most, in words.
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
