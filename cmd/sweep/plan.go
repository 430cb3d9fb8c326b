package main

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/cmd/sweep/internal/outbound"
	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/executor/fingerprint"
	"sweep.dev/sweep/executor/serving/render"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/report"
)

func (a *app) planCommand() *cli.Command {
	return &cli.Command{
		Name:      "plan",
		Usage:     "shows cells, deployments, minutes and dollars; starts nothing",
		ArgsUsage: "PLAN",
		Description: `Expands PLAN and shows what a run would do. Minutes are a bound if the plan
gives durations, and an estimate if it counts requests. Dollars are for that
time at the provider's prices, else at those of the plan or of the user's
configuration (SWEEP_CONFIG, or sweep/config.yaml in the system's folder for
configurations), else at the catalogue's list prices.

  $ sweep plan plans/chat-capacity.yaml
  $ sweep plan -v plans/chat-capacity.yaml  # every cell, offer and request
  $ sweep plan --commands plans/local-vllm.yaml  # each server's command
  $ sweep plan --rehearse plans/find-chat.yaml  # what its searches may find` + exitHelp(exitOK, exitUsage),
		Flags: append(append(planFlags(),
			&cli.StringFlag{Name: "only", Usage: "show the cells for which `EXPR` over the axes is true"},
			&cli.BoolFlag{Name: "commands", Usage: "print the runnable start command of every server"},
			&cli.BoolFlag{Name: "json", Usage: "print deployments and cells, or the rehearsal, as JSON"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "list every cell, every offer of a GPU, and every kind of request beyond the load"},
		), rehearseFlags("predict the results on the simulator's virtual time (about a minute at most)")...),
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			path, err := oneArg(c, "plan")
			if err != nil {
				return err
			}
			p, made, _, err := a.openPriced(c, path)
			if err != nil {
				return err
			}
			asked, only, err := filter(p, made, c.String("only"), nil, "")
			if err != nil {
				return err
			}
			runs, err := selected(p, only)
			if err != nil {
				return err
			}
			deployments, err := selected(p, asked)
			if err != nil {
				return err
			}
			if c.Bool("commands") {
				return a.commands(p, made, deployments)
			}
			a.warnOfScale(path, made)
			rehearse, err := wantsRehearsal(c)
			if err != nil {
				return err
			}
			asksAPI := !rehearse && !c.Bool("json") && slices.ContainsFunc(made.sends, func(f outbound.Flow) bool { return f.Service })
			if !asksAPI {
				a.listSends(path, made.sends)
			} else if _, err := a.agreeSends(c, path, p, made.sends); err != nil {
				return err
			}
			if rehearse {
				r, err := a.rehearse(ctx, planned{path: path, plan: p, plugins: made, deployments: runs}, asked, only, c.StringSlice("fitted"))
				if err != nil {
					return err
				}
				if c.Bool("json") {
					return a.json().Encode(r.record())
				}
				return r.write(a)
			}
			if c.Bool("json") {
				a.warnOfTime(p, made, runs)
				return a.planJSON(p, made, deployments)
			}
			a.warnOfDemand(deployments, made.traits())
			return a.planText(ctx, c, planned{path: path, plan: p, plugins: made, deployments: deployments})
		},
	}
}

func selected(p *plan.Plan, only func(plan.Cell) (bool, error)) ([]plan.Deployment, error) {
	all := p.Deployments()
	if only == nil {
		return all, nil
	}
	var some []plan.Deployment
	for _, d := range all {
		var cells []plan.Cell
		for _, cell := range d.Cells {
			ok, err := only(cell)
			if err != nil {
				return nil, err
			}
			if ok {
				cells = append(cells, cell)
			}
		}
		if len(cells) > 0 {
			d.Cells = cells
			some = append(some, d)
		}
	}
	return some, nil
}

// startEstimate returns how long a server takes to be ready: 20 s for the process
// and 2 s for each 10^9 parameters of weights, the middle of the starts of vLLM
// and llama.cpp that were seen. A simulated one is there at once.
func startEstimate(s plan.Server, of traits) time.Duration {
	if of.simulated {
		return time.Second
	}
	d := 20 * time.Second
	if m, ok := catalog.ModelByName(s.Model); ok {
		d += time.Duration(2e-9 * float64(m.Parameters) * float64(time.Second))
	}
	return d
}

// launchEstimate returns how long a launch takes before its first trial: its start, and the
// fingerprint that it may be asked for. most is with one that takes all of its time.
func launchEstimate(p *plan.Plan, s plan.Server, of traits) (took, most time.Duration) {
	took = startEstimate(s, of)
	if !p.Fingerprints(of.given, of.rents) {
		return took, took
	}
	asked := time.Duration(float64(fingerprint.Tokens()) * float64(tokenEstimate(s)) / of.scale)
	return took + min(asked, fingerprint.Limit), took + fingerprint.Limit
}

// tokenEstimate returns how long one output token takes if it is not measured yet. A
// catalogued GPU reads a catalogued model's weights (2 bytes a parameter)
// once for each, at 85 % of its bandwidth; else 20 ms, the middle of what
// interactive serving aims for.
func tokenEstimate(s plan.Server) time.Duration {
	gpu, known := catalog.GPUByName(s.GPU)
	model, listed := catalog.ModelByName(s.Model)
	if !known || !listed {
		return 20 * time.Millisecond
	}
	bandwidth := gpu.Bandwidth * 1e9 * float64(max(1, s.ReplicaGPUs()))
	return time.Duration(2 * float64(model.Parameters) / (0.85 * bandwidth) * float64(time.Second))
}

// trialEstimate returns how long one trial may take, if nothing ends it early. Tokens
// take the time of the server's clock, which runs at scale; what the client waits
// for does not. The time of a trace is in its file, which is not read to show a plan.
func trialEstimate(s plan.Server, l plan.Load, scale float64) time.Duration {
	request := time.Duration(float64(tokenEstimate(s)) * float64(max(1, l.MaxTokens)) / scale)
	workers := max(1, l.Concurrency)
	n := l.Total()
	rounds := func(n int) time.Duration { return time.Duration((n + workers - 1) / workers) }
	d := rounds(l.WarmupRequests()) * request
	if w := l.Warmup.Duration; w > 0 && (d == 0 || w < d) {
		d = w
	}
	sends, _ := l.Sends()
	switch {
	case l.RequestRate > 0 && n > 0:
		byCount := time.Duration(float64(n)/l.RequestRate*float64(time.Second)) + 2*request // the ramp, and the last of them
		if sends > 0 {
			byCount = min(byCount, sends)
		}
		return d + byCount
	case n > 0:
		byCount := rounds(n) * (request + l.ThinkTime)
		if l.Staggered() {
			byCount += time.Duration(l.StartsOver()) * (request + l.ThinkTime) * time.Duration(workers-1) / time.Duration(2*workers)
		}
		if sends > 0 {
			byCount = min(byCount, sends)
		}
		return d + byCount
	default:
		return d + sends
	}
}

// cellEstimate returns how long all trials of a cell may take.
func cellEstimate(p *plan.Plan, cell plan.Cell, scale float64) time.Duration {
	return trialEstimate(cell.Server, cell.Load, scale) * time.Duration(p.Repeats.Most())
}

// warnOfTime warns if the deployments that a run launches, one after another, are
// estimated to take longer than its budget allows.
func (a *app) warnOfTime(p *plan.Plan, made *plugins, deployments []plan.Deployment) {
	var total time.Duration
	for _, d := range deployments {
		total += estimate(p, d, made.traits()).took
	}
	if limit := p.Budget.MaxTime; limit > 0 && total > limit {
		a.say("sweep: the estimate of %s passes budget.max_time (%s): a run may end before its last trial, with exit %d: raise the bound, or measure less (--only, load.requests)",
			total.Round(time.Second), limit, exitBudget)
	}
}

func (a *app) planJSON(p *plan.Plan, made *plugins, deployments []plan.Deployment) error {
	type cell struct {
		ID       string         `json:"id"`
		Digest   string         `json:"spec_digest"`
		Settings map[string]any `json:"settings"`
		Seconds  *float64       `json:"estimated_seconds"` // of all trials
	}
	type deployment struct {
		ID    string `json:"id"`
		Label string `json:"label"`
		// Predicted is what would become of the server; absent if unknown.
		Predicted *report.Prediction `json:"predicted,omitempty"`
		Launches  int                `json:"launches"`          // of the server, while it does not die
		Seconds   *float64           `json:"estimated_seconds"` // with the starts of the server and its fingerprints
		Most      *float64           `json:"most_seconds"`      // the same, at most
		Cells     []cell             `json:"cells"`
		// Searches are of a plan with find; then a cell has no estimate of its own.
		Searches []searchJSON `json:"searches,omitempty"`
		// Extra is what the server is sent beyond the load.
		Extra []executor.Extra `json:"extra"`
	}
	seconds := func(d time.Duration, cells ...plan.Cell) *float64 {
		for _, c := range cells {
			if _, known := c.Load.Sends(); !known {
				return nil // it is as long as the trace
			}
		}
		s := d.Seconds()
		return &s
	}
	list := make([]deployment, 0, len(deployments))
	for _, d := range deployments {
		about := estimate(p, d, made.traits())
		out := deployment{
			ID: d.ID, Label: executor.ServerLabel(d), Predicted: predicted(d.Server), Launches: about.launches,
			Seconds: seconds(about.took, d.Cells...), Most: seconds(about.longer, d.Cells...),
			Extra: executor.Extras(p, d, made.backend, made.servers("")),
		}
		for _, c := range d.Cells {
			settings := map[string]any{}
			for _, s := range c.Settings {
				settings[s.Axis.Column] = s.Value
			}
			took := seconds(cellEstimate(p, c, made.traits().scale), c)
			if p.Find != nil {
				took = nil
			}
			out.Cells = append(out.Cells, cell{c.ID, p.SpecDigest(c), settings, took})
		}
		for _, s := range executor.Searches(p, d.Cells) {
			e := estimateSearch(s, endedTrials{}, made.traits().scale)
			out.Searches = append(out.Searches, searchJSON{others(p, s.Cells[0]), e.probes, e.took.Seconds(), e.most, e.longer.Seconds()})
		}
		list = append(list, out)
	}
	enc := a.json()
	return enc.Encode(list)
}

// A commander is a backend that makes command lines of its own.
type commander interface {
	Commands(backends.Spec) ([][]string, error)
}

// commands prints how each server would be started, ready to be pasted into a
// shell. Secrets stay references.
func (a *app) commands(p *plan.Plan, made *plugins, deployments []plan.Deployment) error {
	with := made.servers(a.exe).With()
	for _, d := range deployments {
		fmt.Fprintf(a.out, "# deployment %s: %s\n", d.ID, plaintext.Line(executor.ServerLabel(d)))
		if c, ok := made.backend.(commander); ok {
			spec, err := render.Spec(p, d, with)
			if err != nil {
				return err
			}
			commands, err := c.Commands(spec)
			if err != nil {
				return err
			}
			for _, argv := range commands {
				fmt.Fprintln(a.out, plaintext.Lines(commandLine(argv)))
			}
			fmt.Fprintln(a.out)
			continue
		}
		if made.factory.Given {
			fmt.Fprintf(a.out, "# the %s backend starts no server\n\n", p.Backend.Kind)
			continue
		}
		commands, err := render.Commands(p, d, with)
		if err != nil {
			return err
		}
		for _, c := range commands {
			var env []string
			for k, v := range c.Env {
				env = append(env, k+"="+plaintext.Word(v))
			}
			sort.Strings(env)
			fmt.Fprintln(a.out, plaintext.Lines(strings.Join(append(env, commandLine(c.Argv)), " ")))
		}
		fmt.Fprintln(a.out)
	}
	return nil
}

// commandLine makes argv a line of a POSIX shell.
func commandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = plaintext.Word(w)
	}
	return strings.Join(words, " ")
}
