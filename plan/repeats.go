package plan

import (
	"cmp"
	"fmt"

	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/objective"
)

// Repeats is how many trials each cell has, and which of them share a launch of
// their deployment's servers. A plan may write the number alone.
type Repeats struct {
	// N is 0 where Until is given.
	N      int           `yaml:"n,omitempty" doc:"Trials of each cell. Give either n, or until with max." default:"1" min:"1" max:"1000" unit:"trials" example:"5"`
	Launch string        `yaml:"launch,omitempty" doc:"same: the trials of a cell share one launch of their deployment. each: every trial number has its own launch, so trial 1 of all cells runs on the first launch and trial 2 on the second, and an interval over trials covers launches too." default:"same" enum:"same,each" example:"each"`
	Min    int           `yaml:"min,omitempty" doc:"With until: fewest valid trials of a cell." default:"3" min:"3" max:"1000" unit:"trials" example:"3"`
	Max    int           `yaml:"max,omitempty" doc:"With until: most trials of a cell." min:"4" max:"1000" unit:"trials" example:"10"`
	Until  *RepeatsUntil `yaml:"until,omitempty" doc:"Run no more trials of a cell once the mean of a metric over them is known well enough. max is then their cap." default:"none" example:"{metric: throughput_tok_s, within: 3%}"`
}

// RepeatsUntil ends the trials of a cell once the mean of a metric over them is known
// well enough.
type RepeatsUntil struct {
	Metric string  `yaml:"metric,omitempty" doc:"The metric whose mean over the trials is measured: throughput_tok_s, or the mean of a latency in each trial." enum:"ttft_ms,tpot_ms,itl_ms,e2e_ms,throughput_tok_s" example:"throughput_tok_s"`
	Within float64 `yaml:"within,omitempty" doc:"Half width of the mean's confidence interval, as a share of the mean, at which no more trials are run." gt:"0" lt:"1" unit:"ratio" example:"3%"`
	// Confidence is 0 where the plan leaves it to its own.
	Confidence float64 `yaml:"confidence,omitempty" doc:"Confidence of the interval." default:"the plan's confidence" gt:"0" lt:"1" unit:"ratio" example:"99%"`
}

// The values of Repeats.Launch.
const (
	LaunchSame = "same"
	LaunchEach = "each"
)

// LeastTrials is the default of Repeats.Min: two trials say nothing of how far a third
// may be from them.
const LeastTrials = 3

// Short returns the key that a plan may leave out: a number alone is that of the trials.
func (Repeats) Short() string { return "n" }

// Most returns how many trials a cell has at most, at least 1.
func (r Repeats) Most() int {
	if r.Until != nil {
		return max(1, r.Max)
	}
	return max(1, r.N)
}

// Each reports whether each trial of a cell has a launch of its own.
func (r Repeats) Each() bool { return r.Launch == LaunchEach }

// Launches is on how many launches a deployment measures trials that have n
// different numbers, while no server dies.
func (r Repeats) Launches(n int) int {
	if r.Each() {
		return n
	}
	return min(1, n)
}

// Column returns that of the cells table with the metric of one trial.
func (u *RepeatsUntil) Column() string {
	if u.Metric == col.ThroughputTokS {
		return u.Metric
	}
	return "mean_" + u.Metric
}

// TrialConfidence returns that of the interval of Repeats.Until.
func (p *Plan) TrialConfidence() float64 {
	return cmp.Or(p.Repeats.Until.Confidence, p.Confidence, objective.Confidence)
}

// Compare says that the values of a server axis are held against one of them.
type Compare struct {
	Axis     string `yaml:"axis" doc:"Server axis whose values are compared." example:"engine"`
	Baseline string `yaml:"baseline" scalar:"allowed" doc:"Value of the axis that the others are held against." example:"vllm"`
}

// Base reports whether a cell has the baseline.
func (c *Compare) Base(cell Cell) bool {
	for _, s := range cell.Settings {
		if s.Axis.Name == c.Axis {
			return fmt.Sprint(s.Value) == c.Baseline
		}
	}
	return false
}
