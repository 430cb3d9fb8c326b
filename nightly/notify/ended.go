package notify

import (
	"fmt"
	"strings"
	"time"
)

// Event is the value of Ended.Event.
const Event = "run_finished"

// Ended is how a run ended, and the body of a request in the format json. A pointer
// is nil if the value is not known: a run that ended before its tables were written
// has no counts.
type Ended struct {
	Event      string      `json:"event"` // run_finished
	Plan       string      `json:"plan"`
	Run        string      `json:"run"`    // the name of its directory
	RunID      string      `json:"run_id"` // of the journal
	Exit       int         `json:"exit"`   // the exit code
	Ending     string      `json:"ending"` // the exit code in a few words
	StartedAt  time.Time   `json:"started_at"`
	FinishedAt time.Time   `json:"finished_at"`
	Trials     *Trials     `json:"trials"`
	Objectives *Objectives `json:"objectives"`
	CostUSD    *float64    `json:"cost_usd"` // of rented servers, until now
	Sweep      string      `json:"sweep"`    // the version
}

// Trials are how many trials a run has, by their status.
type Trials struct {
	Planned int `json:"planned"`
	Valid   int `json:"valid"`
	Invalid int `json:"invalid"`
	Failed  int `json:"failed"`
}

// Objectives are how many objectives of cells were not met, and how many were not
// decided. Those that only warn are not counted.
type Objectives struct {
	Failed    int `json:"failed"`
	Undecided int `json:"undecided"`
	Unchecked int `json:"unchecked"`
}

// escapes are those of Slack's texts.
var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Text returns how the run ended in a line, as Slack takes it.
func (e Ended) Text() string {
	parts := []string{fmt.Sprintf("sweep %s: exit %d (%s)", e.Plan, e.Exit, e.Ending)}
	if t := e.Trials; t != nil {
		parts = append(parts, fmt.Sprintf("%d of %d trials valid", t.Valid, t.Planned))
	}
	if o := e.Objectives; o != nil && o.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d objectives failed", o.Failed))
	}
	if e.CostUSD != nil {
		parts = append(parts, fmt.Sprintf("about $%.2f", *e.CostUSD))
	}
	return escapes.Replace(strings.Join(append(parts, "run "+e.Run), ", "))
}
