package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/store"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/sim/fit"
	"sweep.dev/sweep/sim/fitted"
	"sweep.dev/sweep/sim/predict"
)

func (a *app) fitCommand() *cli.Command {
	return &cli.Command{
		Name:      "fit",
		Usage:     "fits the simulated engine to what a run has measured",
		ArgsUsage: "[DIR]",
		Description: fmt.Sprintf(`Finds the rates of memory and arithmetic and the overheads with which the simulated
engine does best what the server of DIR did: least squares over TTFT and TPOT of its VALID
cells. Every third cell is left out of that, and shows how far off the simulator is. It
takes %d cells at least, of one kind of server, best with several concurrencies and lengths.

The file that it writes can be the GPU of a simulation: sweep sim --fitted FILE, or
backend: {kind: sim, fitted: FILE} in a plan.

  $ sweep sim fit runs/chat-capacity-20261121T101500Z-3f2a
  $ sweep sim fit --only 'gpu == "l4"' -o l4.json
  $ sweep sim fit --model gemma-3-270m runs/local-llamacpp-20261121T101500Z-3f2a`, fit.LeastCells) + exitHelp(exitOK, exitInternal, exitUsage),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "only", Usage: "fit the cells for which `EXPR` over the axes is true"},
			&cli.StringFlag{Name: "model", Usage: "the shape of the model by its `NAME` in the catalogue", DefaultText: "that of the plan"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the profile to `FILE`, which must be new", DefaultText: "GPU-ENGINE.json"},
		},
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			dir, err := a.runDir(c)
			if err != nil {
				return err
			}
			return a.fit(c, dir)
		},
	}
}

// A measuredServer is the one kind of server of a fit, with its cells.
type measuredServer struct {
	profile fitted.Profile
	gpu     catalog.GPU // whose rates the constants are shares of
	cells   []fit.Cell
}

func (a *app) fit(c *cli.Command, dir string) error {
	run, err := report.Open(dir)
	if err != nil {
		return unreadable(dir, err)
	}
	p, err := a.planOf(dir, run.State.Manifest)
	if err != nil {
		return err
	}
	m, err := measuredOf(run, p, c.String("only"), c.String("model"))
	if err != nil {
		return &usage{err}
	}
	name := cmp.Or(c.String("output"), strings.ReplaceAll(cmp.Or(m.profile.GPU, "gpu")+"-"+m.profile.Engine+".json", string(filepath.Separator), "-"))
	if _, err := os.Lstat(name); err == nil {
		return &usage{&hinted{fmt.Errorf("%s is there already", name), "-o FILE names a new one"}}
	}
	got, err := fit.Fit(m.cells)
	if err != nil {
		return &usage{err}
	}
	m.profile.Of(got.Constants, m.gpu)
	m.profile.Errors, m.profile.LeftOut, m.profile.Source.Fitted = got.Errors, got.HeldOut, len(got.Fitted)
	text, err := m.profile.Text()
	if err != nil {
		return err
	}
	page := a.page()
	if name == "-" || c.String("output") == "-" {
		fitText(page, m, got)
	} else {
		defer fitText(page, m, got) // after the file: whoever reads it may be gone
	}
	return a.writeTo(c, name, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// measuredOf returns the cells of a run with a VALID trial, which must be of one kind of
// server.
func measuredOf(run *report.Run, p *plan.Plan, only, model string) (*measuredServer, error) {
	keep := func(plan.Cell) (bool, error) { return true, nil }
	if only != "" {
		var err error
		if keep, err = p.Filter(only); err != nil {
			return nil, fmt.Errorf("--only: %w", err)
		}
	}
	state := run.State.Manifest
	m := &measuredServer{profile: fitted.Profile{Version: fitted.Version, Source: fitted.Source{
		RunID: state.RunID, Plan: state.Plan, PlanDigest: state.PlanDigest, Sweep: version(),
	}}}
	var kinds []string
	for _, cell := range p.Cells() {
		if ok, err := keep(cell); err != nil {
			return nil, fmt.Errorf("--only: %w", err)
		} else if !ok {
			continue
		}
		i := slices.IndexFunc(run.Trials, func(t report.Trial) bool {
			return t.Key.Cell == cell.ID && t.Outcome != nil && t.Outcome.Row[col.Valid] == true
		})
		if i < 0 {
			continue
		}
		s := cell.Server
		kind := fmt.Sprintf("%s on %d x %s", s.Engine, max(1, s.GPUCount), cmp.Or(s.GPU, "a GPU without a name"))
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		t := run.Trials[i]
		one, err := fitCell(run, t, cell, model)
		if err != nil {
			return nil, err
		}
		m.cells = append(m.cells, one)
		m.gpu = one.Config.GPU
		m.profile.Engine, m.profile.GPU, m.profile.GPUs, m.profile.Model = s.Engine, s.GPU, max(1, s.GPUCount), one.Config.Model.Name
		if release, ok := t.Outcome.Row[col.EngineVersion].(string); ok {
			m.profile.Release = &release
		}
		m.profile.Source.Simulated = m.profile.Source.Simulated || t.Outcome.Row[col.Simulated] == true
		if at := t.Outcome.FinishedAt.UTC().Truncate(time.Second); at.After(m.profile.Source.Measured) {
			m.profile.Source.Measured = at
		}
	}
	if len(kinds) > 1 {
		return nil, &hinted{fmt.Errorf("the run has %d kinds of servers (%s), and a fit is of one", len(kinds), strings.Join(kinds, ", ")), `--only 'gpu == "NAME"' chooses the cells of one`}
	}
	return m, nil
}

// fitCell returns a cell as a fit wants it.
func fitCell(run *report.Run, t report.Trial, cell plan.Cell, model string) (fit.Cell, error) {
	s := cell.Server
	args := make(map[string]any, len(s.Args))
	for _, x := range s.Args {
		args[x.Name] = x.Value
	}
	for _, name := range []string{model, s.Model, s.Served} {
		if known, ok := catalog.ModelByName(name); ok {
			model = known.Name
			break
		}
	}
	config, err := predict.Machine(predict.Server{Engine: s.Profile, Model: model, GPU: s.GPU, GPUs: s.ReplicaGPUs(), Args: args})
	if err != nil {
		err = fmt.Errorf("%s: its server cannot be put on paper: %w", t.Cell.Label, err)
		if _, known := catalog.ModelByName(model); !known {
			err = &hinted{fmt.Errorf("the shape of the model %s is not known", cmp.Or(s.Model, "of the server")), "--model NAME names one of the catalogue with its shape: sweep sim --help lists them"}
		}
		return fit.Cell{}, err
	}
	one := fit.Cell{Label: t.Cell.Label, Open: cell.Load.Open(), Config: *config}
	ended := map[int]time.Duration{} // by slot
	name := filepath.Join(rundir.AttemptDir(run.Dir, t.Commit), layout.Requests)
	var all []result.Request
	for r, err := range store.RequestsOf(name) {
		if err != nil {
			return one, fmt.Errorf("requests of %s: %w", t.Cell.Label, err)
		}
		if r.Measured() && r.Sent >= 0 {
			all = append(all, r.Request)
		}
	}
	slices.SortStableFunc(all, func(a, b result.Request) int { return cmp.Compare(a.Sent, b.Sent) })
	for i := range all {
		r := &all[i]
		q := fit.Request{Slot: r.Slot, Sent: r.Sent - all[0].Sent, Prompt: max(1, r.PromptTokens), Cached: max(0, r.CachedTokens), Output: r.CompletionTokens}
		if before, ok := ended[r.Slot]; ok {
			q.Wait = max(0, r.Sent-before)
		}
		ended[r.Slot] = max(r.End, r.Sent)
		if q.Output <= 0 {
			q.Output = max(1, r.MaxTokens)
		}
		if r.Status == result.Completed && r.FirstToken >= 0 && r.LastToken >= r.FirstToken && r.PromptTokens > 0 && r.CompletionTokens > 0 {
			q.TTFT, q.E2E = r.FirstToken-r.Sent, r.LastToken-r.Sent
			if r.CompletionTokens > 1 {
				q.TPOT = (r.LastToken - r.FirstToken) / time.Duration(r.CompletionTokens-1)
			}
		}
		one.Requests = append(one.Requests, q)
	}
	return one, nil
}

// fitText prints what was found.
func fitText(page *draw.Document, m *measuredServer, got *fit.Result) {
	p := &m.profile
	sure := func(name string) string {
		if e := got.Errors[name]; e != nil {
			return fmt.Sprintf("+- %.1f %%", 100**e)
		}
		return "the cells do not tell it"
	}
	share := func(x float64, of string) string {
		if _, ok := catalog.GPUByName(p.GPU); !ok {
			return "" // no data sheet is known
		}
		return fmt.Sprintf("%.0f %% of %s", 100*x, of)
	}
	page.Text(fmt.Sprintf("%s, %d x %s, %s: fitted to %s, %.1f %% left", p.Engine, p.GPUs, cmp.Or(p.GPU, "a GPU without a name"), p.Model, humanize.Plural(len(got.Fitted), "cell"), 100*got.Rest))
	k := got.Constants
	page.Rows(
		[]string{"memory", humanize.Figure(p.Bandwidth) + " GB/s", sure("bandwidth_gb_s"), share(k.Memory, "the data sheet")},
		[]string{"arithmetic", humanize.Figure(p.TFLOPS) + " TFLOPS", sure("tflops"), share(k.Compute, "the data sheet")},
		[]string{"each step", figureOf(k.Step), sure("step_overhead_us"), ""},
		[]string{"each request", figureOf(k.Start), sure("start_overhead_us"), ""},
	)
	page.Text(fmt.Sprintf("left out: %s, which the fit has not seen: simulated / measured - 1", humanize.Plural(len(got.LeftOut), "cell")))
	rows := [][]string{{"", "median, without sign", "worst"}}
	for _, h := range got.HeldOut {
		rows = append(rows, []string{h.Column, fmt.Sprintf("%.1f %%", 100*h.Median), fmt.Sprintf("%+.1f %%", 100*h.Worst)})
	}
	page.Rows(rows...)
}

// figureOf returns a short time in words.
func figureOf(d time.Duration) string {
	return humanize.Figure(float64(d)/float64(time.Millisecond)) + " ms"
}
