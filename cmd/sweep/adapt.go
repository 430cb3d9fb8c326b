package main

import (
	"fmt"
	"time"

	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/search/adapt"
)

// An adaptJSON is how many cells of a deployment a plan with adapt measures.
type adaptJSON struct {
	Expected int `json:"expected_cells"` // of curves that rise with the load and saturate
	Most     int `json:"most_cells"`
}

// adapted is how many cells of a deployment are measured; nil without adapt.
func adapted(p *plan.Plan, d plan.Deployment) *adaptJSON {
	if p.Adapt == nil {
		return nil
	}
	a := &adaptJSON{Most: len(d.Cells)}
	for _, c := range executor.Curves(p, d.Cells) {
		a.Expected += adapt.Expected(c.Settings)
	}
	return a
}

// adaptedTime is how much of the time of all trials of a deployment those of the expected
// cells take.
func adaptedTime(p *plan.Plan, d plan.Deployment, all time.Duration) time.Duration {
	a := adapted(p, d)
	if a == nil || a.Most == 0 {
		return all
	}
	return all * time.Duration(a.Expected) / time.Duration(a.Most)
}

// adapted is the same of all deployments, in words; "" without adapt.
func (p planned) adapted() string {
	if p.plan.Adapt == nil {
		return ""
	}
	expected, most := 0, 0
	for _, d := range p.deployments {
		a := adapted(p.plan, d)
		expected, most = expected+a.Expected, most+a.Most
	}
	return fmt.Sprintf("adapt measures about %d of %s, if they saturate, and at most all", expected, humanize.Plural(most, "cell"))
}
