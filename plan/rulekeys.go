package plan

import (
	"slices"
	"strings"

	"sweep.dev/sweep/internal/syntax"
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
}

func (l *loader) checkNeeded(*Plan) {
	for _, r := range needed {
		at := strings.Split(r.section, ".")
		if n, ok := l.root.At(at...); ok && n.Kind == syntax.Map && n.Get(r.key) == nil && !l.Mistyped[r.section+"."+r.key] {
			l.missing(r.section+" has no "+r.key, r.example, at...)
		}
	}
}

// either are pairs of keys of which a plan has one; the second is reported.
var either = []struct{ first, second, text string }{
	{"load.requests", "load.requests_per_worker", "load has both requests and requests_per_worker"},
	{"load.requests", "load.trace.limit", "load.requests and load.trace.limit both say how many requests there are"},
	{"load.stages", "load.until", "a load whose rate changes has no one mean that load.until could know"},
}

func (l *loader) checkEither(*Plan) {
	for _, r := range either {
		if second := strings.Split(r.second, "."); l.has(strings.Split(r.first, ".")...) && l.has(second...) {
			l.conflict("keep one of them", second, "%s", r.text)
		}
	}
}

// noEffect are keys that have no effect in some plans. Conditions may rely on the
// defaults that other checks fill in.
var noEffect = []struct {
	keys      string // each by itself
	when      func(*loader, *Plan) bool
	why, hint string
}{
	{"load.arrivals load.burstiness load.max_in_flight", (*loader).closed, "a closed loop sends when a request has ended", "give a request_rate in place of concurrency"},
	{"load.stop.saturated", func(l *loader, p *Plan) bool { return l.closed(p) && p.Load.Stop != nil && p.Load.Stop.Saturated }, "a closed loop never sends more than its server answers", ""},
	{"load.think_time load.requests_per_worker load.conversation", (*loader).open, "an open loop has no workers", ""},
	{"load.arrivals load.burstiness", func(l *loader, p *Plan) bool { return l.open(p) && p.Load.Trace != nil }, "the trace says when requests are sent", ""},
	{"load.burstiness", func(l *loader, p *Plan) bool { return l.open(p) && p.Load.Trace == nil && p.Load.Arrivals != "gamma" }, "it is the shape of gamma arrivals", "write arrivals: gamma"},
	{"load.duration", func(_ *loader, p *Plan) bool { return len(p.Load.Stages) > 0 }, "the stages say how long each of them lasts", ""},
	{"goodput.ttft_ms goodput.tpot_ms", unstreamed, "with load.stream: false it is not measured", ""},
	{"load.conversation", ofKind("inline", "csv"), "each of these prompts is a conversation of one turn", "synthetic prompts, jsonl and sharegpt have longer ones"},
	{"load.prompts.system", func(_ *loader, p *Plan) bool { return p.Load.Endpoint == EndpointCompletions }, "the completions endpoint has no system message", ""},
	{"load.prompts.system_share", func(l *loader, _ *Plan) bool { return !l.has("load", "prompts", "system") }, "there is no system message to share", ""},
	{"load.prompts.prefix_groups", func(l *loader, p *Plan) bool { return synthetic(l, p) && !l.given("shared_prefix") }, "no share of a prompt is shared", "write shared_prefix: 50%"},
	{"load.prompts.distribution load.prompts.spread load.prompts.pairs load.prompts.pairs_file", func(l *loader, p *Plan) bool { return synthetic(l, p) && p.Load.Trace.Lengths() }, "the trace says how long each prompt is", ""},
	{"load.prompts.spread", drawnFrom(Empirical), "the pairs say how lengths are spread", ""},
	{"load.prompts.spread", drawnFrom("fixed"), "the distribution is fixed", "write distribution: uniform, normal or lognormal"},
}

func (l *loader) checkNoEffect(p *Plan) {
	for _, r := range noEffect {
		for key := range strings.FieldsSeq(r.keys) {
			if at := strings.Split(key, "."); l.has(at...) && r.when(l, p) {
				l.ignored(r.why, r.hint, at...)
			}
		}
	}
}

func unstreamed(_ *loader, p *Plan) bool { return p.Load.Stream != nil && !*p.Load.Stream }

func ofKind(kinds ...string) func(*loader, *Plan) bool {
	return func(_ *loader, p *Plan) bool { return slices.Contains(kinds, p.Load.Prompts.Kind) }
}

func synthetic(_ *loader, p *Plan) bool { return p.Load.Prompts.Kind == PromptsSynthetic }

// drawnFrom is that the lengths of made-up prompts are drawn from a distribution.
func drawnFrom(distribution string) func(*loader, *Plan) bool {
	return func(l *loader, p *Plan) bool {
		return synthetic(l, p) && !p.Load.Trace.Lengths() && p.Load.Prompts.Distribution == distribution
	}
}
