package rules

import (
	"fmt"
	"strings"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/plan/internal/strict"
)

func (c *Checked) gpus() {
	if c.Plan.Matrix.Axis("gpu") == nil || c.Backend.Kind == "" {
		return
	}
	known := make(map[string]bool, len(c.GPUs))
	for _, n := range c.GPUs {
		known[n] = true
	}
	for _, n := range c.Values("gpu") {
		switch name := n.Text; {
		case n.Kind != syntax.String || strings.TrimSpace(name) == "" || strings.Contains(name, "${"): // reported
		case c.Backend.FreeGPU:
			if len(name) > 64 || strings.ContainsAny(name, "\n\t\r") {
				c.Report.Node(n, "value", "the label %.20q... of a GPU is longer than 64 bytes or more than a line", name)
			}
		case !known[name]:
			d := c.Report.Node(n, "unknown-gpu", "there is no GPU %q in the catalogue", name)
			d.Nearest = syntax.Nearest(name, c.GPUs)
			d.Expected = strict.OneOf(c.GPUs)
			d.Hint = "sweep list gpus lists them with what they are"
		}
	}
}

func (c *Checked) zip() {
	zip := c.Root.Get("matrix").Get("zip")
	if zip == nil || zip.Kind != syntax.List {
		return
	}
	used := make(map[string]bool)
	for _, group := range zip.Items {
		length, first := 0, ""
		if group.Kind == syntax.List && len(group.Items) < 2 {
			c.Report.Node(group, "zip", "a zip of fewer than two axes has no effect").Expected = "for example zip: [[input_tokens, max_tokens]]"
		}
		for _, item := range group.Items {
			a := c.Plan.Matrix.Axis(item.Text)
			switch {
			case a == nil:
				d := c.Report.Node(item, "unknown-axis", "%q is no axis of this matrix", item.Text)
				d.Expected = strict.OneOf(c.Plan.Matrix.Names())
				d.Nearest = syntax.Nearest(item.Text, c.Plan.Matrix.Names())
				continue
			case used[item.Text]:
				c.Report.Node(item, "zip", "the axis %s is zipped twice", item.Text)
			case first == "":
				length, first = len(a.Values), a.Name
			case len(a.Values) != length:
				c.Report.Node(item, "zip", "%s has %d values and %s has %d: they cannot be zipped", a.Name, len(a.Values), first, length)
			}
			used[item.Text] = true
		}
	}
}

func (c *Checked) axesOfLoad() {
	for _, axis := range axes.Names() {
		if keys := axes.Path(axis); keys != nil && c.Has("matrix", axis) && c.Has(keys...) {
			c.alsoAxis(keys...)
		}
	}
}

// include holds the values of included cells against the axes' own: they are one
// column.
func (c *Checked) include() {
	for i, values := range c.Plan.Matrix.Include {
		for _, a := range c.Plan.Matrix.Axes {
			v, ok := values[a.Name]
			if first, mine := fmt.Sprintf("%T", a.Values[0]), fmt.Sprintf("%T", v); ok && mine != first && (first != "float64" || mine != "int64") {
				c.Report.Node(c.Included()[i], "type", "%s is %v here and another type in the matrix", a.Name, v)
			}
		}
	}
}
