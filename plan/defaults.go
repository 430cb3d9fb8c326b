package plan

import (
	"cmp"
	"time"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/plan/internal/file"
	"sweep.dev/sweep/result/validity"
)

// Defaults is what a plan is decoded over. A section that a plan need not have
// begins with the numbers that its tags name as defaults, and what depends on
// other keys is in the table dependent.
func Defaults() Plan {
	retries, stream := 1, true
	return Plan{
		Repeats:        1,
		Seed:           1,
		Order:          "declared",
		Retries:        &retries,
		OnStartFailure: "fail",
		Load: Load{
			Warmup:   Warmup{Requests: 2},
			Endpoint: EndpointChat,
			Stream:   &stream,
			Prompts:  Prompts{Kind: PromptsSynthetic},
		},
		Validity: validity.Defaults(),
		Budget:   &Budget{MaxPodLifetime: 6 * time.Hour},
		Timeouts: Timeouts{
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
	defaultReady  = 10 * time.Minute
	defaultTrial  = time.Hour
	trialMargin   = 15 * time.Minute // warm-up, collectors and slack beside load.duration
)

// dependent are the defaults that depend on other keys, in the order in which
// they are filled in. None of them changes what the file says: auto, as a client,
// is the same as no word.
var dependent = []struct {
	key  string
	fill func(*file.File, *Plan, PluginDoc)
}{
	{"matrix.engine", func(f *file.File, p *Plan, _ PluginDoc) {
		// The one engine of a plan is an axis, so that rows, expressions and cell
		// ids have it whether or not the file spells it out.
		if p.Matrix.axis("engine") != nil || f.Has("matrix", "engine") || len(p.Engines) != 1 {
			return
		}
		for key := range p.Engines {
			axis, _ := newAxis("engine", key)
			p.Matrix.Axes = append([]Axis{axis}, p.Matrix.Axes...)
		}
	}},
	{"load.client", func(_ *file.File, p *Plan, _ PluginDoc) {
		if p.Load.Client == ClientAuto {
			p.Load.Client = ""
		}
	}},
	{"load.arrivals", func(f *file.File, p *Plan, _ PluginDoc) {
		if openLoop(f) && p.Load.Trace == nil {
			p.Load.Arrivals = cmp.Or(p.Load.Arrivals, "poisson")
		}
	}},
	{"load.burstiness", func(f *file.File, p *Plan, _ PluginDoc) {
		if openLoop(f) && p.Load.Trace == nil && p.Load.Arrivals == "gamma" {
			p.Load.Burstiness = cmp.Or(p.Load.Burstiness, 1)
		}
	}},
	{"load.warmup.requests", func(f *file.File, p *Plan, _ PluginDoc) {
		if p.Load.Warmup.Duration > 0 && !f.Has("load", "warmup", "requests") {
			p.Load.Warmup.Requests = 0
		}
	}},
	{"load.prompts.reuse", func(_ *file.File, p *Plan, _ PluginDoc) {
		if pr := &p.Load.Prompts; pr.Kind != PromptsSynthetic {
			pr.Reuse = cmp.Or(pr.Reuse, "never")
		}
	}},
	{"load.prompts.distribution", func(_ *file.File, p *Plan, _ PluginDoc) {
		if pr := &p.Load.Prompts; pr.Kind == PromptsSynthetic && !p.Load.Trace.Lengths() {
			pr.Distribution = cmp.Or(pr.Distribution, "fixed")
		}
	}},
	{"timeouts.launch", func(_ *file.File, p *Plan, backend PluginDoc) {
		p.Timeouts.Launch = cmp.Or(p.Timeouts.Launch, backend.Launch, defaultLaunch)
	}},
	{"timeouts.trial", func(_ *file.File, p *Plan, _ PluginDoc) {
		if t := &p.Timeouts; t.Trial == 0 {
			t.Trial = defaultTrial
			if sends, _ := p.Load.Sends(); sends > 0 {
				t.Trial = max(t.Trial, sends+t.Request+trialMargin)
			}
		}
	}},
}

// fill fills in the defaults that depend on other keys.
func (l *loader) fill(p *Plan) {
	for _, d := range dependent {
		d.fill(l.file, p, l.backend)
	}
}

// ReadyTimeout is how long a server of s may take until it answers: the
// plan's timeouts.ready, else its engine profile's, else ten minutes.
func (p *Plan) ReadyTimeout(profile *engine.Profile) time.Duration {
	switch {
	case p.Timeouts.Ready > 0:
		return p.Timeouts.Ready
	case profile != nil && profile.Ready.Timeout > 0:
		return profile.Ready.Timeout
	}
	return defaultReady
}
