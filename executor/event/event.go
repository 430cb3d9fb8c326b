// Package event defines the events of a run: for people, for --events, and some of
// them for the journal.
package event

import (
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
)

// An Event is one thing that happened in a run, for people and for --events.
// Fields that do not apply are empty.
type Event struct {
	Time       time.Time `json:"time"`
	Type       Type      `json:"type"`
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

	Row      map[string]any  `json:"row,omitempty"` // trial_committed
	Outcome  *result.Outcome `json:"-"`             // the same, with what the row does not have
	Progress *load.Progress  `json:"progress,omitempty"`
	Spending *Spending       `json:"spending,omitempty"` // money
}

// A Type names a kind of event.
type Type string

// The events, in the order in which a run has them.
const (
	RunStarted        Type = "run_started"
	DeploymentStarted Type = "deployment_started"
	StepStarted       Type = "step"
	Waiting           Type = "waiting" // a server is not ready: its last answer, when that changes; never journaled
	ServerReady       Type = "server_ready"
	TrialStarted      Type = "trial_started"
	TrialProgress     Type = "trial_progress" // about four times a second, never journaled
	TrialDiscarded    Type = "trial_discarded"
	TrialCommitted    Type = "trial_committed"
	ServerDied        Type = "server_died"
	LaunchFailed      Type = "launch_failed"
	PodKept           Type = "pod_kept"
	DeploymentStopped Type = "deployment_stopped"
	Notice            Type = "notice"
	Money             Type = "money" // every few seconds while something is rented, never journaled
	RunFinished       Type = "run_finished"
)

// Spending is what a run costs at one moment.
type Spending struct {
	Pods       int     `json:"pods"`
	USDPerHour float64 `json:"usd_per_hour"`
	USD        float64 `json:"usd"` // until now, all pods of the run directory
	MaxUSD     float64 `json:"max_usd,omitempty"`
}
