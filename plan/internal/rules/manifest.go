package rules

import (
	"errors"

	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/plan/internal/strict"
)

// manifests holds the axes of manifests against what the backend applies.
func (c *Checked) manifests() {
	for _, a := range c.Plan.Matrix.Axes {
		kind, _ := axes.Lookup(a.Name)
		switch {
		case kind.Manifest == "":
		case c.Manifests == nil:
			if c.Backend.Kind != "" && !c.Has("backend", "manifests") {
				c.Ignored("the backend applies no manifests", "name them: backend: {kind: kubernetes, manifests: [stack.yaml], ...}", "matrix", a.Name)
			}
		default:
			c.manifestAxis(a.Name, kind.Manifest)
		}
	}
}

func (c *Checked) manifestAxis(axis, path string) {
	at, err := c.Manifests.Find(path)
	if unknown, ok := errors.AsType[*manifest.Unknown](err); ok {
		d := c.Report.Node(c.Key("matrix", axis), "manifest-path", "%v", err)
		d.Expected = strict.OneOf(unknown.Known)
		if unknown.Nearest != "" {
			d.Nearest = "manifest." + unknown.Nearest
		}
		return
	}
	for _, v := range c.Plan.Matrix.Axis(axis).Values {
		if _, err := at.Fit(v); err != nil {
			d := c.Report.Node(c.Key("matrix", axis), "type", "%s cannot be %v: %v", axis, v, err)
			d.Hint = "a value keeps the type of what it replaces"
		}
	}
}
