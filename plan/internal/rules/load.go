package rules

import (
	"cmp"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/plan/internal/file"
)

func (c *Checked) loop() {
	var keys, open, found []string
	for _, way := range plan.Patterns() {
		keys = append(keys, way.Key)
		if way.Open {
			open = append(open, way.Key)
		}
		if c.Has(c.PatternAt(way.Key)...) {
			found = append(found, way.Key)
		}
	}
	switch {
	case len(found) > 1:
		c.Conflict("a closed loop has concurrency; an open loop has "+listed(open, "or a"), c.PatternAt(found[len(found)-1]),
			"a load has one of %s, not several", listed(keys, "and"))
	case len(found) == 0 && !slices.ContainsFunc(axes.Amounts(), func(axis string) bool { return c.Meant(axis) }):
		c.Missing("the load has neither a concurrency nor a request_rate", "an axis concurrency: [1, 8, 32], or load.concurrency, or request_rate in either place, or load.stages, or load.trace", "load")
	}
}

// listed returns names in a sentence: a, b and c.
func listed(names []string, last string) string {
	if n := len(names) - 1; n > 0 {
		return strings.Join(names[:n], ", ") + " " + last + " " + names[n]
	}
	return strings.Join(names, "")
}

func (c *Checked) end() {
	const cap = "load.requests, load.requests_per_worker or load.duration"
	for _, key := range []string{"requests", "requests_per_worker", "duration"} {
		if c.Has("load", key) || c.Mistyped["load."+key] {
			return
		}
	}
	switch {
	case slices.ContainsFunc(plan.Patterns(), func(way plan.Pattern) bool { return way.Ends && c.Has("load", way.Key) }):
	case c.Has("load", "until"):
		c.Missing("load.until has no cap: a metric may never be known well enough", cap, "load", "until")
	default:
		c.Missing("nothing says when a trial ends", cap, "load")
	}
}

func (c *Checked) warmup() {
	ld := c.Plan.Load
	if ld.Warmup.Duration > 0 && !c.Has("load", "warmup", "requests") && ld.Prompts.Kind != plan.PromptsSynthetic && ld.Prompts.Reuse != plan.ReuseAllowed {
		c.Missing("a warm-up by time alone takes an unknown number of the given prompts", "load.warmup.requests beside it, or reuse: allowed", "load", "warmup")
	}
}

// stages checks the rates of an open loop that change.
func (c *Checked) stages() {
	n, ok := c.Root.At("load", "stages")
	if !ok || n.Kind != syntax.List {
		return
	}
	if len(n.Items) == 0 {
		c.Missing("load.stages is empty", "stages: [{rate: 10, for: 30s}, {rate: 50, over: 60s}]", "load", "stages")
		return
	}
	sends := false
	for i, item := range n.Items {
		if item.Kind != syntax.Map {
			sends = true
			continue // reported
		}
		if item.Get("rate") == nil {
			c.Report.Node(item, "missing", "load.stages[%d] has no rate", i).Expected = "for example {rate: 10, for: 30s}"
		}
		switch hold, ramp := item.Get("for"), item.Get("over"); {
		case hold == nil && ramp == nil:
			c.Report.Node(item, "missing", "load.stages[%d] does not say how long it lasts", i).Expected = "for: 30s to hold the rate, or over: 30s to go there in a straight line"
		case hold != nil && ramp != nil:
			c.Report.Node(item.Key("over"), "conflict", "load.stages[%d] has both for and over", i).Hint = "write two stages: one that goes to the rate, one that holds it"
		}
		sends = sends || i >= len(c.Plan.Load.Stages) || c.Plan.Load.Stages[i].Rate > 0 || item.Get("rate") == nil
	}
	if !sends {
		c.Report.Node(n, "value", "no stage sends anything").Expected = "a rate above 0"
	}
}

func (c *Checked) trace() {
	if t := c.Plan.Load.Trace; t.Lengths() && !synthetic(c) {
		c.Conflict("write format: timestamps to take the times alone from a list of them, or leave prompts.kind out", file.Path("load", "prompts", "kind"),
			"a trace of %s says how long each prompt is, and these prompts are %s", t.Format, c.Plan.Load.Prompts.Kind)
	}
}

func (c *Checked) conversation() {
	if c.Plan.Load.Conversation != nil && c.Plan.Load.Endpoint == plan.EndpointCompletions {
		c.Conflict("write endpoint: chat", file.Path("load", "conversation"), "the completions endpoint has no conversations")
	}
}

// loadPods holds the kind of the clients against the backend.
func (c *Checked) loadPods() {
	if c.Plan.Load.Clients.Kind != plan.ClientsKubernetes || c.Backend.Kind == "" || c.Backend.LoadPods {
		return
	}
	c.Conflict("leave kind out: the clients are then processes of this machine", []string{"load", "clients", "kind"},
		"load pods run in the cluster that serves, and the backend is %s", c.Backend.Kind)
}

func (c *Checked) stop() {
	s := c.Plan.Load.Stop
	if s == nil {
		return
	}
	if !c.Has("load", "stop", "error_rate") && !s.Saturated {
		c.Missing("load.stop says nothing that ends a trial", "error_rate: 30%, or saturated: true in an open loop", "load", "stop")
	}
	if !s.SkipHigher {
		return
	}
	for _, a := range c.Plan.Matrix.Axes {
		if a.Amount && len(a.Values) > 1 {
			if !slices.IsSortedFunc(a.Values, func(x, y plan.Value) int {
				a, _ := plan.Number(x)
				b, _ := plan.Number(y)
				return cmp.Compare(a, b)
			}) {
				c.Ignored("the values of "+a.Name+" do not go up", "write them in rising order", "load", "stop", "skip_higher")
			}
			return
		}
	}
	c.Ignored("there is no axis "+strings.Join(axes.Amounts(), " or ")+" with several values", "", "load", "stop", "skip_higher")
}

// lengthsBrought reports whether a trace or pairs say how long each prompt and its
// answer are; known is false if the plan does not tell yet.
func (c *Checked) lengthsBrought() (brought, known bool) {
	t := c.Plan.Load.Trace
	return t.Lengths() || c.Plan.Load.Prompts.Distribution == plan.Empirical, t == nil || t.Format != ""
}

func (c *Checked) maxTokens() {
	if brought, known := c.lengthsBrought(); known && !brought && !c.Given("max_tokens") && !c.Meant("max_tokens") {
		c.Missing("nothing says how long an answer may be", "load.max_tokens or the axis max_tokens", "load")
	}
}

func (c *Checked) output() {
	ld := c.Plan.Load
	ignore := ld.Sampling.IgnoreEOS
	exact := ld.Output == plan.OutputExact || ignore != nil && *ignore
	switch {
	case ld.Output == plan.OutputNatural && ignore != nil && *ignore:
		c.Conflict("keep output", file.Path("load", "sampling", "ignore_eos"), "output: natural and ignore_eos: true contradict each other")
	case ld.Output == plan.OutputExact && ignore != nil && !*ignore:
		c.Conflict("keep output", file.Path("load", "sampling", "ignore_eos"), "output: exact and ignore_eos: false contradict each other")
	case exact && len(ld.Sampling.Stop) > 0:
		c.Conflict("write output: natural", file.Path("load", "sampling", "stop"), "an output of exactly max_tokens cannot end at a stop text")
	case exact:
		at := file.Path("load", "output")
		if ld.Output == "" {
			at = file.Path("load", "sampling", "ignore_eos")
		}
		for _, key := range c.profileKeys() {
			if !c.Profiles[key].API.IgnoreEOS {
				c.Conflict("write output: natural, or leave it out", at, "the engine %s knows no ignore_eos: its outputs cannot be exact", key)
			}
		}
	}
}

func (c *Checked) stopTexts() {
	if n, ok := c.Root.At("load", "sampling", "stop"); ok && n.Kind == syntax.List && len(n.Items) > 4 {
		c.Report.Node(n, "value", "load.sampling.stop has %d texts", len(n.Items)).Expected = "at most 4, the limit of the API"
	}
}

func (c *Checked) prompts() {
	switch pr := c.Plan.Load.Prompts; pr.Kind {
	case plan.PromptsSynthetic:
		if brought, known := c.lengthsBrought(); known && !brought && !c.Given("input_tokens") && !c.Meant("input_tokens") {
			c.Missing("nothing says how long a prompt is", "load.prompts.input_tokens or the axis input_tokens", "load", "prompts")
		}
	case "inline":
		if n, ok := c.Root.At("load", "prompts", "texts"); !ok || len(n.Items) == 0 {
			c.Missing("load.prompts has no texts", "texts: [...]", "load", "prompts", "texts")
		}
	default:
		if !c.Has("load", "prompts", "file") {
			c.Missing("load.prompts has no file", "file: prompts.jsonl", "load", "prompts", "file")
		}
	}
}

// maxNormalSpread is that of package load/source.
const maxNormalSpread = 0.4

func (c *Checked) spread() {
	pr := c.Plan.Load.Prompts
	switch {
	case !drawnFrom("uniform", "normal", "lognormal")(c):
	case !c.Has("load", "prompts", "spread"):
		c.Missing("a "+pr.Distribution+" distribution needs a spread", "spread: 0.25", "load", "prompts", "distribution")
	case pr.Distribution == "uniform" && pr.Spread > 1:
		c.Report.Node(c.At("load", "prompts", "spread"), "range", "load.prompts.spread must be at most 1 for a uniform distribution: lengths would be negative")
	case pr.Distribution == "normal" && pr.Spread > maxNormalSpread:
		c.Report.Node(c.At("load", "prompts", "spread"), "range", "load.prompts.spread must be at most %g for a normal distribution: lengths below one token are cut off, and the mean is no longer input_tokens", maxNormalSpread).Hint = "distribution: lognormal takes any spread"
	}
}

// pairs checks what an empirical distribution draws from.
func (c *Checked) pairs() {
	if !drawnFrom(plan.Empirical)(c) {
		return
	}
	switch list, file := c.Has("load", "prompts", "pairs"), c.Has("load", "prompts", "pairs_file"); {
	case list && file:
		c.Conflict("keep one of them", []string{"load", "prompts", "pairs_file"}, "load.prompts has both pairs and a pairs_file")
	case !list && !file:
		c.Missing("an empirical distribution needs pairs of lengths", "pairs: [[200, 100], [1k, 50]], or pairs_file", "load", "prompts", "distribution")
	}
	n, ok := c.Root.At("load", "prompts", "pairs")
	if !ok || n.Kind != syntax.List {
		return
	}
	if len(n.Items) == 0 {
		c.Report.Node(n, "value", "load.prompts.pairs is empty").Expected = "pairs: [[200, 100], [1k, 50]]"
	}
	for i, pair := range n.Items {
		if pair.Kind == syntax.List && len(pair.Items) != 2 {
			c.Report.Node(pair, "value", "load.prompts.pairs[%d] has %s", i, humanize.Plural(len(pair.Items), "length")).Expected = "two: of the input and of the output, like [200, 100]"
		}
	}
}
