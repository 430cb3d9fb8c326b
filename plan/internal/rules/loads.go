package rules

import (
	"slices"
	"strings"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/plan/internal/strict"
)

// OfLoads are those of the named loads of a plan together. They are applied to the
// whole plan; Each are what its loads see of it.
var OfLoads = []Rule{
	{"loop-said", "A load says which loop it is if the matrix leaves the choice, and only then.", (*Checked).loopSaid},
	{"axes-taken", "A load takes each axis of the matrix, and all of a group that is zipped.", (*Checked).axesTaken},
	{"include-load", "An included cell says of which load it is.", (*Checked).includeLoad},
	{"find-loads", "A search has one load.", (*Checked).findLoads},
	{"objective-loads", "An objective is for loads that there are.", (*Checked).objectiveLoads},
}

// named returns the entries of loads by their names, and the names in their order.
func (c *Checked) named() (items map[string]*syntax.Node, names []string) {
	items = make(map[string]*syntax.Node)
	for _, l := range c.Plan.Loads {
		for _, item := range c.Root.Get("loads").Items {
			if name := item.Get("name"); name != nil && name.Text == l.Name {
				items[l.Name] = item
			}
		}
		names = append(names, l.Name)
	}
	return items, names
}

// amounts returns the amounts of load that the matrix has.
func (c *Checked) amounts() []string {
	return slices.DeleteFunc(axes.Amounts(), func(axis string) bool { return !c.Has("matrix", axis) })
}

func (c *Checked) loopSaid() {
	items, names := c.named()
	for _, name := range names {
		item := items[name]
		own := ""
		for _, p := range plan.Patterns() {
			if item.Get(p.Key) != nil {
				own = p.Key
			}
		}
		switch amounts := c.amounts(); {
		case item.Get("loop") != nil && own != "":
			c.Report.Node(item.Key("loop"), "no-effect", "loads.%s.loop has no effect: %s says what makes its requests go", name, own)
		case item.Get("loop") == nil && own == "" && len(amounts) > 1:
			d := c.Report.Node(item.Get("name"), "missing", "the load %s does not say which loop it is, and the matrix has both %s", name, strings.Join(amounts, " and "))
			d.Expected = "loop: closed, which takes concurrency, or loop: open, which takes request_rate"
		}
	}
}

func (c *Checked) axesTaken() {
	if len(c.Each) < len(c.Plan.Loads) || len(c.Each) == 0 {
		return
	}
	for _, a := range c.Plan.Matrix.Axes {
		if a.Server || a.Name == plan.LoadAxis || slices.ContainsFunc(c.Each, func(e *Checked) bool { return e.Plan.Matrix.Axis(a.Name) != nil }) {
			continue
		}
		why := "each sets its own"
		if loop := plan.LoopOf(a.Name); loop != "" {
			why = "it is for loads of " + map[string]string{plan.LoopClosed: "a closed loop", plan.LoopOpen: "an open loop"}[loop] + " that do not set their own"
		} else if strings.HasPrefix(strings.Join(axes.Path(a.Name), "."), "load.prompts.") {
			why = "it is for synthetic prompts whose lengths the load does not set itself"
		}
		c.Report.Node(c.Key("matrix", a.Name), "no-effect", "no load takes the axis %s: %s", a.Name, why)
	}
	c.zipTaken()
}

// zipTaken holds that some load takes several axes of each group that is zipped.
func (c *Checked) zipTaken() {
	zip := c.Root.Get("matrix").Get("zip")
	if zip == nil || zip.Kind != syntax.List {
		return
	}
	for _, group := range zip.Items {
		taken := func(e *Checked) bool {
			n := 0
			for _, item := range group.Items {
				if e.Plan.Matrix.Axis(item.Text) != nil {
					n++
				}
			}
			return n > 1
		}
		known := !slices.ContainsFunc(group.Items, func(n *syntax.Node) bool { return c.Plan.Matrix.Axis(n.Text) == nil })
		if known && len(group.Items) > 1 && !slices.ContainsFunc(c.Each, taken) {
			c.Report.Node(group, "zip", "no load takes two of these axes: they cannot be zipped")
		}
	}
}

func (c *Checked) includeLoad() {
	_, names := c.named()
	for _, item := range c.Included() {
		n := item.Get(plan.LoadAxis)
		switch {
		case len(names) == 0: // the axes of the matrix are held elsewhere
		case n == nil:
			c.Report.Node(item, "missing", "this cell does not say of which load it is").Expected = "load: " + names[0]
		case !slices.Contains(names, n.Text):
			c.unknownLoad(n, names)
		}
	}
}

func (c *Checked) objectiveLoads() {
	_, names := c.named()
	for _, s := range c.Plan.SLO {
		n := c.Root.Get("slo").Get(s.Name).Get("loads")
		switch {
		case n == nil || n.Kind != syntax.List:
		case len(names) == 0 && c.Has("loads"): // reported
		case len(names) == 0:
			c.Ignored("the plan has one load", "leave it out, or write loads in place of load", "slo", s.Name, "loads")
		case len(n.Items) == 0:
			c.Ignored("it names no load", "leave it out for all loads", "slo", s.Name, "loads")
		default:
			for _, item := range n.Items {
				if item.Kind == syntax.String && !slices.Contains(names, item.Text) {
					c.unknownLoad(item, names)
				}
			}
		}
	}
}

func (c *Checked) unknownLoad(n *syntax.Node, names []string) {
	d := c.Report.Node(n, "unknown-load", "the plan has no load %q", n.Text)
	d.Expected = strict.OneOf(names)
	d.Nearest = syntax.Nearest(n.Text, names)
}
