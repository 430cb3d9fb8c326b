package rules

import (
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/internal/file"
)

// besideAdapt are the keys that choose the trials themselves, or leave none to choose.
var besideAdapt = []struct{ key, why string }{
	{"find", "a search chooses its own levels"},
	{"compare", "its servers take turns over the same cells; compare the answers"},
	{"repeats.until", "write a number of trials: adapt counts their scatter"},
}

func (c *Checked) adapt() {
	a := c.Plan.Adapt
	if a == nil || c.Load != "" {
		return
	}
	alone := true
	for _, r := range besideAdapt {
		if at := strings.Split(r.key, "."); c.Has(at...) {
			alone = false
			c.Conflict(r.why, at, "the plan has both adapt and %s", r.key)
		}
	}
	if c.Plan.Repeats.Each() {
		c.Conflict("leave it out: adapt chooses levels one after another, on one launch", file.Path("repeats", "launch"), "the plan has both adapt and repeats.launch: each")
	}
	if alone && len(c.amounts()) == 0 && !c.Mistyped["matrix.concurrency"] && !c.Mistyped["matrix.request_rate"] {
		d := c.Report.Node(c.Key("adapt"), "missing", "adapt has no levels to choose from: the matrix has neither concurrency nor request_rate")
		d.Expected = "for example concurrency: [1, 2, 4, 8, 16, 32, 64] in matrix"
	}
}

func (c *Checked) adaptLevels() {
	if c.Plan.Adapt == nil {
		return
	}
	most := 0
	for _, cells := range c.Plan.Curves(c.Cells) {
		most = max(most, len(cells))
	}
	if axis := c.Plan.Matrix.Amount(); most <= plan.AdaptLevels && axis != nil {
		d := c.Report.Node(c.Key("matrix", axis.Name), "no-effect", "adapt has no effect: a curve over %s has at most %s, and %d of any are measured", axis.Name, humanize.Plural(most, "level"), plan.AdaptLevels)
		d.Hint = "give " + axis.Name + " more values, or leave adapt out"
	}
}
