package podledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/rundir"
)

// A Run is whose pods an entry is about.
type Run struct {
	ID    string
	Owner string
	Dir   string // the run directory, absolute
}

// An Entry is one pod that is owed: where it stands, and for whom.
type Entry struct {
	RunID  string
	Owner  string
	Dir    string // the run directory, absolute; it may be gone
	Digest string // Spec.Digest: what a kept pod is adopted by; "" if it is not known
	// Former are the runs that had the pod before this one took it over.
	Former []string
	rundir.Owed

	file string
	raw  string // what the file said
}

// Find returns the ref by which a backend finds the pod.
func (e Entry) Find() backends.Ref { return e.Owed.Find(e.RunID) }

// schema is the version of the file's form.
const schema = 1

// stored is an entry's file. Fields may be added; one that a reader needs in
// order not to lose a pod raises the version.
type stored struct {
	Schema     int               `json:"schema"`
	RunID      string            `json:"run_id"`
	Owner      string            `json:"owner"`
	Dir        string            `json:"run_dir"`
	Digest     string            `json:"digest,omitempty"`
	Former     []string          `json:"former_run_ids,omitempty"`
	Pod        string            `json:"pod"`
	Kind       string            `json:"kind,omitempty"`
	State      backends.State    `json:"state"`
	Name       string            `json:"name,omitempty"`
	At         map[string]string `json:"at,omitempty"`
	Expires    time.Time         `json:"expires,omitzero"`
	USDPerHour float64           `json:"usd_per_hour,omitempty"`
	Ref        *backends.Ref     `json:"ref,omitempty"`
	Since      time.Time         `json:"since"`   // of the intent
	Changed    time.Time         `json:"changed"` // of the last transition
}

func encode(e Entry) ([]byte, error) {
	raw, err := json.MarshalIndent(stored{
		schema, e.RunID, e.Owner, e.Dir, e.Digest, e.Former,
		e.Pod, e.Kind, e.State, e.Name, e.At, e.Expires.UTC(), e.USDPerHour, e.Ref, e.Since.UTC(), e.Changed.UTC(),
	}, "", " ")
	return append(raw, '\n'), err
}

func decode(raw []byte) (Entry, error) {
	var s stored
	dec := json.NewDecoder(bytes.NewReader(raw))
	if err := dec.Decode(&s); err != nil {
		return Entry{}, err
	}
	switch {
	case s.Schema != schema:
		return Entry{}, fmt.Errorf("it has version %d, this sweep knows %d", s.Schema, schema)
	case dec.More():
		return Entry{}, errors.New("it goes on after its end")
	case s.RunID == "" || s.Pod == "" || s.State == "" || s.State == backends.Gone:
		return Entry{}, errors.New("it does not say which pod of which run is owed")
	}
	return Entry{RunID: s.RunID, Owner: s.Owner, Dir: s.Dir, Digest: s.Digest, Former: s.Former, Owed: rundir.Owed{
		Pod: s.Pod, Kind: s.Kind, State: s.State, Name: s.Name, At: s.At, Expires: s.Expires,
		USDPerHour: s.USDPerHour, Ref: s.Ref, Since: s.Since, Changed: s.Changed,
	}}, nil
}

var slug = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// fileName returns the file of a run's pod.
func fileName(run, pod string) (string, error) {
	if run == "" || !slug.MatchString(pod) {
		return "", fmt.Errorf("no entry can be of the pod %q of the run %q: want letters, digits, '.', '_' and '-'", pod, run)
	}
	return backends.RunTag(run) + "-" + pod + suffix, nil
}
