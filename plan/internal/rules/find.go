package rules

import (
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/plan"
)

func (c *Checked) find() {
	f := c.Plan.Find
	if f == nil || c.Load != "" {
		return
	}
	for _, r := range []struct{ key, example string }{
		{"axis", "axis: request_rate"}, {"from", "from: 0.5"}, {"to", "to: 100"}, {"objectives", "objectives: {interactive: p95_ttft_ms < 200}"},
	} {
		if !c.Has("find", r.key) && !c.Mistyped["find."+r.key] {
			c.Missing("find has no "+r.key, r.example, "find")
		}
	}
	if n := c.Root.Get("find").Get("objectives"); n != nil && n.Kind == syntax.Map && len(n.Entries) == 0 {
		c.Report.Node(n, "missing", "find.objectives is empty: there is nothing to search for").Expected = "for example {interactive: p95_ttft_ms < 200}"
	}
	whole := f.Axis == "concurrency"
	for _, key := range []string{"from", "to"} {
		if n := c.Root.Get("find").Get(key); whole && n != nil && n.Kind == syntax.Float {
			c.Report.Node(n, "type", "find.%s is a concurrency, which is a whole number", key)
			return
		}
	}
	switch {
	case f.Axis == "" || f.From <= 0 || f.To <= 0 || f.Within <= 0: // reported
	case f.From >= f.To:
		c.Report.Node(c.At("find", "to"), "range", "find.to is %v, and find.from is %v: there is no load between them", f.To, f.From).Hint = "the search goes up from find.from"
	case whole && (f.To > math.MaxInt32 || f.From < 1):
		c.Report.Node(c.At("find", "to"), "range", "find.to must be a concurrency of 1 to 65536")
	case search.NewLevels(f.From, f.To, f.Within, whole) == nil:
		c.Report.Node(c.At("find", "to"), "range", "there are too many loads from %v to %v in steps of %v %%", f.From, f.To, 100*f.Within).Hint = "raise from or within, or lower to"
	}
}

func (c *Checked) findObjectives() {
	if c.Plan.Find == nil || c.Load != "" {
		return
	}
	for _, s := range c.Plan.SLO {
		n := c.Root.Get("find").Get("objectives").Get(s.Name)
		if n == nil {
			continue
		}
		for _, text := range s.Unbounded() {
			d := c.Report.Node(c.Objective(s.Name), "objective", "a search cannot decide %q", text)
			d.Expected = "an upper bound on a percentile or mean of a latency, or on error_rate, or a lower one on good_share"
			d.Hint = "for example p95_ttft_ms < 200, or error_rate < 1%; a throughput rises with the load"
			if strings.HasPrefix(text, "error_rate") {
				d.Hint = "no number of requests shows that none fails: write error_rate < 1%"
			}
		}
	}
}

func (c *Checked) findDevices() {
	f := c.Plan.Find
	if f == nil || c.Load != "" || f.Devices <= 1 || c.Backend.Given {
		return
	}
	if !slices.ContainsFunc(c.Plan.Collect, func(p plan.Plugin) bool { return p.Kind == "gpu" }) {
		c.Report.Node(c.At("find", "devices"), "missing", "find.devices is %d, and collect has no gpu, which says on which one a server runs", f.Devices).Expected = "collect: [prom, gpu, proc]"
	}
}

// alone are the keys that say which trials there are, or end one before it has told all.
var alone = []struct{ key, why string }{
	{"slo", "write all objectives in find.objectives"},
	{"repeats", "the search repeats trials until a bound holds; find.max_probes bounds them"},
	{"compare", "the search of one server depends on its own trials alone; compare the answers"},
	{"load.until", "an answer needs whole trials"},
	{"load.stop", "an answer needs whole trials; the search doubles the load at most once too often"},
	{"matrix.include", "a search tries its own levels"},
}

func (c *Checked) findAlone() {
	if c.Plan.Find == nil || c.Load != "" {
		return
	}
	for _, r := range alone {
		at := strings.Split(r.key, ".")
		if c.Has(at...) {
			c.Conflict(r.why, at, "the plan has both find and %s", r.key)
		}
	}
	f := c.Plan.Find
	if c.Has("matrix", f.Axis) && c.Has("find", "axis") && c.Key("matrix", f.Axis).Span != c.At("find", "axis").Span {
		d := c.Report.Node(c.At("find", "axis"), "conflict", "%s is an axis of the matrix too", f.Axis)
		d.Hint = "take it out of the matrix: the search tries its own levels"
	}
	if p := c.Plan.Load.Prompts; p.Kind != plan.PromptsSynthetic && p.Reuse != plan.ReuseAllowed {
		c.Missing("a search sends an unknown number of the given prompts", "reuse: allowed", "load", "prompts")
	}
}

func (c *Checked) findLoads() {
	if len(c.Plan.Loads) == 0 {
		return
	}
	if c.Plan.Find != nil {
		c.Conflict("write one plan for each load", []string{"find"}, "the plan has both loads and find")
	}
}
