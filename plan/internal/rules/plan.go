package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan/internal/file"
	"sweep.dev/sweep/plan/internal/strict"
)

func (c *Checked) required() {
	for _, r := range []struct{ key, expected string }{
		{"version", "version: 1"},
		{"name", "name: chat-capacity"},
		{"backend", strict.OneOf(c.Backends)},
	} {
		if !c.Has(r.key) {
			c.Missing("the plan has no "+r.key, r.expected, r.key)
		}
	}
}

func (c *Checked) model() {
	axis := c.Plan.Matrix.Axis("model")
	switch {
	case c.Has("model") && axis != nil:
		c.Conflict("keep one of them", file.Path("model"), "model is also an axis of the matrix")
	case !c.Has("model") && !c.Has("matrix", "model"):
		c.Missing("the plan has no model", "model: Qwen/Qwen2.5-1.5B-Instruct, or the axis model", "model")
	case axis != nil && len(axis.Values) > 1 && c.Has("model_revision"):
		c.Conflict("", file.Path("model_revision"), "one model_revision cannot belong to %d models", len(axis.Values))
	}
}

// modelNames refuses names that are no model and no path of one. A model is a
// name of the hub (Qwen/Qwen3-0.6B), or a path of its files: an absolute one, or
// one below the folder in which the server runs. A name that begins with a dash
// would be an argument of the server.
func (c *Checked) modelNames() {
	nodes := c.Values("model")
	if n := c.Root.Get("model"); n != nil {
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		if n.Kind != syntax.String {
			continue // reported already
		}
		switch {
		case slices.Contains(strings.FieldsFunc(n.Text, func(r rune) bool { return r == '/' || r == '\\' }), ".."):
			d := c.Report.Node(n, "value", "the model %q leaves its folder by ..", n.Text)
			d.Expected = "a name such as Qwen/Qwen3-0.6B, or a path such as ./x.gguf or /models/x.gguf"
		case strings.HasPrefix(n.Text, "-"):
			c.Report.Node(n, "value", "the model %q begins with a dash, which a server would take for an argument", n.Text).Hint = "write a file of that name as ./" + n.Text
		}
	}
}

// prices holds the prices of the plan and of the user's configuration against the
// catalogue. The configuration's labels may be those of other plans, so a label is
// wrong there only if it is nearly a name of the catalogue.
func (c *Checked) prices() {
	names := c.GPUs
	if c.Backend.FreeGPU {
		names = slices.Clone(names)
		for _, n := range c.Values("gpu") {
			names = append(names, n.Text)
		}
	}
	for _, e := range c.priced(c.Root) {
		if !slices.Contains(names, e.Key.Text) {
			d := c.Report.Node(e.Key, "unknown-gpu", "there is no GPU %q in the catalogue, and no cell has that label", e.Key.Text)
			d.Nearest = syntax.Nearest(e.Key.Text, names)
			d.Expected = strict.OneOf(names)
		}
	}
	for _, e := range c.priced(c.Config) {
		near := syntax.Nearest(e.Key.Text, c.GPUs)
		if near == "" || slices.Contains(names, e.Key.Text) || numbered(near, e.Key.Text) {
			continue // l40 is no slip for l4
		}
		d := c.Report.Node(e.Key, "unknown-gpu", "there is no GPU %q in the catalogue", e.Key.Text)
		d.Nearest = near
		d.Hint = "sweep list gpus lists them; a label of your own must differ more from these names"
	}
}

// priced returns the GPUs that a file gives a price; those without one are reported.
func (c *Checked) priced(root *syntax.Node) []syntax.Entry {
	list := file.Entries(root.Get("prices"))
	for _, e := range list {
		if e.Value.Kind == syntax.Map && len(e.Value.Entries) == 0 {
			c.Report.Node(e.Value, "missing", "the GPU %s has no price", e.Key.Text).Expected = "for example {usd_per_hour: 2.10}"
		}
	}
	return list
}

func (c *Checked) goodput() {
	if n := c.Root.Get("goodput"); n != nil && n.Kind == syntax.Map && len(n.Entries) == 0 {
		c.Missing("goodput has no bound", "one of ttft_ms, tpot_ms or e2e_ms", "goodput")
	}
	if c.Plan.Goodput == nil && !c.Mistyped["goodput"] {
		c.unmeasured("good", "the plan has no goodput", "write goodput: {ttft_ms: 200, tpot_ms: 50}, the bounds of a good request")
	}
}

// unmeasured reports objectives on columns of a kind, by how their names begin, that the plan
// never measures.
func (c *Checked) unmeasured(kind, why, hint string) {
	for _, s := range c.Plan.SLO {
		for _, name := range s.Reads() {
			if strings.HasPrefix(name, kind) {
				c.Report.Node(c.Objective(s.Name), "no-effect", "%s is never measured: %s", name, why).Hint = hint
			}
		}
	}
}

func (c *Checked) repeats() {
	r := c.Plan.Repeats
	switch {
	case r.Until == nil:
	case !c.Has("repeats", "max") && !c.Mistyped["repeats.max"]:
		c.Missing("repeats.until has no cap: a mean may never be known well enough", "max: 10 beside it", "repeats", "until")
	case r.Max > 0 && r.Max <= r.Min:
		c.Report.Node(c.At("repeats", "max"), "no-effect", "repeats.until has no effect: a cell has at most %d trials, and at least %d valid ones", r.Max, r.Min).Hint = "raise max, or lower min"
	}
}

// compare: each trial number is a turn of every side, so that there are two at least.
func (c *Checked) compare() {
	if c.Plan.Compare == nil {
		return
	}
	for _, key := range []string{"axis", "baseline"} {
		if !c.Has("compare", key) && !c.Mistyped["compare."+key] {
			c.Missing("compare has no "+key, "for example compare: {axis: engine, baseline: vllm}", "compare")
		}
	}
	c.compared()
	if r := c.Plan.Repeats; !r.Each() || r.Most() < 2 {
		c.Report.Node(c.At("compare"), "no-effect", "compare alternates the servers of all sides, and each has at most one turn").Hint = "write repeats: {n: 5, launch: each}"
	}
}

// compared holds the axis and the baseline of compare against the matrix.
func (c *Checked) compared() {
	if !c.Has("compare", "axis") {
		return
	}
	var servers []string
	for _, a := range c.Plan.Matrix.Axes {
		if a.Server {
			servers = append(servers, a.Name)
		}
	}
	want := c.Plan.Compare
	a := c.Plan.Matrix.Axis(want.Axis)
	if a == nil || !a.Server {
		d := c.Report.Node(c.At("compare", "axis"), "unknown-axis", "%q is no server axis of this matrix", want.Axis)
		d.Expected, d.Nearest = strict.OneOf(servers), syntax.Nearest(want.Axis, servers)
		return
	}
	var values []string
	for _, v := range a.Values {
		values = append(values, fmt.Sprint(v))
	}
	switch {
	case len(values) < 2:
		c.Report.Node(c.At("compare", "axis"), "no-effect", "%s has one value: there is nothing to compare", want.Axis)
	case c.Has("compare", "baseline") && !slices.Contains(values, want.Baseline):
		d := c.Report.Node(c.At("compare", "baseline"), "value", "%q is no value of %s in this matrix", want.Baseline, want.Axis)
		d.Expected, d.Nearest = strict.OneOf(values), syntax.Nearest(want.Baseline, values)
	}
}

func (c *Checked) lifetime() {
	if c.Has("budget", "max_pod_lifetime") && c.Plan.Budget.MaxPodLifetime < time.Minute {
		c.Report.Node(c.At("budget", "max_pod_lifetime"), "value", "budget.max_pod_lifetime is %s, too short to measure", c.Plan.Budget.MaxPodLifetime).Expected = "at least 1m"
	}
}

var oneReference = regexp.MustCompile(`^\$\{[^{}]+\}$`)

func (c *Checked) webhook() {
	n, ok := c.Root.At("on_finish", "webhook", "url")
	if !ok || n.Kind != syntax.String || oneReference.MatchString(n.Text) {
		return
	}
	if n.Text != "" {
		n.Src.Mask(n.Offset(0, len([]rune(n.Text))))
	}
	d := c.Report.Node(n, "secret", "on_finish.webhook.url is written out, or holds more than one reference: who knows it can post there")
	d.Expected = "one reference, like ${SWEEP_WEBHOOK}"
	d.Hint = "put the URL into an environment variable; the plan is copied into every run directory"
}

func (c *Checked) trialTimeout() {
	if t, sends := c.Plan.Timeouts.Trial, c.Plan.Load.Duration; c.Has("timeouts", "trial") && sends > 0 && t <= sends {
		c.Conflict("make it longer than load.duration with its warm-up and drain", file.Path("timeouts", "trial"),
			"timeouts.trial is %s, and a trial sends for %s", t, sends)
	}
}

// streamed matches the columns that only a streamed answer has.
var streamed = regexp.MustCompile(`^[a-z0-9]+_(ttft|ttfo|tpot|itl|icl)_ms|^p50_user_tok_s$`)

func (c *Checked) measured() {
	if !unstreamed(c) {
		return
	}
	for _, s := range c.Plan.SLO {
		for _, name := range s.Reads() {
			if streamed.MatchString(name) {
				d := c.Report.Node(c.Objective(s.Name), "no-effect", "%s is never measured with load.stream: false", name)
				if d.Hint = "without streaming there are e2e and the token counts"; c.Load != "" {
					d.Hint += fmt.Sprintf("; or name the loads that it is for: {expr: %q, loads: [...]}", s.Expr)
				}
			}
		}
	}
}
