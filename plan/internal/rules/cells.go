package rules

import (
	"fmt"
	"strings"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/plan/internal/file"
)

// gpuArguments looks at what the engines' arguments say of GPUs.
func (c *Checked) gpuArguments() {
	c.gpuCount()
	c.transfers()
}

// gpuCount holds the axis gpu_count against the arguments of the engines, which
// must be numbers to be counted.
func (c *Checked) gpuCount() {
	for _, d := range c.Deployments {
		profile := c.Profiles[d.Server.Engine]
		seen := make(map[plan.Value]bool)
		for _, cell := range d.Cells {
			declared := cell.Setting("gpu_count")
			if seen[declared] {
				continue
			}
			seen[declared] = true
			number, _ := declared.(int64)
			switch n, known := d.Server.CountGPUs(profile, c.Backend, int(number)); {
			case !known:
			case n.Wrong != nil:
				c.wrongSizes(profile, d.Server.Engine, n)
			case number > 0 && int(number) != n.Total:
				c.contradicted(profile, d.Server.Engine, int(number), n)
			}
		}
	}
}

// contradicted reports a gpu_count that the engine's arguments contradict.
func (c *Checked) contradicted(profile *engine.Profile, key string, declared int, n plan.GPUCounted) {
	at := c.Key("matrix", "gpu_count")
	for _, n := range c.Values("gpu_count") {
		if n.Text == fmt.Sprint(declared) {
			at = n
		}
	}
	sum := strings.Join(n.Parts, " + ")
	if sum == "" {
		sum = "it needs no GPU"
	}
	d := c.Report.Node(at, "gpu-count", "gpu_count is %d, and %s uses %d (%s)", declared, key, n.Total, sum)
	d.Hint = "leave gpu_count out: it follows from the arguments and the replicas"
	if arg := profile.TensorArg(); arg != "" && declared > n.Total {
		d.Hint = fmt.Sprintf("leave gpu_count out and write args.%s: it follows from the arguments and the replicas", arg)
	}
}

// wrongSizes reports arguments that are no number of GPUs.
func (c *Checked) wrongSizes(profile *engine.Profile, key string, n plan.GPUCounted) {
	for _, w := range n.Wrong {
		d := c.Report.Node(c.argNode(profile, key, n.Role, w.Arg), "value", "%s", w)
		d.Hint = "sweep needs the number of GPUs to know the server's price"
	}
}

// argNode returns where the plan gives an argument to a role of an engine, else where
// it gives a command, else the engine's own place.
func (c *Checked) argNode(profile *engine.Profile, key, role, arg string) *syntax.Node {
	for _, at := range [][]string{{"engines", key, "roles", role, "args"}, {"engines", key, "args"}} {
		if n, ok := c.Root.At(at...); ok {
			for _, e := range n.Entries {
				if profile.ArgName(e.Key.Text) == profile.ArgName(arg) {
					return e.Value
				}
			}
		}
	}
	for _, a := range c.Plan.Matrix.Axes {
		kind, _ := axes.Lookup(a.Name)
		if own := kind.Role == "" || kind.Role == role; own && kind.Arg != "" && profile.ArgName(kind.Arg) == profile.ArgName(arg) {
			return c.Key("matrix", a.Name)
		}
	}
	for _, at := range [][]string{{"engines", key, "roles", role, "command"}, {"engines", key, "command"}, {"engines", key}} {
		if c.Has(at...) {
			return c.Key(at...)
		}
	}
	return c.Key("matrix", "engine")
}

// transfers refuses servers between which NIXL moves no KV cache: it writes from as many
// ranks as the prefill server has or fewer, and the decode server fails on an assertion.
func (c *Checked) transfers() {
	if c.Backend.Given {
		return // what runs there is not the plan's
	}
	type pair struct {
		engine          string
		prefill, decode int
	}
	seen := map[pair]bool{}
	for _, d := range c.Deployments {
		profile := c.Profiles[d.Server.Engine]
		if profile == nil || !profile.Disaggregated() || !d.Server.MovesByNIXL(profile) {
			continue
		}
		prefill, known := d.Server.TensorParallel(profile, engine.RolePrefill)
		decode, both := d.Server.TensorParallel(profile, engine.RoleDecode)
		if one := (pair{d.Server.Engine, prefill, decode}); known && both && prefill > decode && !seen[one] {
			seen[one] = true
			at := c.Report.Node(c.argNode(profile, d.Server.Engine, engine.RolePrefill, profile.TensorArg()), "transfer",
				"prefill has %s %d and decode %d: NIXL moves no KV cache from more ranks to fewer", profile.TensorArg(), prefill, decode)
			at.Hint = "give decode as many or more, or another kv-transfer-config"
		}
	}
}

// identity reports cells that are the same. Axes have no value twice, so the
// second of them is included, or its id has collided.
func (c *Checked) identity() {
	included, product := c.Included(), len(c.Cells)-len(c.Plan.Matrix.Include)
	ids := make(map[string]bool, len(c.Cells))
	for i, cell := range c.Cells {
		switch {
		case !ids[cell.ID]:
		case i >= product:
			c.Report.Node(included[i-product], "duplicate", "this cell is in the matrix already")
		default:
			c.Report.Node(c.Key("matrix"), "duplicate", "two cells have the id %s", cell.ID)
		}
		ids[cell.ID] = true
	}
}

func (c *Checked) concurrencyReached() {
	var unreached plan.Load
	for _, cell := range c.Cells {
		if ld := cell.Load; ld.Requests > 0 && ld.Requests < ld.Concurrency && ld.Concurrency > unreached.Concurrency {
			unreached = ld
		}
	}
	if unreached.Concurrency > 0 {
		d := c.Report.Node(c.At("load", "requests"), "no-effect", "%d requests are fewer than %d workers: some workers send none", unreached.Requests, unreached.Concurrency)
		d.Hint = "write requests_per_worker to scale with the concurrency"
	}
}

func (c *Checked) enoughTexts() {
	pr := c.Plan.Load.Prompts
	if pr.Kind != "inline" || pr.Reuse == plan.ReuseAllowed || c.Plan.Load.Requests+c.Plan.Load.RequestsPerWorker == 0 {
		return // by time, how many are sent is not known yet
	}
	most := 0
	for _, d := range c.Deployments {
		n := 0
		for _, cell := range d.Cells {
			n += c.Plan.Repeats.Most() * (cell.Load.Total() + cell.Load.WarmupRequests())
		}
		most = max(most, n)
	}
	if most > len(pr.Texts) {
		d := c.Report.Node(c.At("load", "prompts", "texts"), "too-few-prompts", "load.prompts.texts has %[2]d texts, and %[1]d prompts are needed: no text is sent twice", most, len(pr.Texts))
		d.Hint = "add texts, or write reuse: allowed to permit hits in the prefix cache"
	}
}

func (c *Checked) untilCap() {
	u := c.Plan.Load.Until
	if u == nil || len(c.Cells) == 0 {
		return
	}
	most := 0
	for _, cell := range c.Cells {
		if cell.Load.Requests == 0 {
			return
		}
		most = max(most, cell.Load.Requests)
	}
	if most < u.MinRequests {
		at := file.Path("load", "until")
		if c.Has("load", "until", "min_requests") {
			at = append(at, "min_requests")
		}
		d := c.Report.Node(c.Key(at...), "no-effect", "%s has no effect: a trial has at most %d requests and %d are wanted before it may end", strings.Join(at, "."), most, u.MinRequests)
		d.Hint = "raise the cap, or lower min_requests"
	}
}
