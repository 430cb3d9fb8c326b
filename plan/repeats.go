package plan

// Repeats is how many trials each cell has, and which of them share a launch of
// their deployment's servers. A plan may write the number alone.
type Repeats struct {
	N      int    `yaml:"n,omitempty" doc:"Trials of each cell." default:"1" min:"1" max:"1000" unit:"trials"`
	Launch string `yaml:"launch,omitempty" doc:"Whether the trials of a cell share one launch of their deployment, or each trial has a launch of its own: trial 1 of all cells of a deployment runs on its first launch, trial 2 on its second. Then an interval over trials covers launches too." default:"same" enum:"same,each"`
}

// What Repeats.Launch may be.
const (
	LaunchSame = "same"
	LaunchEach = "each"
)

// Short is the key that a plan may leave out: a number alone is that of the trials.
func (Repeats) Short() string { return "n" }

// Most is how many trials a cell has at most, at least 1.
func (r Repeats) Most() int { return max(1, r.N) }

// Each says whether each trial of a cell has a launch of its own.
func (r Repeats) Each() bool { return r.Launch == LaunchEach }

// Launches is on how many launches a deployment measures trials that have n
// different numbers, while no server dies.
func (r Repeats) Launches(n int) int {
	if r.Each() {
		return n
	}
	return min(1, n)
}
