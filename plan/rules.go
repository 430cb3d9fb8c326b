package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan/internal/expression"
	"sweep.dev/sweep/plan/internal/strict"
)

// check runs every check, whatever the ones before it found: a person wants
// all of it at once. A check may rely on nothing but what decoding gives.
func (l *loader) check(p *Plan) {
	for _, c := range []func(*Plan){
		l.checkRequired,
		l.checkNeeded,
		l.checkModel,
		l.checkEngines,
		l.checkGPUs,
		l.checkPrices,
		l.checkZip,
		l.checkLoop,
		l.checkAmount,
		l.checkStages,
		l.checkTrace,
		l.checkConversation,
		l.checkCancel,
		l.checkProbe,
		l.checkUntil,
		l.checkStop,
		l.checkAxesOfLoad,
		l.checkMaxTokens,
		l.checkSampling,
		l.checkPrompts,
		l.checkBody,
		l.checkHeaders,
		l.checkGoodput,
		l.checkTimeouts,
		l.checkEither,
		l.checkNoEffect,
		l.compileSLOs,
		l.compileExcludes,
	} {
		c(p)
	}
}

// missing reports a key that is not there, at the section where it should be.
func (l *loader) missing(what, expected string, keys ...string) {
	if !l.Mistyped[strings.Join(keys, ".")] {
		l.Report.Node(l.key(keys...), "missing", "%s", what).Expected = expected
	}
}

// ignored reports a key that would have no effect.
func (l *loader) ignored(why, hint string, keys ...string) {
	d := l.Report.Node(l.key(keys...), "no-effect", "%s has no effect: %s", strings.Join(keys, "."), why)
	d.Hint = hint
}

// conflict reports two keys that cannot both be meant.
func (l *loader) conflict(hint string, keys []string, format string, args ...any) {
	l.Report.Node(l.key(keys...), "conflict", format, args...).Hint = hint
}

func path(keys ...string) []string { return keys }

func (l *loader) checkRequired(*Plan) {
	if !l.has("version") {
		l.missing("the plan has no version", "version: 1", "version")
	}
	if !l.has("name") {
		l.missing("the plan has no name", "name: chat-capacity", "name")
	}
	if !l.has("backend") {
		l.missing("the plan has no backend", strict.OneOf(kinds(l.opts.Vocabulary.Backends)), "backend")
	}
}

func (l *loader) checkModel(p *Plan) {
	axis := p.Matrix.axis("model")
	switch {
	case l.has("model") && axis != nil:
		l.conflict("keep one of them", path("model"), "model is also an axis of the matrix")
	case !l.has("model") && !l.has("matrix", "model"):
		l.missing("the plan has no model", "model: Qwen/Qwen2.5-1.5B-Instruct, or the axis model", "model")
	case axis != nil && len(axis.Values) > 1 && l.has("model_revision"):
		l.conflict("", path("model_revision"), "one model_revision cannot belong to %d models", len(axis.Values))
	}
	l.checkModelNames()
}

// checkModelNames refuses names that are no model and no path of one. A model is
// a name of the hub (Qwen/Qwen3-0.6B), or a path of its files: an absolute one,
// or one below the folder in which the server runs. A name that begins with a
// dash would be an argument of the server.
func (l *loader) checkModelNames() {
	nodes := l.axisNodes("model")
	if n := l.root.Get("model"); n != nil {
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		if n.Kind != syntax.String {
			continue // reported already
		}
		switch {
		case slices.Contains(strings.FieldsFunc(n.Text, func(r rune) bool { return r == '/' || r == '\\' }), ".."):
			d := l.Report.Node(n, "value", "the model %q leaves its folder by ..", n.Text)
			d.Expected = "a name such as Qwen/Qwen3-0.6B, or a path such as ./x.gguf or /models/x.gguf"
		case strings.HasPrefix(n.Text, "-"):
			l.Report.Node(n, "value", "the model %q begins with a dash, which a server would take for an argument", n.Text).Hint = "write a file of that name as ./" + n.Text
		}
	}
}

func (l *loader) checkGPUs(p *Plan) {
	axis := p.Matrix.axis("gpu")
	if axis == nil || l.backend.Kind == "" {
		return
	}
	names := l.gpuNames()
	known := make(map[string]bool, len(names))
	for _, n := range names {
		known[n] = true
	}
	for i, n := range l.axisNodes("gpu") {
		name, ok := axisText(axis, i)
		switch {
		case !ok:
		case l.backend.FreeGPU:
			if len(name) > 64 || strings.ContainsAny(name, "\n\t\r") {
				l.Report.Node(n, "value", "the label %.20q... of a GPU is longer than 64 bytes or more than a line", name)
			}
		case !known[name]:
			d := l.Report.Node(n, "unknown-gpu", "there is no GPU %q in the catalogue", name)
			d.Nearest = syntax.Nearest(name, names)
			d.Expected = strict.OneOf(names)
			d.Hint = "sweep gpus lists them with what they are"
		}
	}
}

// axisNodes are the values of an axis in the file and in include.
func (l *loader) axisNodes(name string) []*syntax.Node {
	n := l.root.Get("matrix").Get(name)
	var out []*syntax.Node
	switch {
	case n == nil:
	case n.Kind == syntax.List:
		out = append(out, n.Items...)
	default:
		out = append(out, n)
	}
	for _, item := range l.included {
		if v := item.Get(name); v != nil {
			out = append(out, v)
		}
	}
	return out
}

func axisText(a *Axis, i int) (string, bool) {
	if a == nil || i >= len(a.Values) {
		return "", false
	}
	s, ok := a.Values[i].(string)
	return s, ok
}

func (l *loader) checkZip(p *Plan) {
	zip := l.root.Get("matrix").Get("zip")
	if zip == nil || zip.Kind != syntax.List {
		return
	}
	used := make(map[string]bool)
	for _, group := range zip.Items {
		length, first := 0, ""
		if group.Kind == syntax.List && len(group.Items) < 2 {
			l.Report.Node(group, "zip", "a zip of fewer than two axes has no effect").Expected = "for example zip: [[input_tokens, max_tokens]]"
		}
		for _, item := range group.Items {
			a := p.Matrix.axis(item.Text)
			switch {
			case a == nil:
				d := l.Report.Node(item, "unknown-axis", "%q is no axis of this matrix", item.Text)
				d.Expected = strict.OneOf(p.Matrix.names())
				d.Nearest = syntax.Nearest(item.Text, p.Matrix.names())
				continue
			case used[item.Text]:
				l.Report.Node(item, "zip", "the axis %s is zipped twice", item.Text)
			case first == "":
				length, first = len(a.Values), a.Name
			case len(a.Values) != length:
				l.Report.Node(item, "zip", "%s has %d values and %s has %d: they cannot be zipped", a.Name, len(a.Values), first, length)
			}
			used[item.Text] = true
		}
	}
}

func (l *loader) compileExcludes(p *Plan) {
	p.axisEnv = axisEnv(p.Matrix.Axes)
	n := l.root.Get("matrix").Get("exclude")
	if n == nil {
		return
	}
	for _, item := range n.Items {
		if item.Kind != syntax.String {
			continue // reported
		}
		l.excludes = append(l.excludes, expression.Compile(l.Report, item, p.axisEnv.Env))
	}
}

func (l *loader) checkGoodput(p *Plan) {
	if p.Goodput != nil && *p.Goodput == (Goodput{}) && l.root.Get("goodput").Kind == syntax.Map && len(l.root.Get("goodput").Entries) == 0 {
		l.missing("goodput has no bound", "one of ttft_ms, tpot_ms or e2e_ms", "goodput")
	}
}

func (l *loader) checkTimeouts(p *Plan) {
	t := &p.Timeouts
	if l.has("budget", "max_pod_lifetime") && p.Budget.MaxPodLifetime < time.Minute {
		l.Report.Node(l.at("budget", "max_pod_lifetime"), "value", "a pod that ends itself after %s measures nothing", p.Budget.MaxPodLifetime).Expected = "at least 1m"
	}
	if t.Launch == 0 {
		t.Launch = cmp.Or(l.backend.Launch, defaultLaunch)
	}
	if t.Trial == 0 {
		t.Trial = defaultTrial
		sends, _ := p.Load.Sends()
		if need := sends + t.Request + trialMargin; sends > 0 && need > t.Trial {
			t.Trial = need
		}
	}
	if l.has("timeouts", "trial") && p.Load.Duration > 0 && t.Trial <= p.Load.Duration {
		l.conflict("make it longer than load.duration with its warm-up and drain", path("timeouts", "trial"),
			"timeouts.trial is %s, and a trial sends for %s", t.Trial, p.Load.Duration)
	}
}
