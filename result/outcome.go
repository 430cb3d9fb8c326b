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

// A ClientHealth is how one of several clients of a load took part. Times are in
// milliseconds; nil is not known.
type ClientHealth struct {
	Client int `json:"client"` // from 0: the column shard of the requests table
	// Lost says why the client did not come to its end: its part of the load is missing.
	Lost     string `json:"lost,omitempty"`
	Requests int    `json:"requests"` // that it recorded
	SHA256   string `json:"sha256,omitempty"`

	LateMS           *float64 `json:"late_ms"`             // from the agreed moment until it began
	P99ScheduleLagMS *float64 `json:"p99_schedule_lag_ms"` // how late its requests were sent
	CPU              *float64 `json:"cpu"`                 // share of the CPUs it may use, 0 to 1
	ThrottledPeriods *int     `json:"throttled_periods"`   // in which the kernel held it at its CPU limit
	MaxStallMS       *float64 `json:"max_stall_ms"`

	// Offset was added to its times, known to OffsetError; Drift is by how much it had
	// changed after the load, known to DriftError; Wall is by how much its wall clock is
	// ahead of this machine's.
	OffsetMS      float64  `json:"offset_ms"`
	OffsetErrorMS float64  `json:"offset_error_ms"`
	DriftMS       *float64 `json:"drift_ms"`
	DriftErrorMS  *float64 `json:"drift_error_ms"`
	WallMS        float64  `json:"wall_ms"`

	// Nearest is the reason of INVALID whose bound it came nearest to or passed, and Share
	// what share of that bound it reached: above 1 is beyond it. Share is nil if the client
	// was lost or throttled, which have no bound but zero.
	Nearest string   `json:"nearest"`
	Share   *float64 `json:"share"`
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

	// Clients are those that sent the load together; nil if one process sent it alone.
	Clients []ClientHealth `json:"clients,omitempty"`

	Files []File `json:"files"` // every other file of the attempt
}
