package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/book"
)

// What a run does before and after it where pods cost money or outlive it.

// rentFlags are shared by run and resume.
func rentFlags() []cli.Flag {
	return []cli.Flag{
		&cli.FloatFlag{Name: "max-cost", Usage: "stop when `USD` are spent on pods, teardown included (exit 5)", Validator: positive[float64], DefaultText: "the plan's budget"},
		&cli.DurationFlag{Name: "keep-pod", Usage: "leave the last server of each deployment running for `LIFETIME`; the next run of the same server adopts it, and it is billed meanwhile", Validator: positive[time.Duration], DefaultText: "not at all"},
		&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "rent without asking"},
	}
}

// A budget is what a run may cost: the plan's, with the flags in its place.
type budget struct {
	cost float64 // USD; 0: no bound
	time time.Duration
}

func budgetOf(c *cli.Command, p *plan.Plan) budget {
	b := budget{p.Budget.MaxCost, p.Budget.MaxTime}
	if c.IsSet("max-cost") {
		b.cost = c.Float("max-cost")
	}
	if c.IsSet("max-time") {
		b.time = c.Duration("max-time")
	}
	return b
}

// A price is what one deployment costs while it stands.
type price struct {
	usdPerHour float64
	known      bool
	source     string           // one of result's Price constants
	offers     []backends.Offer // what the provider says; nil where it was not asked
}

// prices asks the provider what deployments would cost, or takes the prices of
// the plan, the user's configuration or the catalogue if there is no provider to
// ask.
func prices(ctx context.Context, p *plan.Plan, made *plugins, deployments []plan.Deployment, sweep string) (map[string]price, error) {
	all := map[string]price{}
	quoter, asks := made.backend.(backends.Quoter)
	for _, d := range deployments {
		if !asks {
			usd, source := p.PriceOf(d.Server)
			all[d.ID] = price{usdPerHour: usd, known: source != "", source: source}
			continue
		}
		spec, err := executor.Specify(p, d, sweep)
		if err != nil {
			return nil, err
		}
		offers, err := quoter.Quote(ctx, spec)
		if err != nil {
			return nil, fmt.Errorf("prices of backend %s: %w", p.Backend.Kind, err)
		}
		all[d.ID] = offered(offers)
	}
	return all, nil
}

// offered is the price of the first offer that is available, else of the first
// with a price. An offer without a price is unknown, not free.
func offered(offers []backends.Offer) price {
	p := price{offers: offers}
	for _, o := range offers {
		if o.USDPerHour > 0 && (o.Available || !p.known) {
			p.usdPerHour, p.known, p.source = o.USDPerHour, true, result.PriceProvider
		}
		if o.Available {
			break
		}
	}
	return p
}

// estimate is how long a deployment takes, from its launch to its end; scale is
// that of its servers' clocks.
func estimate(p *plan.Plan, d plan.Deployment, scale float64) time.Duration {
	return estimateLeft(p, d, scale, func(plan.Cell) int { return max(1, p.Repeats) })
}

// estimateLeft is estimate where only some trials of each cell are left to do.
func estimateLeft(p *plan.Plan, d plan.Deployment, scale float64, left func(plan.Cell) int) time.Duration {
	took := startEstimate(p, d.Server)
	for _, cell := range d.Cells {
		took += trialEstimate(cell.Server, cell.Load, scale) * time.Duration(left(cell))
	}
	return took
}

// A rentQuote is what a run is going to rent, and its price.
type rentQuote struct {
	pods, atOnce int
	unknown      int           // pods whose price is unknown
	usdPerHour   float64       // at most, of all that stand at once
	usd          float64       // about, for what is left to measure
	spent        float64       // by earlier runs of the directory
	max          float64       // the bound for the whole run directory; 0: none
	kept         float64       // at most, for pods that are kept afterwards
	keep         time.Duration // how long they are; 0: not at all
}

// String is one line without the plan's name.
func (q rentQuote) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rents %s", plural(q.pods, "pod"))
	switch {
	case q.atOnce > 1:
		fmt.Fprintf(&b, ", %d at once", q.atOnce)
	case q.pods > 1:
		b.WriteString(", one after another")
	}
	if q.unknown == q.pods {
		b.WriteString(", at a price that is not known")
	} else {
		fmt.Fprintf(&b, ", at up to $%.2f/h: about $%s", q.usdPerHour, report.Dollars(q.usd))
	}
	if q.unknown > 0 && q.unknown < q.pods {
		fmt.Fprintf(&b, " without %s of unknown price", plural(q.unknown, "pod"))
	}
	if q.spent > 0 {
		fmt.Fprintf(&b, " more, $%s are spent", report.Dollars(q.spent))
	}
	if q.max > 0 {
		fmt.Fprintf(&b, ", at most $%.2f", q.max)
		if q.spent > 0 {
			b.WriteString(" in all")
		}
	} else {
		b.WriteString(", no max_cost bounds it")
	}
	if q.keep > 0 {
		more := "more"
		if q.unknown < q.pods {
			more = fmt.Sprintf("up to $%s more", report.Dollars(q.kept))
		}
		fmt.Fprintf(&b, "; --keep-pod %s costs %s, which no max_cost bounds", q.keep, more)
	}
	return b.String()
}

// overBudget says whether the estimate is over the bound.
func (q rentQuote) overBudget() bool { return q.max > 0 && q.spent+q.usd > q.max }

// quoteOf asks for the price of the trials without an outcome. It has no pods if
// nothing is left to rent for.
func (a *app) quoteOf(ctx context.Context, c *cli.Command, j job) (rentQuote, error) {
	q := rentQuote{max: budgetOf(c, j.plan).cost, keep: c.Duration("keep-pod")}
	deployments, err := j.deployments()
	if err != nil || len(deployments) == 0 {
		return q, err
	}
	costs, err := prices(ctx, j.plan, j.plugins, deployments, a.exe)
	if err != nil {
		return q, err
	}
	q.spent = executor.Spent(j.state, time.Now())
	q.pods, q.atOnce = len(deployments), min(len(deployments), max(1, c.Int("parallel")))
	for _, d := range deployments {
		one, took := costs[d.ID], estimateLeft(j.plan, d, j.plugins.timeScale(), j.left)
		if !one.known {
			q.unknown++
		}
		q.usd += one.usdPerHour * took.Hours()
		q.kept += one.usdPerHour * q.keep.Hours()
		q.usdPerHour = max(q.usdPerHour, one.usdPerHour)
		if life := j.plan.Budget.MaxPodLifetime; took > life {
			fmt.Fprintf(a.err, "sweep: %s takes about %s, and its pod ends itself after %s: raise budget.max_pod_lifetime, or the run ends there (exit 5)\n",
				plaintext.Line(executor.ServerLabel(d)), roundMinutes(took), life)
		}
	}
	q.usdPerHour *= float64(q.atOnce)
	return q, nil
}

// agree prints what a job is going to rent, and asks before anything is rented.
// On a terminal a person answers, even if the cost has a bound; without a terminal
// --yes or a bound is the answer. It is silent if nothing costs money.
func (a *app) agree(ctx context.Context, c *cli.Command, j job) error {
	if !j.plugins.factory.Bills {
		return nil
	}
	p := j.plan
	if least := p.Timeouts.Stop + j.plugins.factory.Settle + time.Minute; p.Budget.MaxPodLifetime < least {
		return &usage{&hinted{
			fmt.Errorf("budget.max_pod_lifetime is %s: a pod of %s is given back %s before it ends itself, so nothing could be measured", p.Budget.MaxPodLifetime, p.Backend.Kind, least-time.Minute),
			fmt.Sprintf("at least %s, or a shorter timeouts.stop", least),
		}}
	}
	q, err := a.quoteOf(ctx, c, j)
	switch {
	case err != nil && exitCode(err) == exitInternal:
		return &statusError{exitIncomplete, &hinted{err, "nothing was rented; the same command tries again"}}
	case err != nil:
		return err
	case q.pods == 0:
		return nil
	case q.overBudget():
		return &statusError{exitBudget, &hinted{
			fmt.Errorf("%s %s: that is over the budget, so nothing was rented", p.Name, q),
			"--max-cost and budget.max_cost are the bound; --only and load.requests make the run smaller",
		}}
	}
	fmt.Fprintf(a.err, "%s %s\n", p.Name, q)
	yes, err := a.ask(c.Bool("yes"), "go on?")
	switch {
	case yes, err != nil && q.max > 0:
		return nil
	case err != nil:
		return &usage{&hinted{fmt.Errorf("%w, and nothing bounds the cost: nothing was rented", err), "--yes rents all the same; --max-cost USD, or budget.max_cost in the plan, bounds it"}}
	}
	return &usage{errors.New("not agreed: nothing was rented")}
}

// openBook opens the ledger of this machine for a run whose pods outlive it;
// nil for any other.
func (a *app) openBook(j job) (executor.Book, error) {
	if !j.plugins.factory.Outlives {
		return nil, nil
	}
	b, err := a.book()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(j.path)
	if err != nil {
		return nil, err
	}
	place, err := placeOfPlan(j.plan)
	if err != nil {
		return nil, err
	}
	m := j.state.Manifest
	return b.Page(book.Run{ID: m.RunID, Owner: m.Owner, Dir: dir}, j.plan.Backend.Kind, place), nil
}

// placeOfPlan tells the configuration of a plan's backend from any other, with the
// variables that it reads: a pod that is kept on another host is no server of this
// plan's.
func placeOfPlan(p *plan.Plan) (string, error) {
	resolved, err := p.Resolved()
	if err != nil {
		return "", err
	}
	var part struct {
		Backend json.RawMessage `json:"backend"`
	}
	if err := json.Unmarshal(resolved, &part); err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(part.Backend, p.Variables()...))
	return hex.EncodeToString(sum[:6]), nil
}

// book opens the ledger of this machine.
func (a *app) book() (*book.Book, error) {
	fx, err := a.effects()
	if err != nil {
		return nil, err
	}
	dir, err := book.DefaultDir(a.env)
	if err != nil {
		return nil, &usage{err}
	}
	b, err := book.Open(fx, dir)
	if err != nil {
		return nil, &usage{&hinted{err, "what is rented has to stand in a ledger outside of the run directory; SWEEP_STATE_DIR names another folder for it"}}
	}
	return b, nil
}

// lifetime is after what time a pod of this run ends itself.
func lifetime(j job) time.Duration {
	if !j.plugins.factory.Outlives {
		return 0
	}
	return j.plan.Budget.MaxPodLifetime
}

// owedText names what may still be there, what it costs, and how to end it.
func owedText(m rundir.Manifest, owed []rundir.Owed) (text, command string) {
	if len(owed) == 0 {
		return "", ""
	}
	var rate float64
	var pods []string
	for _, o := range owed {
		rate += o.USDPerHour
		id := cmp.Or(o.Name, o.Pod)
		if o.Ref != nil && o.Ref.ID != "" {
			id = o.Ref.ID + " (" + id + ")"
		}
		pods = append(pods, fmt.Sprintf("%s %s, %s", o.Kind, id, o.State))
	}
	text = "not seen to be gone: " + strings.Join(pods, "; ")
	if rate > 0 {
		text += fmt.Sprintf("; they cost $%.2f/h together", rate)
	}
	return text, fmt.Sprintf("sweep gc --run %s --yes", m.RunID)
}

// leftovers ends what earlier runs of this person have left at the run's own
// provider, before anything new is rented: what is past its date, and what is
// of a run that is over. What cannot be ended is a reason not to begin.
func (a *app) leftovers(ctx context.Context, j job, say func(string, ...any)) error {
	if !j.plugins.factory.Outlives || len(j.state.Committed) >= j.state.Manifest.Trials && len(j.retry) == 0 {
		return nil
	}
	own := &vendor{factory: j.plugins.factory, backend: j.plugins.backend}
	inv := &inventory{vendors: []*vendor{own}}
	var entries []book.Entry
	inv.book, entries, inv.damaged = a.owed()
	inv.ask(ctx)
	if own.err != nil {
		return fmt.Errorf("look for what earlier runs left: backend %s: %w: %w", own.factory.Kind, executor.ErrUnreachable, own.err)
	}
	inv.join(entries, func(kind string) bool { return kind == own.factory.Kind })
	for i, f := range inv.pods {
		// This process has rented nothing yet, and what the journal owes is the
		// executor's: a pod that is this run's by the ledger of the machine
		// alone was being taken over when an earlier process died.
		if f.entry != nil && f.entry.RunID == j.state.Manifest.RunID &&
			!slices.ContainsFunc(j.state.Owed, func(o rundir.Owed) bool { return o.Pod == f.entry.Pod }) {
			inv.pods[i].run = runEnded
		}
	}
	_, due, _ := judge(inv, scope{now: time.Now(), owner: j.state.Manifest.Owner})
	endAll(ctx, inv, due)
	var left []string
	for _, d := range due {
		if d.row.Gone {
			say("pod %s, which an earlier run left, is gone (%s)", plaintext.Line(d.row.Name), d.row.Why)
			continue
		}
		left = append(left, fmt.Sprintf("%s: %s", plaintext.Line(d.row.Name), plaintext.Line(d.row.Error)))
	}
	if len(left) > 0 {
		return &statusError{exitCleanup, &hinted{
			fmt.Errorf("nothing was rented: what an earlier run left is not seen to be gone: %s", strings.Join(left, "; ")),
			"sweep gc --yes tries again; sweep pods shows what it costs",
		}}
	}
	return nil
}
