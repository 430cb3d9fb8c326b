package executor

import (
	"strings"

	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan"
)

// Label returns a cell in a person's words.
func Label(c plan.Cell) string {
	return words(c.Settings, func(plan.Axis) bool { return true })
}

// ServerLabel returns a deployment in a person's words: its server axes.
func ServerLabel(d plan.Deployment) string {
	return words(d.Cells[0].Settings, func(a plan.Axis) bool { return a.Server })
}

// LoadLabel returns what a cell adds to the words of its deployment; all of its words if
// that is nothing.
func LoadLabel(c plan.Cell) string {
	if text := words(c.Settings, func(a plan.Axis) bool { return !a.Server }); text != "" {
		return text
	}
	return Label(c)
}

// words are on one line that does nothing on a terminal: a plan may be a
// stranger's.
func words(settings []plan.Setting, want func(plan.Axis) bool) string {
	var parts []string
	for _, s := range settings {
		if want(*s.Axis) {
			parts = append(parts, s.String())
		}
	}
	return plaintext.Line(strings.Join(parts, " "))
}
