package result

import (
	"time"

	"sweep.dev/sweep/result/finding"
)

// A Row is one row of the cells table: column name to value. A value is nil
// (not measured), string, bool, int64, float64 or time.Time, as the column's
// type says. Names that are not in the registry are not allowed.
type Row map[string]any

// LoadAxis is the axis of the named loads of a plan, and its column.
const LoadAxis = "load"

// Trial statuses. A trial that was interrupted has no outcome at all.
const (
	StatusOK      = "ok"
	StatusFailed  = "failed"
	StatusInvalid = "invalid" // measured, but the numbers must not be used
	StatusSkipped = "skipped"
)

// Sources of the price of a deployment: the values of price_source.
const (
	PriceProvider  = "provider"  // what is billed for a rented pod
	PricePlan      = "plan"      // prices of the plan
	PriceConfig    = "config"    // prices of the user's configuration
	PriceCatalogue = "catalogue" // the list price
)

// A Finding is one thing a person should know about a trial, with the numbers
// it rests on.
type Finding struct {
	Code finding.Code `json:"code"`
	Text string       `json:"text"`
}

// A File is one file of a committed attempt.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// An Outcome is all that is known of one attempt at one trial; it is what
// result.json holds and what is committed.
type Outcome struct {
	CellID  string `json:"cell_id"`
	Trial   int    `json:"trial"`   // from 1
	Attempt int    `json:"attempt"` // from 1

	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`

	// StartFailure: the server never became ready, so nothing was measured.
	StartFailure bool `json:"start_failure,omitempty"`

	Row Row `json:"row"`

	Invalid  []Finding   `json:"invalid,omitempty"`  // reasons for INVALID, in words
	Findings []Finding   `json:"findings,omitempty"` // everything else worth saying
	SLOs     []SLOResult `json:"slos,omitempty"`
	LogTail  []string    `json:"log_tail,omitempty"` // the server's last lines, where it failed

	Files []File `json:"files"` // every other file of the attempt
}
