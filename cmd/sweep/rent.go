package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/executor/rented"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/executor/serving/render"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/podledger"
)

// This file is what a run does before and after it if pods cost money or outlive it.

// rentFlags returns those that run and resume share about rented machines.
func rentFlags() []cli.Flag {
	return []cli.Flag{
		&cli.FloatFlag{Name: "max-cost", Usage: "stop when `USD` are spent on pods, teardown included (exit 5)", Validator: positive[float64], DefaultText: "the plan's budget"},
		&cli.DurationFlag{Name: "keep-pod", Usage: "leave the last server of each deployment running for `LIFETIME`; the next run of the same server adopts it, and it is billed meanwhile", Validator: positive[time.Duration], DefaultText: "not at all"},
		&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "rent, and send what the plan names to its hosts, without asking"},
	}
}

// bounds are what a run may cost: the plan's, with the flags in its place.
type bounds struct {
	cost float64 // USD; 0: no bound
	time time.Duration
}

func budgetOf(c *cli.Command, p *plan.Plan) bounds {
	b := bounds{p.Budget.MaxCost, p.Budget.MaxTime}
	if c.IsSet("max-cost") {
		b.cost = c.Float("max-cost")
	}
	if c.IsSet("max-time") {
		b.time = c.Duration("max-time")
	}
	return b
}

// prices asks the backend of a plan what deployments would cost; see [rented.Prices].
func (a *app) prices(ctx context.Context, p *plan.Plan, backend backends.Backend, with render.With, deployments []plan.Deployment) (map[string]rented.Price, error) {
	return rented.Prices(ctx, p, backend, deployments, func(d plan.Deployment) (backends.Spec, error) {
		return render.Spec(p, d, with)
	})
}

// An estimated is what trials of a deployment are estimated to take, while no server dies:
// what is expected and, behind it, the most.
type estimated struct {
	launches, mostLaunches int           // of its servers
	starts, mostStarts     time.Duration // of these, with their fingerprints
	took, longer           time.Duration // from the first launch to the end of the last
}

// estimate returns what all trials of a deployment take.
func estimate(p *plan.Plan, d plan.Deployment, of traits) estimated {
	return estimateLeft(p, d, of, everything(p), nil)
}

// everything returns the numbers of all trials of a cell of a plan.
func everything(p *plan.Plan) func(plan.Cell) []int {
	return func(c plan.Cell) []int { return executor.Numbers(p, &rundir.State{}, c) }
}

// estimateLeft returns what they take where only some trials of the cells, by their numbers
// from 1, are left to do, and something of its searches is done.
func estimateLeft(p *plan.Plan, d plan.Deployment, of traits, left func(plan.Cell) []int, done endedOf) (e estimated) {
	if p.Find != nil {
		all := search.Settings{Devices: p.Find.Devices} // which its searches share
		e.launches, e.mostLaunches = all.Launches(devicesDone(p, d, done))
		trials := estimateSearches(p, d, done, of.scale)
		return e.with(p, d, of, trials.took, trials.longer)
	}
	numbers, trials := map[int]bool{}, time.Duration(0)
	for _, cell := range d.Cells {
		for _, n := range left(cell) {
			numbers[n] = true
			trials += trialEstimate(cell.Server, cell.Load, of.scale)
		}
	}
	e.launches = p.Repeats.Launches(len(numbers))
	e.mostLaunches = e.launches
	return e.with(p, d, of, trials, trials)
}

// with returns the estimate of so many launches, and of trials on them. A server on a device that
// is taken is asked for no fingerprint.
func (e estimated) with(p *plan.Plan, d plan.Deployment, of traits, trials, most time.Duration) estimated {
	took, longest := launchEstimate(p, d.Server, of)
	e.starts = took * time.Duration(e.launches)
	e.mostStarts = longest*time.Duration(e.launches) + startEstimate(d.Server, of)*time.Duration(e.mostLaunches-e.launches)
	e.took, e.longer = e.starts+trials, e.mostStarts+most
	return e
}

// devicesDone returns how many devices all searches of a deployment are done with.
func devicesDone(p *plan.Plan, d plan.Deployment, done endedOf) int {
	least := -1
	for _, s := range executor.Searches(p, d.Cells) {
		next, more := search.Next(s.Settings, done.of(s).outcomes)
		if more && (least < 0 || next.Device < least) {
			least = next.Device
		}
	}
	return max(0, least)
}

// quoteText returns one line without the plan's name.
func quoteText(q rented.Quote) string {
	var b strings.Builder
	fmt.Fprintf(&b, "rents %s", humanize.Plural(q.Pods, "pod"))
	switch {
	case q.AtOnce > 1:
		fmt.Fprintf(&b, ", %d at once", q.AtOnce)
	case q.Pods > 1:
		b.WriteString(", one after another")
	}
	if q.Unknown == q.Pods {
		b.WriteString(", at a price that is not known")
	} else {
		fmt.Fprintf(&b, ", at up to $%.2f/h: about $%s", q.USDPerHour, humanize.Price(q.USD))
	}
	if q.Unknown > 0 && q.Unknown < q.Pods {
		fmt.Fprintf(&b, " without %s of unknown price", humanize.Plural(q.Unknown, "pod"))
	}
	if q.Spent > 0 {
		fmt.Fprintf(&b, " more, $%s are spent", humanize.Price(q.Spent))
	}
	if q.Max > 0 {
		fmt.Fprintf(&b, ", at most $%.2f", q.Max)
		if q.Spent > 0 {
			b.WriteString(" in all")
		}
	} else {
		b.WriteString(", no max_cost bounds it")
	}
	if q.Keep > 0 {
		more := "more"
		if q.Unknown < q.Pods {
			more = fmt.Sprintf("up to $%s more", humanize.Price(q.Kept))
		}
		fmt.Fprintf(&b, "; --keep-pod %s costs %s, which no max_cost bounds", q.Keep, more)
	}
	return b.String()
}

// quoteOf asks for the price of the trials without an outcome. It has no pods if
// nothing is left to rent for.
func (a *app) quoteOf(ctx context.Context, c *cli.Command, j job) (rented.Quote, error) {
	q := rented.Quote{Max: budgetOf(c, j.plan).cost, Keep: c.Duration("keep-pod")}
	deployments, err := j.deployments()
	if err != nil || len(deployments) == 0 {
		return q, err
	}
	costs, err := a.prices(ctx, j.plan, j.plugins.backend, j.plugins.servers(a.exe).With(), deployments)
	if err != nil {
		return q, err
	}
	q.Spent = serving.Spent(j.state, time.Now())
	q.AtOnce = min(len(deployments), max(1, c.Int("parallel")))
	for _, d := range deployments {
		left := estimateLeft(j.plan, d, j.plugins.traits(), j.left, j.done)
		q.Add(costs[d.ID], left.launches, left.took)
		took := left.took / time.Duration(max(1, left.launches)) // of one pod
		if life := j.plan.Budget.MaxPodLifetime; took > life {
			fmt.Fprintf(a.err, "sweep: %s takes about %s, and its pod ends itself after %s: raise budget.max_pod_lifetime, or the run ends there (exit 5)\n",
				plaintext.Line(executor.ServerLabel(d)), humanize.Duration(took), life)
		}
	}
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
			fmt.Errorf("budget.max_pod_lifetime is %s: a pod of %s is given back %s before its expiry time, which leaves no time to measure", p.Budget.MaxPodLifetime, p.Backend.Kind, least-time.Minute),
			fmt.Sprintf("at least %s, or a shorter timeouts.stop", least),
		}}
	}
	q, err := a.quoteOf(ctx, c, j)
	switch {
	case err != nil && exitCode(err) == exitInternal:
		return &statusError{exitIncomplete, &hinted{err, "nothing was rented; the same command tries again"}}
	case err != nil:
		return err
	case q.Pods == 0:
		return nil
	case q.OverBudget():
		return &statusError{exitBudget, &hinted{
			fmt.Errorf("%s %s: the cost exceeds the budget, so nothing was rented", p.Name, quoteText(q)),
			"--max-cost and budget.max_cost are the bound; --only and load.requests make the run smaller",
		}}
	}
	fmt.Fprintf(a.err, "%s %s\n", p.Name, quoteText(q))
	yes, err := a.ask(c.Bool("yes"), "go on?")
	switch {
	case yes, err != nil && q.Max > 0:
		return nil
	case err != nil:
		return &usage{&hinted{fmt.Errorf("%w, and nothing bounds the cost: nothing was rented", err), "--yes rents all the same; --max-cost USD, or budget.max_cost in the plan, bounds it"}}
	}
	return &usage{errors.New("not agreed: nothing was rented")}
}

// leaves reports whether something of the run may go on when this process is gone: its pods, or
// load pods beside servers that are given.
func (j *job) leaves() bool { return j.plugins.factory.Outlives || j.plugins.factory.LoadPods }

// openPodLedger opens the ledger of this machine for a run whose pods outlive it, or whose
// load pods do; nil for any other.
func (a *app) openPodLedger(j job) (serving.PodLedger, error) {
	if !j.leaves() {
		return nil, nil
	}
	b, err := a.podLedger()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(j.path)
	if err != nil {
		return nil, err
	}
	place, err := rented.PlaceOf(j.plan)
	if err != nil {
		return nil, err
	}
	m := j.state.Manifest
	return b.ForRun(podledger.Run{ID: m.RunID, Owner: m.Owner, Dir: dir}, j.plan.Backend.Kind, place), nil
}

// podLedger opens the ledger of this machine.
func (a *app) podLedger() (*podledger.Ledger, error) {
	fx, err := a.effects()
	if err != nil {
		return nil, err
	}
	b, err := rented.OpenLedger(fx, a.env)
	if err != nil {
		return nil, &usage{&hinted{err, "what is rented has to be in a ledger outside of the run directory; SWEEP_STATE_DIR names another folder for it"}}
	}
	return b, nil
}

// lifetime returns after what time a pod of this run ends itself.
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
	if !j.plugins.factory.Outlives || len(j.state.Committed) >= j.state.Planned() && len(j.retry) == 0 {
		return nil
	}
	from, err := a.sources()
	if err != nil {
		return err
	}
	m, kind := j.state.Manifest, j.plugins.factory.Kind
	ended, err := from.EndLeftovers(ctx, rented.Run{ID: m.RunID, Owner: m.Owner, Factory: j.plugins.factory, Backend: j.plugins.backend, Owed: j.state.Owed})
	if err != nil {
		return fmt.Errorf("look for what earlier runs left: backend %s: %w: %w", kind, executor.ErrUnreachable, err)
	}
	var left []string
	for _, e := range ended {
		if e.Err == nil {
			say("pod %s, which an earlier run left, is gone (%s)", plaintext.Line(e.Pod.Name), e.Why)
			continue
		}
		left = append(left, fmt.Sprintf("%s: %s", plaintext.Line(e.Pod.Name), plaintext.Line(e.Err.Error())))
	}
	if len(left) > 0 {
		return &statusError{exitCleanup, &hinted{
			fmt.Errorf("nothing was rented: pods of an earlier run are not confirmed gone: %s", strings.Join(left, "; ")),
			"sweep gc --yes tries again; sweep pods shows what it costs",
		}}
	}
	return nil
}
