package executor

import (
	"time"

	"sweep.dev/sweep/load"
)

// An Event is one thing that happened in a run, for people and for --events.
// Fields that do not apply are empty.
type Event struct {
	Time       time.Time `json:"time"`
	Type       EventType `json:"type"`
	Deployment string    `json:"deployment,omitempty"`
	Launch     int       `json:"launch,omitempty"`
	Cell       string    `json:"cell,omitempty"`
	Trial      int       `json:"trial,omitempty"`
	Attempt    int       `json:"attempt,omitempty"`
	Step       string    `json:"step,omitempty"`
	Label      string    `json:"label,omitempty"` // the deployment or cell in a person's words
	Status     string    `json:"status,omitempty"`
	Class      string    `json:"error_class,omitempty"`
	Error      string    `json:"error,omitempty"`
	Text       string    `json:"text,omitempty"`
	Done       int       `json:"done,omitempty"`  // trials with an outcome
	Total      int       `json:"total,omitempty"` // trials of this run

	Row      map[string]any `json:"row,omitempty"` // trial_committed
	Progress *load.Progress `json:"progress,omitempty"`
	Spending *Spending      `json:"spending,omitempty"` // money
}

// An EventType names a kind of event.
type EventType string

// The events, in the order in which a run has them.
const (
	RunStarted        EventType = "run_started"
	DeploymentStarted EventType = "deployment_started"
	StepStarted       EventType = "step"
	Waiting           EventType = "waiting" // a server is not ready: its last answer, when that changes; never journaled
	ServerReady       EventType = "server_ready"
	TrialStarted      EventType = "trial_started"
	TrialProgress     EventType = "trial_progress" // about four times a second, never journaled
	TrialDiscarded    EventType = "trial_discarded"
	TrialCommitted    EventType = "trial_committed"
	ServerDied        EventType = "server_died"
	LaunchFailed      EventType = "launch_failed"
	PodKept           EventType = "pod_kept"
	DeploymentStopped EventType = "deployment_stopped"
	Notice            EventType = "notice"
	Money             EventType = "money" // every few seconds while something is rented, never journaled
	RunFinished       EventType = "run_finished"
)
