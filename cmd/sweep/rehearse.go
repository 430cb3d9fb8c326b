package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/executor/rehearse"
	"sweep.dev/sweep/executor/rehearse/virtual"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/capacity"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/terminal"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/fitted"
	"sweep.dev/sweep/sim/predict"
)

// This file is what commands know of rehearsals: trials on the simulator's virtual time.

// rehearseFlags returns those of the commands that rehearse a plan.
func rehearseFlags(usage string) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "rehearse", Usage: usage},
		&cli.StringSliceFlag{Name: "fitted", Usage: "with --rehearse: servers of the engine and GPU of `FILE` (sweep sim fit) have its rates; may be repeated", Config: cli.StringConfig{TrimSpace: true}},
	}
}

// wantsRehearsal reports whether a command is to rehearse its plan.
func wantsRehearsal(c *cli.Command) (bool, error) {
	if !c.Bool("rehearse") && len(c.StringSlice("fitted")) > 0 {
		return false, &usage{errors.New("--fitted is of a rehearsal: give --rehearse too")}
	}
	return c.Bool("rehearse"), nil
}

// beforehand rehearses a plan that is about to be run, prints what is expected of it, and
// returns what the run directory keeps; nil if the plan cannot be rehearsed, which ends no
// run.
func (a *app) beforehand(ctx context.Context, c *cli.Command, p planned, asked, only func(plan.Cell) (bool, error)) ([]rundir.File, error) {
	r, err := a.rehearse(ctx, p, asked, only, c.StringSlice("fitted"))
	_, wrong := errors.AsType[*usage](err)
	switch {
	case wrong, ctx.Err() != nil:
		return nil, err
	case err != nil:
		a.say("sweep: not rehearsed, so the run has no prediction: %v", err)
		return nil, nil
	}
	page, style := a.notes()
	r.said(page, style)
	page.Blank()
	text, err := json.MarshalIndent(r.record(), "", " ")
	return []rundir.File{{Name: layout.Rehearsal, Data: append(text, '\n')}}, err
}

// notes returns a document on stderr, and its style. Its error is
// ignored: a run goes on if nobody reads.
func (a *app) notes() (*draw.Document, draw.Style) {
	style := draw.Style{}
	if a.errTTY {
		style.Width = a.textWidth()
	}
	return draw.New(a.err, style), style
}

// A rehearsed is a rehearsal of a plan.
type rehearsed struct {
	planned
	run     *report.Run // of its trials
	result  *rehearse.Result
	servers []server
	rates   []rates
	of      backends.Simulation // of all servers
}

// rehearse rehearses the cells of the deployments that a run would launch. Servers have the
// rates of files of sweep sim fit if there is one for their engine and GPU, else those that the
// plan's simulator has.
func (a *app) rehearse(ctx context.Context, p planned, asked, only func(plan.Cell) (bool, error), files []string) (*rehearsed, error) {
	fit, err := ratesOf(files, p.deployments)
	if err != nil {
		return nil, &usage{fmt.Errorf("--fitted: %w", err)}
	}
	of := simulation(p)
	if fit, err = withPlans(fit, p, of.Fitted); err != nil {
		return nil, err
	}
	servers, err := a.serversOf(ctx, p)
	if err != nil {
		return nil, err
	}
	price := map[string]float64{}
	for _, s := range servers {
		price[s.of.ID] = s.price.USDPerHour
	}
	found, err := rehearse.Run(ctx, rehearse.Config{
		Plan: p.plan, Deployments: p.deployments, Given: p.plugins.factory.Given, Devices: of.Devices,
		Engine: func(s plan.Server, speed float64) (*core.Config, error) {
			return simulatedEngine(s, fit, of.Jitter, speed)
		},
		USDPerHour: func(d plan.Deployment) float64 { return price[d.ID] },
	})
	if err != nil {
		return nil, err
	}
	resolved, _, _, err := resolve(p.plan, asked, only)
	if err != nil {
		return nil, err
	}
	run, err := report.Made(p.plan.Name, resolved, found.Trials)
	if err != nil {
		return nil, err
	}
	return &rehearsed{p, run, found, servers, fit, of}, nil
}

// simulation returns what the plan says of its simulated servers. Those of another backend are as
// the simulator has them.
func simulation(p planned) backends.Simulation {
	if b, ok := p.plugins.backend.(backends.Computable); ok {
		return b.Simulation()
	}
	return backends.Simulation{Jitter: core.Jitter}
}

// ignored lists the keys of the plan that a rehearsal does not follow.
func (r *rehearsed) ignored() []string {
	var keys []string
	add := func(key string, has func(plan.Load) bool) {
		for _, d := range r.deployments {
			if slices.ContainsFunc(d.Cells, func(c plan.Cell) bool { return has(c.Load) }) {
				keys = append(keys, key)
				return
			}
		}
	}
	add("load.until", func(l plan.Load) bool { return l.Until != nil })
	add("load.stop", func(l plan.Load) bool { return l.Stop != nil })
	add("load.probe", func(l plan.Load) bool { return l.Probe != nil })
	if r.plan.Repeats.Until != nil {
		keys = append(keys, "repeats.until")
	}
	return append(keys, r.of.Started...)
}

// A rates is a file of sweep sim fit, and which servers have what it says.
type rates struct {
	file        string
	engine, gpu string // of the servers; the profile has those that were measured
	*fitted.Profile
}

// of reports whether the rates are those of a server.
func (r rates) of(s plan.Server) bool { return r.engine == s.Engine && r.gpu == s.GPU }

// String says which servers have which rates, and what was measured for them.
func (r rates) String() string {
	text := fmt.Sprintf("%s %s: rates of %s", r.engine, r.gpu, r.file)
	if r.Model != "" {
		text += ", measured with " + r.Model
	}
	if r.GPU != "" && (r.Engine != r.engine || r.GPU != r.gpu) {
		text += fmt.Sprintf(" (%s on %s)", r.Engine, r.GPU)
	}
	return text
}

// ratesOf reads files of sweep fit. Each must be of a server of the deployments.
func ratesOf(files []string, deployments []plan.Deployment) ([]rates, error) {
	var all []rates
	for _, file := range files {
		p, err := fitted.Read(file)
		if err != nil {
			return nil, err
		}
		one := rates{file, p.Engine, p.GPU, p}
		if !slices.ContainsFunc(deployments, func(d plan.Deployment) bool { return one.of(d.Server) }) {
			return nil, fmt.Errorf("%s is of %s on %s, and no server of the plan is: leave it out", file, p.Engine, cmp.Or(p.GPU, "a GPU without a name"))
		}
		if slices.ContainsFunc(all, func(r rates) bool { return r.engine == p.Engine && r.gpu == p.GPU }) {
			return nil, fmt.Errorf("%s is the second file of %s on %s", file, p.Engine, p.GPU)
		}
		all = append(all, one)
	}
	return all, nil
}

// withPlans adds the rates that the plan's own simulator gives its servers, whichever engine
// and GPU they are of, for the servers that have none yet.
func withPlans(all []rates, p planned, file string) ([]rates, error) {
	if file == "" {
		return all, nil
	}
	profile, err := fitted.Read(file)
	if err != nil {
		return nil, &usage{fmt.Errorf("backend.fitted: %w", err)}
	}
	for _, d := range p.deployments {
		has := slices.ContainsFunc(all, func(r rates) bool { return r.of(d.Server) })
		if _, unknown := simulable(d.Server); !has && unknown == nil {
			all = append(all, rates{file, d.Server.Engine, d.Server.GPU, profile})
		}
	}
	return all, nil
}

// simulatedEngine returns the simulated engine of a server. The error says why there is none.
func simulatedEngine(s plan.Server, fit []rates, jitter, speed float64) (*core.Config, error) {
	arithmetic, err := simulable(s)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(fit, func(r rates) bool { return r.of(s) }); i >= 0 {
		arithmetic.Fitted = fit[i].file
	}
	arithmetic.Jitter, arithmetic.Speed = &jitter, speed
	return predict.Engine(arithmetic)
}

// constants says which model a rehearsal is, in words.
func constants() string {
	return fmt.Sprintf("%.0f %% of the data sheet's bandwidth, %.0f %% of its operations, %.2g ms a step, no network: real servers carry less",
		100*core.MemoryEfficiency, 100*core.ComputeEfficiency, core.StepOverhead.Seconds()*1000)
}

// tooLong says why a rehearsal has no end.
func tooLong() string {
	return fmt.Sprintf("not rehearsed to its end, which takes more than its share of %d million tokens: choose cells with --only, or send fewer requests", rehearse.MaxWork/1_000_000)
}

// write prints a rehearsal for people, with the command that runs it.
func (r *rehearsed) write(a *app) error {
	page := draw.New(a.out, a.style())
	next := "sweep plan "
	if r.said(page, a.style()) {
		next = "sweep run "
	}
	page.Text("next: " + draw.Command(next+plaintext.Word(r.path)))
	return page.Err()
}

// said prints what was predicted; false if that is nothing.
func (r *rehearsed) said(page *draw.Document, style draw.Style) bool {
	page.Text("Rehearsal of " + r.plan.Name + ": a prediction of the simulator, no measurement")
	page.Text("  " + constants())
	for _, f := range r.rates {
		page.Text("  " + plaintext.Line(f.String()))
	}
	if keys := r.ignored(); len(keys) > 0 {
		page.Text("  not rehearsed: " + strings.Join(keys, ", ") + " of the plan, which a run follows")
	}
	for _, d := range r.deployments {
		label := executor.ServerLabel(d)
		if why := r.result.Unknown[d.ID]; why != "" {
			page.Text("  " + label + ": not rehearsed: " + why)
		}
		if r.result.Cut[d.ID] {
			page.Text("  " + label + ": " + tooLong())
		}
	}
	page.Blank()
	t := r.takes()
	if t.trials == 0 {
		page.Text("Nothing was rehearsed.")
		return false
	}
	if r.plan.Find != nil {
		answers := capacity.Of(r.run)
		page.Section(capacity.Title(answers), capacity.Drawn(answers, style.Width))
	} else {
		terminal.Grids(page, r.run, style)
	}
	page.Blank()
	page.Text(t.String())
	return true
}

// A taking is what a run of what was rehearsed would take.
type taking struct {
	trials, pods int
	took         time.Duration // with the starts of servers
	usd          *float64      // nil if a price is unknown, or nothing was rehearsed
	part         bool          // a server was not rehearsed, or not to its end
}

func (r *rehearsed) takes() (t taking) {
	of := r.plugins.traits()
	of.scale = 1 // of virtual time
	usd, priced := 0.0, true
	for _, s := range r.servers {
		t.part = t.part || r.result.Unknown[s.of.ID] != "" || r.result.Cut[s.of.ID]
		if s.skipped || r.result.Unknown[s.of.ID] != "" {
			continue
		}
		launches := r.result.Launches[s.of.ID]
		first, _ := launchEstimate(r.plan, s.of.Server, of)
		// A server on a device that is taken is asked for no fingerprint.
		took := first*time.Duration(launches.New) + startEstimate(s.of.Server, of)*time.Duration(launches.Taken)
		for _, c := range s.of.Cells {
			for n := 1; n <= r.plan.Repeats.Most(); n++ {
				if o := r.result.Trials[rundir.Key{Cell: c.ID, Trial: n}]; o != nil && o.Row[col.Status] != result.StatusSkipped {
					t.trials++
					took += o.FinishedAt.Sub(o.StartedAt)
				}
			}
		}
		t.pods += launches.All()
		t.took += took
		usd += s.price.USDPerHour * took.Hours()
		priced = priced && s.price.Known
	}
	if priced && t.trials > 0 {
		t.usd = &usd
	}
	return t
}

func (t taking) String() string {
	what := "A run"
	if t.part {
		what = "What was rehearsed"
	}
	text := fmt.Sprintf("%s would take %s on %s, %.2f h with the starts of servers", what, humanize.Plural(t.trials, "trial"), humanize.Plural(t.pods, "pod"), t.took.Hours())
	if t.usd != nil {
		text += ", " + roughly(*t.usd)
	}
	return text
}

// record returns a rehearsal as rehearsal.json has it.
func (r *rehearsed) record() report.Rehearsal {
	t := r.takes()
	out := report.Rehearsal{
		Version: report.RehearsalVersion, Plan: r.plan.Name, Seed: r.plan.Seed, Trials: t.trials, Hours: t.took.Hours(), USD: t.usd,
		Simulator: report.Simulator{
			Sweep: version(), MemoryEfficiency: core.MemoryEfficiency, ComputeEfficiency: core.ComputeEfficiency,
			StepOverhead: core.StepOverhead.Seconds() * 1000, Turn: virtual.Turn.Seconds() * 1000, Jitter: r.of.Jitter, Devices: r.of.Devices,
		},
		Ignored: r.ignored(), Searches: capacity.Predicted(r.run), Cells: []report.PredictedCell{}, Missing: []report.PredictedNever{},
	}
	for _, f := range r.rates {
		out.Simulator.Fitted = append(out.Simulator.Fitted, report.FittedFor{File: f.file, Engine: f.engine, GPU: f.gpu, Model: f.Model, RunID: f.Source.RunID})
	}
	for _, d := range r.deployments {
		if why := r.result.Unknown[d.ID]; why != "" {
			out.Missing = append(out.Missing, report.PredictedNever{Deployment: executor.ServerLabel(d), Why: why})
		}
		if r.result.Cut[d.ID] {
			out.Missing = append(out.Missing, report.PredictedNever{Deployment: executor.ServerLabel(d), Why: tooLong()})
		}
	}
	if r.plan.Find != nil {
		return out
	}
	for _, p := range r.run.Conclude().Points {
		cell := report.PredictedCell{Cell: p.Cell.ID, Label: p.Cell.Label}
		for column, to := range map[string]**float64{col.ThroughputTokS: &cell.Throughput, col.P95TTFTMs: &cell.TTFT, col.P95E2EMs: &cell.E2E} {
			if v, ok := r.mean(p.Cell.ID, column); ok {
				*to = &v
			}
		}
		out.Cells = append(out.Cells, cell)
	}
	return out
}

// mean returns that of a column over the trials of a cell.
func (r *rehearsed) mean(cell, column string) (float64, bool) {
	sum, n := 0.0, 0
	for _, t := range r.run.Trials {
		if t.Key.Cell != cell || t.Outcome == nil {
			continue
		}
		if v, ok := t.Outcome.Row.Number(column); ok {
			sum, n = sum+v, n+1
		}
	}
	return sum / float64(max(1, n)), n > 0
}
