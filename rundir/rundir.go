// Package rundir is the run directory: its layout, its lock, the journal that
// is the only truth about a run, and the commit of trials.
package rundir

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/result"
)

// A Manifest is the first record of a journal: what this run is.
type Manifest struct {
	RunID      string    `json:"run_id"`
	Plan       string    `json:"plan"`        // the plan's name
	PlanPath   string    `json:"plan_path"`   // absolute, as given
	PlanDir    string    `json:"plan_dir"`    // what relative files resolve against
	PlanDigest string    `json:"plan_digest"` // of the resolved plan
	Set        []string  `json:"set,omitempty"`
	Only       string    `json:"only,omitempty"`
	Owner      string    `json:"owner"`
	Version    string    `json:"version"` // of sweep
	CreatedAt  time.Time `json:"created_at"`
	Trials     int       `json:"trials"` // planned
}

// A Key names one trial.
type Key struct {
	Cell  string `json:"cell"`
	Trial int    `json:"trial"` // from 1
}

// A Commit is a committed trial, as the journal has it.
type Commit struct {
	Key
	Attempt int    `json:"attempt"`
	Status  string `json:"status"`
	SHA256  string `json:"sha256"` // of result.json
	Digest  string `json:"spec_digest"`
}

// An Event is one line of the journal beside the commits: something that is
// about to happen or has happened. Type is snake_case; Data is any JSON object.
type Event struct {
	Seq  uint64          `json:"seq"`
	Time time.Time       `json:"time"`
	Type string          `json:"type"`
	Data json.RawMessage `json:"data,omitempty"`
}

// A State is what a journal says, replayed.
type State struct {
	Manifest  Manifest
	Committed map[Key]Commit
	// Attempts counts the attempts that were begun for each trial, committed
	// or not; the next one gets the next number.
	Attempts map[Key]int
	// Launches counts the launches of each deployment.
	Launches map[string]int
	// Owed is every pod that was intended and is not known to be gone.
	Owed     []Owed
	Finished bool // the last run of this directory ended by itself
	Events   []Event
	// Warning is what recovery had to repair, in words; "" for nothing.
	Warning string
}

// An Owed pod was intended, perhaps started, and is not known to be gone.
type Owed struct {
	Pod  string
	Kind string
	Ref  *backends.Ref // nil where only the intent is known
}

// A Dir is a run directory that this process has locked for writing. Its
// methods may be called concurrently.
type Dir struct{}

// Create makes a new run directory with its plan, its resolved plan and the
// first line of its journal, and locks it. It fails where dir exists and is
// not empty.
func Create(fx *effect.Effects, dir string, m Manifest, plan, resolved []byte) (*Dir, error) {
	panic("in work")
}

// Open locks an existing run directory and recovers it: it cuts a torn tail
// off the journal, adopts trials that were renamed but not journaled, and
// reports committed trials whose files no longer match. ErrLocked (with pid, host and
// start of the holder) where another process has it; ErrDamaged where the
// journal is broken in its middle.
func Open(fx *effect.Effects, dir string) (*Dir, *State, error) { panic("in work") }

// Read replays a journal without locking or changing anything, also while a
// run is writing it.
func Read(dir string) (*State, error) { panic("in work") }

// Append writes one event, durably.
func (d *Dir) Append(ctx context.Context, typ string, data any) error { panic("in work") }

// LaunchDir makes deployments/<id>/lNN/ and returns its path.
func (d *Dir) LaunchDir(deployment string, n int) (string, error) { panic("in work") }

// Begin starts an attempt: journals it, and makes a temporary folder for its files.
func (d *Dir) Begin(ctx context.Context, k Key, attempt int) (*Attempt, error) { panic("in work") }

// An Attempt is one attempt at a trial that is being written.
type Attempt struct{}

// Create makes a file of the attempt; closing it makes it durable.
func (a *Attempt) Create(name string) (io.WriteCloser, error) { panic("in work") }

// Commit writes result.json with the digests of all other files, makes the
// folder durable under its final name cells/<cell>/tNN/aNN and journals the commit. After it returns nil
// the trial survives anything.
func (a *Attempt) Commit(ctx context.Context, o *result.Outcome, digest string) error {
	panic("in work")
}

// Discard journals that the attempt does not count and removes its files.
func (a *Attempt) Discard(ctx context.Context, reason string) error { panic("in work") }

// Derive writes one derived file atomically.
func (d *Dir) Derive(name string, write func(io.Writer) error) error { panic("in work") }

// Ledger is the pods' ledger of this run, for backends.
func (d *Dir) Ledger() backends.Ledger { panic("in work") }

// Close releases the lock.
func (d *Dir) Close() error { panic("in work") }

// Outcome reads the result.json of a committed trial and verifies it.
func Outcome(dir string, c Commit) (*result.Outcome, error) { panic("in work") }

// AttemptDir is the folder of a committed attempt.
func AttemptDir(dir string, c Commit) string { panic("in work") }
