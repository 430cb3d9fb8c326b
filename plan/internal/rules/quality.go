package rules

import (
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan/internal/file"
	"sweep.dev/sweep/plan/internal/strict"
)

// ofQuality begins the names of the columns that only a plan with quality has.
const ofQuality = "quality_"

// setForQuality are the fields of a body that plan.quality decides.
var setForQuality = []string{"model", "messages", "prompt", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "n"}

// quality holds the body and the baseline of quality against the plan, and the
// objectives of a plan without quality.
func (c *Checked) quality() {
	if c.Plan.Quality == nil {
		for _, s := range c.Plan.SLO {
			for _, name := range s.Reads() {
				if strings.HasPrefix(name, ofQuality) {
					c.Report.Node(c.Objective(s.Name), "no-effect", "%s is never measured: the plan has no quality", name).Hint = "write quality: {file: short-answers.jsonl}"
				}
			}
		}
		return
	}
	section := c.Root.Get("quality")
	for _, e := range file.Entries(section.Get("body")) {
		if slices.Contains(setForQuality, e.Key.Text) {
			c.Report.Node(e.Key, "reserved", "sweep sets %s of every request of quality itself", e.Key.Text)
		}
	}
	baseline := section.Get("baseline")
	if baseline != nil && baseline.Kind == syntax.Map && len(baseline.Entries) == 0 {
		c.Missing("quality.baseline has no value", "for example {engine: vllm}", "quality", "baseline")
	}
	several := false
	for _, e := range file.Entries(baseline) {
		several = c.baseline(e) || several
	}
	if len(file.Entries(baseline)) > 0 && !several && c.Report.Len() == 0 {
		c.Report.Node(baseline, "no-effect", "each of these axes has one value: there is nothing to compare")
	}
}

// baseline holds one axis of the baseline against the matrix, and says whether it has
// several values.
func (c *Checked) baseline(e syntax.Entry) bool {
	var servers []string
	for _, a := range c.Plan.Matrix.Axes {
		if a.Server {
			servers = append(servers, a.Name)
		}
	}
	a := c.Plan.Matrix.Axis(e.Key.Text)
	if a == nil || !a.Server {
		d := c.Report.Node(e.Key, "unknown-axis", "%q is no server axis of this matrix", e.Key.Text)
		d.Expected, d.Nearest = strict.OneOf(servers), syntax.Nearest(e.Key.Text, servers)
		return true
	}
	var values []string
	for _, v := range a.Values {
		values = append(values, fmt.Sprint(v))
	}
	if want := fmt.Sprint(c.Plan.Quality.Baseline[e.Key.Text]); !slices.Contains(values, want) {
		d := c.Report.Node(e.Value, "value", "%q is no value of %s in this matrix", want, a.Name)
		d.Expected, d.Nearest = strict.OneOf(values), syntax.Nearest(want, values)
	}
	return len(values) > 1
}
