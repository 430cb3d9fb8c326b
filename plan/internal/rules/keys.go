package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
)

// This file has what a table can say of keys: which of them a section needs, which
// two cannot be meant together, and which have no effect beside others. Keys are
// paths with dots.

// needed are the keys that a section must have if it is there at all.
var needed = []struct{ section, key, example string }{
	{"load.trace", "file", "file: trace.jsonl"},
	{"load.trace", "format", "format: mooncake, or timestamps, azure or burstgpt"},
	{"load.conversation", "turns", "turns: 4"},
	{"load.cancel", "share", "share: 10%"},
	{"load.cancel", "after", "after: 2s"},
	{"load.until", "metric", "metric: ttft_ms"},
	{"load.until", "within", "within: 5%"},
	{"repeats.until", "metric", "metric: throughput_tok_s"},
	{"repeats.until", "within", "within: 3%"},
	{"quality.lm_eval", "metric", "metric: exact_match"},
	{"quality.lm_eval", "files", "files: [{of: {engine: vllm}, file: vllm/samples_gsm8k.jsonl}]"},
	{"on_finish", "webhook", "webhook: {url: '${SWEEP_WEBHOOK}'}"},
	{"on_finish.webhook", "url", "url: ${SWEEP_WEBHOOK}"},
}

func (c *Checked) needed() {
	for _, r := range needed {
		at := strings.Split(r.section, ".")
		if n, ok := c.Root.At(at...); ok && n.Kind == syntax.Map && n.Get(r.key) == nil && !c.Mistyped[r.section+"."+r.key] {
			c.Missing(r.section+" has no "+r.key, r.example, at...)
		}
	}
}

// either are pairs of keys of which a plan has one; the second is reported.
var either = []struct{ first, second, text string }{
	{"load.requests", "load.requests_per_worker", "load has both requests and requests_per_worker"},
	{"load.requests", "load.trace.limit", "load.requests and load.trace.limit both say how many requests there are"},
	{"repeats.n", "repeats.until", "repeats has both n, a fixed number of trials, and until"},
	{"quality.file", "quality.lm_eval", "quality has both file, prompts to ask, and lm_eval, answers that there are"},
	{"load.stages", "load.until", "load.until needs one rate, and load.stages changes the rate"},
}

func (c *Checked) either() {
	for _, r := range either {
		if second := strings.Split(r.second, "."); c.Has(strings.Split(r.first, ".")...) && c.Has(second...) {
			c.Conflict("keep one of them", second, "%s", r.text)
		}
	}
}

// noEffect are keys that have no effect in some plans. A path in braces stands for
// the plan's value of that key.
var noEffect = []struct {
	keys      string // each by itself
	when      func(*Checked) bool
	why, hint string
}{
	{"load.arrivals load.burstiness load.max_in_flight", closed, "a closed loop sends when a request has ended", "give a request_rate in place of concurrency"},
	{"load.stop.saturated", func(c *Checked) bool { return c.Closed() && c.Plan.Load.Stop != nil && c.Plan.Load.Stop.Saturated }, "a closed loop never sends more than its server answers", ""},
	{"load.start load.think_time load.requests_per_worker load.conversation", open, "an open loop has no workers", ""},
	{"load.arrivals load.burstiness", func(c *Checked) bool { return c.Open() && c.Plan.Load.Trace != nil }, "the trace says when requests are sent", ""},
	{"load.burstiness", func(c *Checked) bool { return c.Open() && c.Plan.Load.Trace == nil && c.Plan.Load.Arrivals != "gamma" }, "it is the shape of gamma arrivals", "write load.arrivals: gamma"},
	{"matrix.burstiness", func(c *Checked) bool { return !c.Open() || c.Plan.Load.Trace != nil || c.Plan.Load.Arrivals != "gamma" }, "it is the shape of gamma arrivals", "write load.arrivals: gamma, for a request_rate"},
	{"load.duration", func(c *Checked) bool { return len(c.Plan.Load.Stages) > 0 }, "the stages say how long each of them lasts", ""},
	{"load.cancel.after", neverCancels, "every request ends by timeouts.request, {timeouts.request}", ""},
	{"goodput.ttft_ms goodput.tpot_ms", unstreamed, "with load.stream: false it is not measured", ""},
	{"load.until.metric", untilUnstreamed, "with load.stream: false {load.until.metric} is not measured", "without streaming there are e2e_ms and throughput_tok_s"},
	{"load.clients.kind", func(c *Checked) bool { return c.Plan.Load.Clients.N < 1 && !c.Plan.Load.Clients.Auto() }, "sweep itself sends the load", "write n: 4, or leave load.clients out"},
	{"load.clients.namespace load.clients.image load.clients.base load.clients.cpus", func(c *Checked) bool { return c.Plan.Load.Clients.Kind != plan.ClientsKubernetes }, "the load is sent by this machine", "write kind: kubernetes"},
	{"load.clients.base", func(c *Checked) bool { return c.Plan.Load.Clients.Image != "" }, "load.clients.image has sweep", ""},
	{"repeats.launch", func(c *Checked) bool { return c.Plan.Repeats.Each() && c.Backend.Given && !c.Backend.Applies }, "the server runs already, and sweep never launches it again", "leave it out: all trials share the server"},
	{"find.devices", func(c *Checked) bool {
		return c.Plan.Find != nil && c.Plan.Find.Devices > 1 && c.Backend.Given && !c.Backend.Applies
	}, "the server runs already, and sweep never launches it again", "leave it out: the answer is of its own devices"},
	{"repeats.min repeats.max", func(c *Checked) bool { return c.Plan.Repeats.Until == nil }, "nothing ends the trials of a cell early", "write n, or until: {metric: throughput_tok_s, within: 3%}"},
	{"repeats.until.metric", func(c *Checked) bool { u := c.Plan.Repeats.Until; return u != nil && neverStreamed(c, u.Metric) }, "with load.stream: false {repeats.until.metric} is not measured", "without streaming there are e2e_ms and throughput_tok_s"},
	{"repeats.launch", func(c *Checked) bool {
		return c.Plan.Repeats.Each() && c.Plan.Repeats.Until == nil && c.Plan.Repeats.Most() == 1
	}, "each cell has one trial", "write n: 3"},
	{"confidence", func(c *Checked) bool { return len(c.Plan.SLO) == 0 }, "the plan has no slo", ""},
	{"load.until.objectives", func(c *Checked) bool {
		u := c.Plan.Load.Until
		return u != nil && u.Objectives && len(c.Plan.SLO) == 0
	}, "{slo}", ""},
	{"quality.items quality.max_tokens quality.concurrency quality.endpoint quality.body", func(c *Checked) bool { return c.Plan.Quality != nil && c.Plan.Quality.LMEval != nil }, "the answers are in the files of quality.lm_eval, and sweep sends no prompt", "give it to lm-eval"},

	{"load.conversation", ofKind("inline", "csv"), "each of these prompts is a conversation of one turn", "synthetic prompts, jsonl and sharegpt have longer ones"},

	{"load.prompts.input_tokens load.prompts.distribution load.prompts.spread load.prompts.shared_prefix load.prompts.pairs load.prompts.pairs_file load.prompts.prefix_groups load.prompts.length matrix.input_tokens matrix.shared_prefix", ofKind("inline", "jsonl", "sharegpt", "csv"), "prompts are {load.prompts.kind}", "it belongs to kind: synthetic"},
	{"load.prompts.texts", ofKind("synthetic", "jsonl", "sharegpt", "csv"), "prompts are {load.prompts.kind}", "it belongs to kind: inline"},
	{"load.prompts.file", ofKind("synthetic", "inline"), "prompts are {load.prompts.kind}", "it belongs to kind: jsonl or sharegpt or csv"},
	{"load.prompts.reuse load.prompts.cache_bust", ofKind("synthetic"), "prompts are {load.prompts.kind}", "it belongs to kind: inline or jsonl or sharegpt or csv"},
	{"load.prompts.system", func(c *Checked) bool { return c.Plan.Load.Endpoint == plan.EndpointCompletions }, "the completions endpoint has no system message", ""},
	{"load.prompts.system_share", func(c *Checked) bool { return !c.Has("load", "prompts", "system") }, "there is no system message to share", ""},
	{"load.prompts.prefix_groups", func(c *Checked) bool { return synthetic(c) && !c.Given("shared_prefix") }, "no share of a prompt is shared", "write shared_prefix: 50%"},
	{"load.prompts.input_tokens matrix.input_tokens load.prompts.distribution load.prompts.spread load.prompts.pairs load.prompts.pairs_file", lengthsOfTrace, "the trace says how long each prompt is", ""},
	{"load.prompts.input_tokens matrix.input_tokens", drawnFrom(plan.Empirical), "each pair says how long its prompt is", ""},
	{"load.prompts.pairs load.prompts.pairs_file", drawnFrom("fixed", "uniform", "normal", "lognormal"), "the distribution is {load.prompts.distribution}", "write distribution: empirical"},
	{"load.prompts.spread", drawnFrom(plan.Empirical), "the pairs say how lengths are spread", ""},
	{"load.prompts.spread", drawnFrom("fixed"), "the distribution is fixed", "write distribution: uniform, normal or lognormal"},
}

func (c *Checked) noEffect() {
	for _, r := range noEffect {
		for key := range strings.FieldsSeq(r.keys) {
			if at := strings.Split(key, "."); c.Has(at...) && r.when(c) {
				c.Ignored(c.filledIn(r.why), r.hint, at...)
			}
		}
	}
}

// filledIn returns a text with the plan's values in the place of paths in braces.
func (c *Checked) filledIn(text string) string {
	metric, repeated := "", ""
	if u := c.Plan.Load.Until; u != nil {
		metric = u.Metric
	}
	if u := c.Plan.Repeats.Until; u != nil {
		repeated = u.Metric
	}
	none := "the plan has no slo"
	if c.Load != "" {
		none = "no objective of the plan is for this load"
	}
	return strings.NewReplacer(
		"{slo}", none,
		"{load.prompts.kind}", c.Plan.Load.Prompts.Kind,
		"{load.prompts.distribution}", c.Plan.Load.Prompts.Distribution,
		"{load.until.metric}", metric,
		"{repeats.until.metric}", repeated,
		"{timeouts.request}", fmt.Sprint(c.Plan.Timeouts.Request),
	).Replace(text)
}

func closed(c *Checked) bool { return c.Closed() }

func open(c *Checked) bool { return c.Open() }

func unstreamed(c *Checked) bool { return c.Plan.Load.Stream != nil && !*c.Plan.Load.Stream }

// ofStream matches the metrics that only a stream has.
var ofStream = regexp.MustCompile("(ttft|tpot|itl)_ms$")

func untilUnstreamed(c *Checked) bool {
	u := c.Plan.Load.Until
	return u != nil && neverStreamed(c, u.Metric)
}

// neverStreamed reports whether a metric of answers in parts is asked for of answers in one.
func neverStreamed(c *Checked, metric string) bool {
	return unstreamed(c) && ofStream.MatchString(metric)
}

func neverCancels(c *Checked) bool {
	cancel, request := c.Plan.Load.Cancel, c.Plan.Timeouts.Request
	return cancel != nil && cancel.After > 0 && request > 0 && cancel.After >= request
}

func ofKind(kinds ...string) func(*Checked) bool {
	return func(c *Checked) bool { return slices.Contains(kinds, c.Plan.Load.Prompts.Kind) }
}

func synthetic(c *Checked) bool { return c.Plan.Load.Prompts.Kind == plan.PromptsSynthetic }

func lengthsOfTrace(c *Checked) bool { return synthetic(c) && c.Plan.Load.Trace.Lengths() }

// drawnFrom returns a check of whether the lengths of made-up prompts are drawn from one of the
// distributions.
func drawnFrom(distributions ...string) func(*Checked) bool {
	return func(c *Checked) bool {
		return synthetic(c) && !c.Plan.Load.Trace.Lengths() && slices.Contains(distributions, c.Plan.Load.Prompts.Distribution)
	}
}
