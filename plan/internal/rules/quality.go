package rules

import (
	"fmt"
	"slices"

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
		c.unmeasured(ofQuality, "the plan has no quality", "write quality: {file: short-answers.jsonl}")
		return
	}
	section := c.Root.Get("quality")
	for _, e := range file.Entries(section.Get("body")) {
		if slices.Contains(setForQuality, e.Key.Text) {
			c.Report.Node(e.Key, "reserved", "sweep sets %s of every request of quality itself", e.Key.Text)
		}
	}
	if section != nil && section.Kind == syntax.Map && section.Get("file") == nil && section.Get("lm_eval") == nil && !c.Mistyped["quality.file"] && !c.Mistyped["quality.lm_eval"] {
		c.Missing("quality has no file", "file: short-answers.jsonl, or lm_eval", "quality")
	}
	c.lmEval(section.Get("lm_eval"))
	baseline := section.Get("baseline")
	if baseline != nil && baseline.Kind == syntax.Map && len(baseline.Entries) == 0 {
		c.Missing("quality.baseline has no value", "for example {engine: vllm}", "quality", "baseline")
	}
	several := false
	for _, e := range file.Entries(baseline) {
		several = c.serverValue(e, c.Plan.Quality.Baseline[e.Key.Text]) || several
	}
	if len(file.Entries(baseline)) > 0 && !several && c.Report.Len() == 0 {
		c.Report.Node(baseline, "no-effect", "each of these axes has one value: there is nothing to compare")
	}
}

// lmEval holds what files of lm-eval are of against the matrix.
func (c *Checked) lmEval(n *syntax.Node) {
	l := c.Plan.Quality.LMEval
	items := c.lmFiles(n)
	if files := n.Get("files"); files != nil && files.Kind == syntax.List && len(files.Items) == 0 {
		c.Report.Node(files, "missing", "quality.lm_eval.files has no file").Expected = "for example [{of: {engine: vllm}, file: vllm/samples_gsm8k.jsonl}]"
	}
	for i, item := range items {
		of := item.Get("of")
		if of == nil || of.Kind == syntax.Map && len(of.Entries) == 0 {
			c.Report.Node(item, "missing", "this file of lm-eval is of no deployment").Expected = "for example of: {engine: vllm}"
		}
		if item.Get("file") == nil {
			c.Report.Node(item, "missing", "no file").Expected = "for example file: vllm/samples_gsm8k.jsonl"
		}
		for _, e := range file.Entries(of) {
			c.serverValue(e, l.Files[i].Of[e.Key.Text])
		}
	}
}

// lmFiles returns the entries of quality.lm_eval.files; nil if they were not all read.
func (c *Checked) lmFiles(lmEval *syntax.Node) []*syntax.Node {
	n := lmEval.Get("files")
	if n == nil || n.Kind != syntax.List || len(n.Items) != len(c.Plan.Quality.LMEval.Files) {
		return nil
	}
	for _, item := range n.Items {
		if item.Kind != syntax.Map {
			return nil
		}
	}
	return n.Items
}

// qualityFiles holds the files of lm-eval against the cells.
func (c *Checked) qualityFiles() {
	q := c.Plan.Quality
	if q == nil || q.LMEval == nil {
		return
	}
	items := c.lmFiles(c.Root.Get("quality").Get("lm_eval"))
	used, told := make([]bool, len(items)), make([]bool, len(items))
	for _, cell := range c.Cells {
		first := -1
		for i := range items {
			switch {
			case !q.LMEval.Files[i].Has(cell):
			case first < 0:
				first, used[i] = i, true
			case !told[i]:
				used[i], told[i] = true, true
				c.Report.Node(items[i], "conflict", "a deployment of this file has file %d of quality.lm_eval too", first+1).Hint = "name more axes in of, so that each deployment has one file"
			}
		}
	}
	for i, yes := range used {
		if !yes {
			c.Report.Node(items[i], "no-effect", "no deployment of this matrix has all values of this file").Hint = "leave the file out, or correct of"
		}
	}
}

// serverValue holds one value of a server axis against the matrix, and says whether the
// axis has several.
func (c *Checked) serverValue(e syntax.Entry, value any) bool {
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
	if want := fmt.Sprint(value); !slices.Contains(values, want) {
		d := c.Report.Node(e.Value, "value", "%q is no value of %s in this matrix", want, a.Name)
		d.Expected, d.Nearest = strict.OneOf(values), syntax.Nearest(want, values)
	}
	return len(values) > 1
}
