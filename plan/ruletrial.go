package plan

import (
	"cmp"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/syntax"
)

// checkStages checks the rates of an open loop that change.
func (l *loader) checkStages(p *Plan) {
	n, ok := l.root.At("load", "stages")
	if !ok || n.Kind != syntax.List {
		return
	}
	if len(n.Items) == 0 {
		l.missing("load.stages is empty", "stages: [{rate: 10, for: 30s}, {rate: 50, over: 60s}]", "load", "stages")
		return
	}
	sends := false
	for i, item := range n.Items {
		if item.Kind != syntax.Map {
			sends = true
			continue // reported
		}
		if item.Get("rate") == nil {
			l.Report.Node(item, "missing", "load.stages[%d] has no rate", i).Expected = "for example {rate: 10, for: 30s}"
		}
		switch hold, ramp := item.Get("for"), item.Get("over"); {
		case hold == nil && ramp == nil:
			l.Report.Node(item, "missing", "load.stages[%d] does not say how long it lasts", i).Expected = "for: 30s to hold the rate, or over: 30s to go there in a straight line"
		case hold != nil && ramp != nil:
			l.Report.Node(item.Key("over"), "conflict", "load.stages[%d] has both for and over", i).Hint = "write two stages: one that goes to the rate, one that holds it"
		}
		sends = sends || i >= len(p.Load.Stages) || p.Load.Stages[i].Rate > 0 || item.Get("rate") == nil
	}
	if !sends {
		l.Report.Node(n, "value", "no stage sends anything").Expected = "a rate above 0"
	}
}

func (l *loader) checkTrace(p *Plan) {
	t := p.Load.Trace
	if t == nil {
		return
	}
	t.Speed = cmp.Or(t.Speed, 1)
	if t.File != "" {
		t.FileRef = t.File
		t.File, t.FileSHA256 = l.digestFile(t.File, "load", "trace", "file")
	}
	if t.Format != "" && t.Lengths() && p.Load.Prompts.Kind != PromptsSynthetic {
		l.conflict("write format: timestamps to take the times alone from a list of them, or leave prompts.kind out", path("load", "prompts", "kind"),
			"a trace of %s says how long each prompt is, and these prompts are %s", t.Format, p.Load.Prompts.Kind)
	}
}

func (l *loader) checkConversation(p *Plan) {
	if p.Load.Conversation != nil && p.Load.Endpoint == EndpointCompletions {
		l.conflict("write endpoint: chat", path("load", "conversation"), "the completions endpoint has no conversations")
	}
}

func (l *loader) checkCancel(p *Plan) {
	if c := p.Load.Cancel; c != nil && c.After > 0 && p.Timeouts.Request > 0 && c.After >= p.Timeouts.Request {
		l.ignored("every request ends by timeouts.request, "+p.Timeouts.Request.String(), "", "load", "cancel", "after")
	}
}

func (l *loader) checkProbe(p *Plan) {
	if pr := p.Load.Probe; pr != nil {
		pr.Rate = cmp.Or(pr.Rate, 1)
		pr.InputTokens = cmp.Or(pr.InputTokens, 50)
		pr.MaxTokens = cmp.Or(pr.MaxTokens, 16)
	}
}

func (l *loader) checkUntil(p *Plan) {
	u := p.Load.Until
	if u == nil {
		return
	}
	u.Confidence = cmp.Or(u.Confidence, 0.95)
	u.MinRequests = cmp.Or(u.MinRequests, 30)
	if unstreamed(l, p) && slices.Contains([]string{"ttft_ms", "tpot_ms", "itl_ms"}, u.Metric) {
		l.ignored("with load.stream: false "+u.Metric+" is not measured", "without streaming there are e2e_ms and throughput_tok_s", "load", "until", "metric")
	}
}

func (l *loader) checkStop(p *Plan) {
	s := p.Load.Stop
	if s == nil {
		return
	}
	if !l.has("load", "stop", "error_rate") && !s.Saturated {
		l.missing("load.stop says nothing that ends a trial", "error_rate: 30%, or saturated: true in an open loop", "load", "stop")
	}
	if !s.SkipHigher {
		return
	}
	for _, a := range p.Matrix.Axes {
		if a.Amount && len(a.Values) > 1 {
			if !slices.IsSortedFunc(a.Values, func(x, y Value) int {
				a, _ := Number(x)
				b, _ := Number(y)
				return cmp.Compare(a, b)
			}) {
				l.ignored("the values of "+a.Name+" do not go up", "write them in rising order", "load", "stop", "skip_higher")
			}
			return
		}
	}
	l.ignored("there is no axis "+strings.Join(amountAxes(), " or ")+" with several values", "", "load", "stop", "skip_higher")
}

// checkCap is what only shows in cells: a cap below the requests that
// load.until wants at least.
func (l *loader) checkCap(p *Plan) {
	u := p.Load.Until
	if u == nil || len(p.cells) == 0 {
		return
	}
	most := 0
	for _, c := range p.cells {
		if c.Load.Requests == 0 {
			return
		}
		most = max(most, c.Load.Requests)
	}
	if most < u.MinRequests {
		at := path("load", "until")
		if l.has("load", "until", "min_requests") {
			at = append(at, "min_requests")
		}
		d := l.Report.Node(l.key(at...), "no-effect", "%s has no effect: a trial has at most %d requests and %d are wanted before it may end", strings.Join(at, "."), most, u.MinRequests)
		d.Hint = "raise the cap, or lower min_requests"
	}
}
