package planfile

import (
	"cmp"
	"strings"
	"time"

	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/plan/internal/file"
	"sweep.dev/sweep/result/bounds"
)

// defaults returns what a plan is decoded over. A section that a plan need not have
// begins with the numbers that its tags name as defaults, and what depends on
// other keys is in the table dependent.
func defaults() plan.Plan {
	retries, stream := 1, true
	return plan.Plan{
		Repeats:        plan.Repeats{N: 1},
		Seed:           1,
		Order:          "declared",
		Retries:        &retries,
		OnStartFailure: "fail",
		Load: plan.Load{
			Endpoint: plan.EndpointChat,
			Stream:   &stream,
			Prompts:  plan.Prompts{Kind: plan.PromptsSynthetic},
		},
		Validity: bounds.Defaults(),
		Budget:   &plan.Budget{MaxPodLifetime: 6 * time.Hour},
		Timeouts: plan.Timeouts{
			Request: 5 * time.Minute,
			Stop:    30 * time.Second,
		},
	}
}

// The plug-ins of a plan that names none, where the vocabulary has them.
func defaultSinks() []string   { return []string{"parquet", "csv"} }
func defaultCollect() []string { return []string{"prom", "gpu", "proc"} }

const (
	defaultLaunch = 5 * time.Minute
	defaultTrial  = time.Hour
	trialMargin   = 15 * time.Minute // warm-up, collectors and slack beside load.duration
)

// dependent are the defaults that depend on other keys, in the order in which
// they are filled in. None of them changes what the file says: auto, as a client,
// and staggered, as a start, are the same as no word.
var dependent = []struct {
	key  string
	fill func(*file.File, *plan.Plan, plan.PluginDoc)
}{
	{"matrix.engine", func(f *file.File, p *plan.Plan, _ plan.PluginDoc) {
		// The one engine of a plan is an axis, so that rows, expressions and cell
		// ids have it whether or not the file spells it out.
		if p.Matrix.Axis("engine") != nil || f.Has("matrix", "engine") || len(p.Engines) != 1 {
			return
		}
		for key := range p.Engines {
			kind, _ := axes.Lookup("engine")
			p.Matrix.Axes = append([]plan.Axis{kind.Axis("engine", key)}, p.Matrix.Axes...)
		}
	}},
	{"repeats", func(_ *file.File, p *plan.Plan, _ plan.PluginDoc) {
		if p.Find != nil { // which of them are run is what the search says
			p.Repeats = plan.Repeats{N: plan.FindMostTrials * max(1, p.Find.Devices)}
		}
	}},
	{"repeats.n", func(f *file.File, p *plan.Plan, _ plan.PluginDoc) {
		if p.Repeats.Until != nil && !f.Has("repeats", "n") {
			p.Repeats.N = 0
		}
	}},
	{"repeats.min", func(_ *file.File, p *plan.Plan, _ plan.PluginDoc) {
		if p.Repeats.Until != nil {
			p.Repeats.Min = cmp.Or(p.Repeats.Min, plan.LeastTrials)
		}
	}},
	{"quality", func(_ *file.File, p *plan.Plan, _ plan.PluginDoc) {
		if q := p.Quality; q != nil {
			q.Endpoint = cmp.Or(q.Endpoint, plan.EndpointChat)
		}
	}},
	{"repeats.launch", func(_ *file.File, p *plan.Plan, _ plan.PluginDoc) {
		if p.Repeats.Launch == plan.LaunchSame {
			p.Repeats.Launch = ""
		}
	}},
	{"load.client", func(_ *file.File, p *plan.Plan, _ plan.PluginDoc) {
		if p.Load.Client == plan.ClientAuto {
			p.Load.Client = ""
		}
	}},
	{"load.clients", func(_ *file.File, p *plan.Plan, _ plan.PluginDoc) {
		c := &p.Load.Clients
		switch {
		case c.Kind == plan.ClientsKubernetes:
			if !c.Auto() {
				c.N = max(1, c.N)
			}
		case c.N <= 1 && !c.Auto():
			*c = plan.Clients{}
		case c.Kind == plan.ClientsProcess:
			c.Kind = ""
		}
	}},
	{"load.start", func(_ *file.File, p *plan.Plan, _ plan.PluginDoc) {
		if p.Load.Start == plan.StartStaggered {
			p.Load.Start = ""
		}
	}},
	{"load.arrivals", func(f *file.File, p *plan.Plan, _ plan.PluginDoc) {
		if f.Open() && p.Load.Trace == nil {
			p.Load.Arrivals = cmp.Or(p.Load.Arrivals, "poisson")
		}
	}},
	{"load.burstiness", func(f *file.File, p *plan.Plan, _ plan.PluginDoc) {
		if f.Open() && p.Load.Trace == nil && p.Load.Arrivals == "gamma" {
			p.Load.Burstiness = cmp.Or(p.Load.Burstiness, 1)
		}
	}},
	{"load.prompts.reuse", func(_ *file.File, p *plan.Plan, _ plan.PluginDoc) {
		if pr := &p.Load.Prompts; pr.Kind != plan.PromptsSynthetic {
			pr.Reuse = cmp.Or(pr.Reuse, "never")
		}
	}},
	{"load.prompts.distribution", func(_ *file.File, p *plan.Plan, _ plan.PluginDoc) {
		if pr := &p.Load.Prompts; pr.Kind == plan.PromptsSynthetic && !p.Load.Trace.Lengths() {
			pr.Distribution = cmp.Or(pr.Distribution, "fixed")
		}
	}},
	{"timeouts.launch", func(_ *file.File, p *plan.Plan, backend plan.PluginDoc) {
		p.Timeouts.Launch = cmp.Or(p.Timeouts.Launch, backend.Launch, defaultLaunch)
	}},
	{"timeouts.trial", func(_ *file.File, p *plan.Plan, _ plan.PluginDoc) {
		if t := &p.Timeouts; t.Trial == 0 {
			t.Trial = defaultTrial
			for _, l := range p.EachLoad() {
				if sends, _ := l.Sends(); sends > 0 {
					t.Trial = max(t.Trial, sends+t.Request+trialMargin)
				}
			}
		}
	}},
}

// fill fills in the defaults that depend on other keys, those of each load as it sees
// the plan.
func (l *loader) fill(p *plan.Plan) {
	for _, d := range dependent {
		if !strings.HasPrefix(d.key, "load.") {
			d.fill(l.file, p, l.backend)
		}
	}
	for _, r := range l.loads {
		r.complete(p)
		for _, d := range dependent {
			if strings.HasPrefix(d.key, "load.") {
				d.fill(r.file, r.plan, l.backend)
			}
		}
	}
	if len(p.Loads) > 0 {
		p.Matrix = p.Matrix.WithLoads(p.LoadNames()...)
	}
}
