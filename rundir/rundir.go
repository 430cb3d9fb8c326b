// Package rundir is the run directory: its layout, its lock, the journal that
// is the only truth about a run, and the commit of trials.
//
// # Journal
//
// journal.jsonl has one JSON object per line, and each line has its checksum
// in front:
//
//	{"crc":"9ae0daaf","seq":1,"time":"2026-01-02T03:04:05.678Z","type":"run_created","data":{...}}
//
// crc is the CRC-32C (Castagnoli) of the line's bytes from "seq" up to and with
// the last brace, in eight lower-case hexadecimal digits. seq counts the lines
// from 1 without a gap. A line is appended with one write and fsynced before
// the side effect that it announces, so a crash leaves at most one line
// unfinished, the last one: such a tail is cut off with a warning. If a good line
// follows a bad one, something else has damaged the file, and it is refused with
// the offset of the bad line ([ErrDamaged]).
//
// The lines of this package are run_created (the [Manifest]), launch, quality_answered (the
// digest of a launch's answers), trials_added (beyond those of the plan), trial_begun, trial_discarded, trial_committed and
// pod (one transition of a pod's life); every other type belongs to the caller of [Dir.Append].
//
// # Commit
//
// The files of an attempt are written to cells/<cell>/tNN/aNN.tmp and fsynced
// one by one; result.json, written last, holds the SHA-256 of all others. Then
// the folder is fsynced, renamed to aNN, its parent fsynced, and the commit
// line, which holds the SHA-256 of result.json, is appended. A crash before the
// rename loses the attempt; a crash between the rename and the line is repaired
// by [Open], which verifies every digest and appends the line. If a trial is
// committed more than once, the last line counts.
//
// # Full disks
//
// While a run is open its directory holds a file of 1 MiB that reserves space. The
// first append that finds the disk full removes the file and is written into the
// space, which is enough for thousands of lines about pods that must be terminated.
package rundir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
)

// Errors a caller branches on.
var (
	// ErrLocked: another process has the directory; the error is a [*LockedError].
	ErrLocked = errors.New("run directory is locked")
	// ErrDamaged: the journal is broken in its middle (the error is a [*DamagedError]), or
	// another file that a run cannot do without is missing or broken.
	ErrDamaged = errors.New("run directory is damaged")
	// ErrNoRun: there is no run, or it ended before its first line was
	// durable, so that nothing was started; Create may use the directory.
	ErrNoRun = errors.New("no run in this directory")
	// ErrExists: the directory already holds a run or other files.
	ErrExists = errors.New("directory is not empty")
)

// A Manifest is the first record of a journal: what this run is.
type Manifest struct {
	RunID      string   `json:"run_id"`
	Plan       string   `json:"plan"`        // the plan's name
	PlanPath   string   `json:"plan_path"`   // absolute, as given; "-" for the standard input
	PlanDir    string   `json:"plan_dir"`    // what relative files resolve against
	PlanDigest string   `json:"plan_digest"` // of the resolved plan
	Set        []string `json:"set,omitempty"`
	AllowEnv   []string `json:"allow_env,omitempty"`
	// SendEnv is where variables of the plan may go, as NAME=HOST. It has no values.
	SendEnv  []string `json:"send_env,omitempty"`
	MaxCells int      `json:"max_cells,omitempty"`
	Only     string   `json:"only,omitempty"`
	// OnlyCells are the ids of the cells of a second measurement; nil of any other run.
	OnlyCells []string `json:"only_cells,omitempty"`
	// Variables is the digest of the environment variables that the plan reads
	// into what is no secret.
	Variables string `json:"variables,omitempty"`
	// Reuse is the run directory, absolute, of which equal trials are taken over
	// before anything is measured; see State.Reused.
	Reuse string `json:"reuse,omitempty"`
	// Decide is how objectives are decided: DecideBound or DecidePoint; "" in a run of
	// before, which had values alone.
	Decide string `json:"decide,omitempty"`
	// Engines are the engine profiles that came with the plan, by which a resume
	// knows the same engines wherever their files are by then.
	Engines []Text `json:"engines,omitempty"`
	// Manifests are the files of Kubernetes manifests of the plan, kept for the same.
	Manifests []Text `json:"manifests,omitempty"`
	Host      string `json:"host"` // where the client runs
	Owner     string `json:"owner"`
	Version   string `json:"version"` // of sweep
	// Method is [result.Method] of the program; runs older than method 2 have none.
	Method    int       `json:"method,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	Trials    int       `json:"trials"` // planned; 0 of searches, see State.Planned
	// Searches is how many searches choose the trials; 0 for a plan whose trials are known.
	Searches int `json:"searches,omitempty"`
	// Rehearsed: the directory has kept from its beginning what the simulator predicted.
	Rehearsed bool `json:"rehearsed,omitempty"`
	// Merged are the runs that this one was made of; nil if it was measured itself.
	Merged []Merged `json:"merged,omitempty"`
}

// A Merged is a run of which another one was made.
type Merged struct {
	RunID   string `json:"run_id"`
	Dir     string `json:"dir"` // absolute, where it was then
	Host    string `json:"host"`
	Journal string `json:"journal_sha256"` // which names the digests of all that was measured
	Trials  int    `json:"trials"`         // that were taken
	// Merged are the runs of which that one was made, if any.
	Merged []Merged `json:"merged,omitempty"`
}

// How the objectives of a run are decided.
const (
	DecideBound = "bound" // by bounds on what was measured
	DecidePoint = "point" // by the values of their columns alone
)

// A Text is a small file that a run keeps.
type Text struct {
	Name string `json:"name"`
	Text []byte `json:"text"` // base64 in JSON
}

// A Key names one trial.
type Key struct {
	Cell  string `json:"cell"`
	Trial int    `json:"trial"` // from 1
}

func (k Key) String() string { return k.Cell + "/" + layout.Trial(k.Trial) }

// An AttemptKey names one attempt at a trial.
type AttemptKey struct {
	Key
	Attempt int `json:"attempt"` // from 1
}

func (a AttemptKey) String() string { return a.Key.String() + "/" + layout.Attempt(a.Attempt) }

// A Commit is a committed trial, as the journal has it.
type Commit struct {
	Key
	Attempt int    `json:"attempt"`
	Status  string `json:"status"`
	SHA256  string `json:"sha256"` // of result.json
	Digest  string `json:"spec_digest"`
}

// A Dir is a run directory that this process has locked for writing. Its
// methods may be called concurrently.
//
// A context that is done keeps Begin, Commit and a ledger's Intent from
// starting something new. What has happened is written down all the same:
// Append, Discard and the rest of a ledger look at no cancellation.
type Dir struct {
	fx      *effect.Effects
	path    string // absolute
	root    *os.Root
	files   *effect.Root
	lock    *effect.File
	journal *journal

	mu      sync.Mutex
	durable map[string]bool // folders that this process has seen fsynced in their parents

	deriving map[string]*sync.Mutex // of each derived file, under mu
}

// A File is one that a run directory has from its beginning.
type File struct {
	Name string
	Data []byte
}

// Create makes a new run directory with its plan, its resolved plan, other files if there are
// any, and then the first line of its journal, and locks it. It fails with ErrExists where
// dir holds anything but the leftovers of a Create that did not come to its end.
func Create(fx *effect.Effects, dir string, m Manifest, plan, resolved []byte, others ...File) (_ *Dir, err error) {
	// Before it is locked: a lock file must not appear in a folder that is no run.
	if err := Vacant(dir); err != nil {
		return nil, err
	}
	if err := fx.MkdirAll(effect.RunMkdir, dir); err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	d, err := attach(fx, dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.release())
		}
	}()
	if err := vacant(d.path); err != nil { // another process may have made a run here
		return nil, err
	}
	for _, f := range append([]File{{layout.Plan, plan}, {layout.Resolved, resolved}}, others...) {
		err := d.files.WriteFileAtomic(effect.SetupCreate, f.Name, func(w io.Writer) error {
			_, err := w.Write(f.Data)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", f.Name, err)
		}
	}
	if err := d.openJournal(0, 0); err != nil {
		return nil, err
	}
	if err := d.journal.reserve(); err != nil {
		return nil, fmt.Errorf("set space aside: %w", err)
	}
	// The journal's own entry has to be durable before its first line counts.
	if err := d.files.SyncDir(effect.RunDirsync, "."); err != nil {
		return nil, err
	}
	if err := d.journal.append(effect.ManifestJournal, typeCreated, m); err != nil {
		return nil, err
	}
	return d, nil
}

// Open locks an existing run directory and recovers it: it cuts a torn tail
// off the journal, adopts attempts that were renamed but not journaled,
// discards the ones that were not finished, and reports committed trials whose
// files no longer match (State.Broken). ErrLocked (with pid, host and
// start of the holder) where another process has it; ErrDamaged where the
// journal is broken in its middle; ErrNoRun if nothing was begun.
func Open(fx *effect.Effects, dir string) (_ *Dir, _ *State, err error) {
	// Look before locking: a lock file must not appear in a folder that is no run.
	if _, err := os.Stat(filepath.Join(dir, layout.Journal)); err != nil {
		return nil, nil, noRun(dir, err)
	}
	d, err := attach(fx, dir)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.release())
		}
	}()
	st, err := d.recover()
	if err != nil {
		return nil, nil, fmt.Errorf("recover %s: %w", dir, err)
	}
	return d, st, nil
}

// attach opens and locks a directory.
func attach(fx *effect.Effects, dir string) (*Dir, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	files := fx.In(root)
	lock, err := acquire(files, path)
	if err != nil {
		_ = root.Close() // read only
		return nil, err
	}
	return &Dir{fx: fx, path: path, root: root, files: files, lock: lock, durable: map[string]bool{".": true}}, nil
}

// Vacant fails with ErrExists if dir holds a run or other files, as Create would,
// and changes nothing. It says nothing of a directory that is missing, or that
// another process has locked.
func Vacant(dir string) error {
	if holder, err := LockHolder(dir); holder != nil || err != nil {
		return err
	}
	if err := vacant(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// vacant fails if the directory at path holds a run or anything foreign.
func vacant(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case layout.Lock, layout.Plan, layout.Resolved, layout.Rehearsal, layout.Reserved,
			effect.Temp(layout.Plan), effect.Temp(layout.Resolved), effect.Temp(layout.Rehearsal):
		case layout.Journal:
			data, err := os.ReadFile(filepath.Join(path, layout.Journal))
			if err != nil {
				return err
			}
			if s, err := scan(data); err != nil || len(s.events) > 0 {
				return fmt.Errorf("%s: %w: it holds a run", path, ErrExists)
			}
		default:
			return fmt.Errorf("%s: %w: it holds %s", path, ErrExists, e.Name())
		}
	}
	return nil
}

// Path returns the directory, absolute.
func (d *Dir) Path() string { return d.path }

// Append writes one event, durably. typ is snake_case and not one of this
// package's own types; data is an object in JSON, or nil. After an error of
// fsync nothing more can be appended, since it is unknown what is on disk.
func (d *Dir) Append(_ context.Context, typ string, data any) error {
	if !eventType.MatchString(typ) {
		return fmt.Errorf("append: event type %q is not snake_case", typ)
	}
	if reserved(typ) {
		return fmt.Errorf("append: event type %q is written by package rundir alone", typ)
	}
	return d.journal.append(effect.EventJournal, typ, data)
}

// AddTrials gives the run trials beyond those of its plan, durably: a run that goes on has
// them too.
func (d *Dir) AddTrials(trials []Key) error {
	return d.journal.append(effect.EventJournal, typeAdded, added{trials})
}

// WriteCalibration keeps what was found out about the client of this run, as
// [layout.Calibration], atomically.
func (d *Dir) WriteCalibration(found any) error {
	err := d.files.WriteFileAtomic(effect.SetupCreate, layout.Calibration, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", " ")
		return enc.Encode(found)
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", layout.Calibration, err)
	}
	return nil
}

// LaunchDir journals the launch n, from 1, of a deployment, makes
// deployments/<id>/lNN/ and returns its absolute path.
func (d *Dir) LaunchDir(deployment string, n int) (string, error) {
	name, err := launchName(deployment, n)
	if err != nil {
		return "", err
	}
	l := launch{Deployment: deployment, N: n}
	if err := d.journal.append(effect.LaunchJournal, typeLaunch, l); err != nil {
		return "", err
	}
	if err := d.mkdirNew(effect.LaunchMkdir, name); err != nil {
		return "", err
	}
	if err := d.settle(effect.LaunchMkdir, name); err != nil {
		return "", err
	}
	return filepath.Join(d.path, name), nil
}

// Derive writes one derived file atomically: a reader sees the old one or the
// new one. name is the file's own, without a folder. Files of several names may be
// written at the same time.
func (d *Dir) Derive(name string, write func(io.Writer) error) error {
	if err := checkDerived(name); err != nil {
		return err
	}
	lock := d.derivation(name)
	lock.Lock()
	defer lock.Unlock()
	if err := d.files.WriteFileAtomic(effect.DeriveCreate, name, write); err != nil {
		return fmt.Errorf("derive %s: %w", name, err)
	}
	return nil
}

// derivation returns the lock of a derived file, which has one writer at a time.
func (d *Dir) derivation(name string) *sync.Mutex {
	d.mu.Lock()
	defer d.mu.Unlock()
	lock, ok := d.deriving[name]
	if !ok {
		if d.deriving == nil {
			d.deriving = map[string]*sync.Mutex{}
		}
		lock = &sync.Mutex{}
		d.deriving[name] = lock
	}
	return lock
}

// Close releases the lock. Attempts that are still being written stay behind
// for the next Open, which discards them. No other method may be called after it.
func (d *Dir) Close() error {
	return errors.Join(d.journal.freeReserved(), d.release())
}

// A launch is the data of a launch event.
type launch struct {
	Deployment string `json:"deployment"`
	N          int    `json:"n"`
}
