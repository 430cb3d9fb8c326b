package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"sweep.dev/sweep/internal/layout"
)

// Types of events. The first group is written by this package alone; the
// second is what a run appends and State.Finished and State.Reused are read from.
const (
	typeCreated     = "run_created"
	typeLaunch      = "launch"
	typeBegun       = "trial_begun"
	typeDiscarded   = "trial_discarded"
	typeCommitted   = "trial_committed"
	typePod         = "pod"
	typeRunStarted  = "run_started"
	typeRunFinished = "run_finished"
	typeReused      = "reused"
	typeAdded       = "trials_added"
	typeAnswered    = "quality_answered"
)

func reserved(typ string) bool {
	return slices.Contains([]string{
		typeCreated, typeLaunch, typeBegun, typeDiscarded,
		typeCommitted, typePod, typeAdded, typeAnswered,
	}, typ)
}

// A State is what a journal says, replayed.
type State struct {
	Manifest  Manifest
	Committed map[Key]Commit
	// Added are the trials that the run has beyond those of its plan, in the order in which they
	// were added.
	Added []Key
	// Attempts is the highest attempt that was begun for each trial, committed
	// or not; the next one gets the next number.
	Attempts map[Key]int
	// Pending are the attempts that were begun and neither committed nor
	// discarded: of a run that is being made, or that died. Empty after Open.
	Pending []AttemptKey
	// Launches counts the launches of each deployment.
	Launches map[string]int
	// answers are the digests of what launches answered to quality prompts, by their
	// deployment and number, see [State.Untouched].
	answers map[string]map[int]string
	// Owed is every pod that was intended and is not known to be gone.
	Owed []Owed
	// SpentUSD is what the pods that are gone have cost, by their prices.
	SpentUSD float64
	Finished bool // the last run of this directory ended by itself: run_finished follows the last run_started
	// Ending is how it ended; nil unless Finished.
	Ending *Ending
	Reused bool    // everything of Manifest.Reuse is taken over
	Events []Event // every line, in order

	// Broken are the trials whose last commit is journaled and whose files do
	// not match it any more. They are not in Committed. Only Open looks.
	Broken []Broken
	// Adopted are the attempts that this Open found finished but not journaled.
	Adopted []Commit
	// Warning is what recovery had to repair and what is Broken, in words; ""
	// for nothing.
	Warning string
}

// ClassBudget is the class of an end by the budget of the run.
const ClassBudget = "budget"

// An Ending is what a run that ended by itself says of it.
type Ending struct {
	Total int    `json:"total"`       // trials, done or not
	Class string `json:"error_class"` // "" for a run that was not cut short
}

// Planned returns how many trials the run has, with those that were added. Of searches, which
// choose theirs, it is what they have asked for: one more than were done while that is not
// known.
func (s *State) Planned() int {
	done := len(s.Committed)
	switch {
	case s.Manifest.Searches == 0:
		return s.Manifest.Trials + len(s.Added)
	case s.Ending != nil:
		return max(done, s.Ending.Total)
	}
	return done + 1
}

// A Broken trial was committed, and its files have been changed since.
type Broken struct {
	Commit
	Reason string
}

// AddedTo returns the numbers of the trials of a cell beyond those of its plan.
func (s *State) AddedTo(cell string) (numbers []int) {
	for _, k := range s.Added {
		if k.Cell == cell {
			numbers = append(numbers, k.Trial)
		}
	}
	return numbers
}

// An added is the data of a trials_added event.
type added struct {
	Trials []Key `json:"trials"`
}

// A discard is the data of a trial_discarded event.
type discard struct {
	AttemptKey
	Reason string `json:"reason"`
}

// Read replays a journal without locking or changing anything, also while a
// run is writing it: a line that is just being written is not there yet.
func Read(dir string) (*State, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, noRun(dir, err)
	}
	defer root.Close() // read only
	data, err := root.ReadFile(layout.Journal)
	if err != nil {
		return nil, noRun(dir, err)
	}
	st, s, err := replay(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, layout.Journal), err)
	}
	if s.torn > 0 && s.why != errIncomplete.Error() {
		st.Warning = s.warning()
	}
	return st, nil
}

// noRun is ErrNoRun where the error is that something does not exist.
func noRun(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", dir, ErrNoRun)
	}
	return err
}

func (s *scanned) warning() string {
	return fmt.Sprintf("the journal's last %d bytes are not a whole line (%s)", s.torn, s.why)
}

// replay makes the State of a journal's bytes.
func replay(data []byte) (*State, scanned, error) {
	s, err := scan(data)
	if err != nil {
		return nil, s, err
	}
	if len(s.events) == 0 {
		return nil, s, ErrNoRun
	}
	r := newReplayer()
	offset := int64(0)
	for _, e := range s.events {
		if err := r.apply(e); err != nil {
			return nil, s, &DamagedError{offset, fmt.Sprintf("line %d (%s): %v", e.Seq, e.Type, err)}
		}
		offset += lineLength(data[offset:])
	}
	return r.state(s.events), s, nil
}

func lineLength(data []byte) int64 { return int64(bytes.IndexByte(data, '\n')) + 1 }

// A replayer gathers what lines say.
type replayer struct {
	st      State
	commits map[Key][]Commit // in order; the last one counts
	pending []AttemptKey
	owed    []Owed
}

func newReplayer() *replayer {
	return &replayer{
		st: State{
			Committed: map[Key]Commit{},
			Attempts:  map[Key]int{},
			Launches:  map[string]int{},
			answers:   map[string]map[int]string{},
		},
		commits: map[Key][]Commit{},
	}
}

// into decodes an event's data.
func into[T any](e Event) (v T, err error) {
	if string(e.Data) == "null" {
		return v, errors.New("its data is null, want an object")
	}
	if err = json.Unmarshal(e.Data, &v); err != nil {
		err = fmt.Errorf("its data does not decode: %w", err)
	}
	return v, err
}

func (r *replayer) apply(e Event) error {
	if first := e.Seq == 1; first != (e.Type == typeCreated) {
		return errors.New("run_created is the first line and no other")
	}
	var err error
	switch e.Type {
	case typeCreated:
		r.st.Manifest, err = into[Manifest](e)
	case typeLaunch:
		var l launch
		l, err = into[launch](e)
		r.st.Launches[l.Deployment] = max(r.st.Launches[l.Deployment], l.N)
	case typeBegun:
		var a AttemptKey
		if a, err = into[AttemptKey](e); err == nil {
			r.begun(a)
		}
	case typeDiscarded:
		var d discard
		if d, err = into[discard](e); err == nil {
			r.discarded(d.AttemptKey)
		}
	case typeCommitted:
		var c Commit
		if c, err = into[Commit](e); err == nil {
			r.committed(c)
		}
	case typePod:
		err = r.pod(e)
	case typeRunStarted:
		r.st.Finished, r.st.Ending = false, nil
	case typeRunFinished:
		var last Ending
		if len(e.Data) > 0 {
			last, err = into[Ending](e)
		}
		r.st.Finished, r.st.Ending = true, &last
	case typeReused:
		r.st.Reused = true
	case typeAdded:
		var a added
		a, err = into[added](e)
		r.st.Added = append(r.st.Added, a.Trials...)
	case typeAnswered:
		var a answered
		a, err = into[answered](e)
		r.answered(a)
	}
	return err
}

func (r *replayer) answered(a answered) {
	if r.st.answers[a.Deployment] == nil {
		r.st.answers[a.Deployment] = map[int]string{}
	}
	r.st.answers[a.Deployment][a.N] = a.SHA256
}

func (r *replayer) begun(a AttemptKey) {
	r.st.Attempts[a.Key] = max(r.st.Attempts[a.Key], a.Attempt)
	r.pending = append(r.pending, a)
}

func (r *replayer) settle(a AttemptKey) {
	r.pending = slices.DeleteFunc(r.pending, func(p AttemptKey) bool { return p == a })
}

// discarded may name an attempt whose commit line is there too: the line became
// durable although its write returned an error.
func (r *replayer) discarded(a AttemptKey) {
	r.settle(a)
	r.commits[a.Key] = slices.DeleteFunc(r.commits[a.Key], func(c Commit) bool { return c.Attempt == a.Attempt })
}

func (r *replayer) committed(c Commit) {
	r.settle(AttemptKey{c.Key, c.Attempt})
	r.st.Attempts[c.Key] = max(r.st.Attempts[c.Key], c.Attempt)
	r.commits[c.Key] = append(r.commits[c.Key], c)
}

func (r *replayer) state(events []Event) *State {
	st := r.st
	for k, commits := range r.commits {
		if n := len(commits); n > 0 {
			st.Committed[k] = commits[n-1]
		}
	}
	st.Pending, st.Owed, st.Events = r.pending, r.owed, events
	return &st
}
